/// A list of columns that a statement reads or binds. A case is named after its column, `createdAt` for `created_at`. Its raw value is the
/// index of the result column; the number of its parameter is one more. So the list alone determines the order.
protocol Columns: CaseIterable, Hashable, CodingKey, RawRepresentable<Int> {
    /// The column names in the order of the cases. Computed once, by `columnNames()`.
    static var names: [String] { get }
    /// The columns that an upgrade added: the first layout that has them, and the expression that replaces them when an older store is read.
    static var added: [Self: (layout: Int64, value: String)] { get }
}

extension Columns {
    static var added: [Self: (layout: Int64, value: String)] { [:] }

    /// Returns the select list for a store of the given layout.
    static func list(ofLayout layout: Int64) -> String {
        let columns = zip(allCases, names).map { column, name in
            if let later = added[column], layout < later.layout { later.value } else { name }
        }
        return columns.joined(separator: ", ")
    }

    static func columnNames() -> [String] {
        allCases.map { column in
            column.stringValue.reduce(into: "") { name, letter in
                if letter.isUppercase { name += "_" }
                name += letter.lowercased()
            }
        }
    }

    static var count: Int32 { Int32(truncatingIfNeeded: allCases.count) }

    /// The column's name in the table.
    var title: String { Self.names[rawValue] }
    var position: Int32 { Int32(truncatingIfNeeded: rawValue) }
    var parameter: Int32 { position + 1 }
}

/// Access to a statement by the columns of one list.
struct Fields<Column: Columns> {
    let statement: Statement

    init(_ statement: Statement) { self.statement = statement }

    // MARK: Results

    func int(_ column: Column) -> Int64 { statement.int(column.position) }
    func bool(_ column: Column) -> Bool { statement.bool(column.position) }
    func isNull(_ column: Column) -> Bool { statement.isNull(column.position) }
    func text(_ column: Column) -> String { statement.text(column.position) }
    func optionalText(_ column: Column) -> String? { isNull(column) ? nil : text(column) }
    func blob(_ column: Column) -> [UInt8] { statement.blob(column.position) }
    func follows(_ column: Column, _ last: inout [UInt8]?) -> Bool { statement.follows(column.position, &last) }

    // MARK: Parameters

    func bind(_ column: Column, _ value: Int64) { statement.bind(column.parameter, value) }
    func bind(_ column: Column, _ value: Bool) { statement.bind(column.parameter, value) }
    func bind(_ column: Column, _ value: String?) throws(QueueError) { try statement.bind(column.parameter, value) }

    /// Binds without copying: `bytes` must stay valid until the statement has run.
    func bind(_ column: Column, borrowing bytes: UnsafeRawBufferPointer?) throws(QueueError) {
        try statement.bind(column.parameter, borrowing: bytes)
    }
}
