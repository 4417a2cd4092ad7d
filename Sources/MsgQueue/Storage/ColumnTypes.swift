import CSQLite

/// The types of the values in `message`. The table is STRICT, so that another type in the file is damage: SQLite converts the value when it is
/// read, and the checksum of the row may agree, but every UPDATE of the row fails.
enum ColumnTypes {
    /// The permitted types of each column, by its position, as bits with the numbers of the types.
    private static let permitted: [UInt8] = MessageColumn.allCases.map { column in
        let type = MessageColumn.texts.contains(column) ? SQLITE_TEXT : column == .body ? SQLITE_BLOB : SQLITE_INTEGER
        return 1 << UInt8(type) | (MessageColumn.optional.contains(column) ? 1 << UInt8(SQLITE_NULL) : 0)
    }

    /// Whether the values of the current row have the types of their columns. Must be called before a value is read.
    static func agree(_ fields: Fields<MessageColumn>) -> Bool { fields.statement.hasTypes(permitted) }

    /// The condition that a value of a row has another type.
    private static let differ = SQL(
        MessageColumn.allCases.map { column in
            let name = SQL(stringLiteral: column.title)
            let type: SQL = MessageColumn.texts.contains(column) ? "'text'" : column == .body ? "'blob'" : "'integer'"
            return MessageColumn.optional.contains(column) ? "typeof(\(name)) NOT IN (\(type), 'null')" : "typeof(\(name)) != \(type)"
        } + ["typeof(indexed) != 'integer'"], " OR ")

    private static let converted = SQL(
        MessageColumn.allCases.filter { $0 != .seq }.map { column in
            let name = SQL(stringLiteral: column.title)
            switch column {
            case .body: return "body = CAST(body AS BLOB)"
            case .status:
                let status: SQL = "ifnull(CAST(status AS INTEGER), 0)"
                return "status = CASE WHEN \(status) IN (\(StoredStatus.allCases)) THEN \(status) ELSE \(.failed) END"
            case _ where MessageColumn.optional.contains(column): return "\(name) = CAST(\(name) AS TEXT)"
            case _ where MessageColumn.texts.contains(column): return "\(name) = ifnull(CAST(\(name) AS TEXT), '')"
            default: return "\(name) = ifnull(CAST(\(name) AS INTEGER), 0)"
            }
        } + ["indexed = ifnull(CAST(indexed AS INTEGER), 0)"], ", ")

    /// Write the values of rows as they are read, with the types of their columns: of all rows, and of one.
    static let convertAll: SQL = "UPDATE message SET \(converted) WHERE \(differ)"
    static let convertOne: SQL = "UPDATE message SET \(converted) WHERE seq = ?1 AND (\(differ))"
}
