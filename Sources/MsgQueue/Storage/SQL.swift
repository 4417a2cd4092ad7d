/// The text of a statement. Lists of columns, statuses and flags are interpolated by their Swift names.
struct SQL: ExpressibleByStringInterpolation {
    let text: String

    init(stringLiteral text: String) { self.text = text }
    init(stringInterpolation parts: Parts) { text = parts.text }
    init(_ parts: [SQL], _ separator: String) { text = parts.map(\.text).joined(separator: separator) }

    /// Returns the condition that two tables have the same value in a column.
    static func equal(_ first: SQL, _ second: SQL, _ column: String) -> SQL {
        SQL(stringLiteral: "\(first.text).\(column) = \(second.text).\(column)")
    }

    struct Parts: StringInterpolationProtocol {
        fileprivate var text = ""

        init(literalCapacity: Int, interpolationCount: Int) { text.reserveCapacity(literalCapacity + 32 * interpolationCount) }

        mutating func appendLiteral(_ literal: String) { text += literal }

        /// Appends a status as a literal: SQLite uses a partial index only if the query has the same literal.
        mutating func appendInterpolation(_ status: StoredStatus) { text += "\(status.rawValue)" }

        /// Appends a list such as `2, 3`, for `IN (…)`.
        mutating func appendInterpolation(_ statuses: [StoredStatus]) { append(statuses.map { "\($0.rawValue)" }) }

        mutating func appendInterpolation(bit status: StoredStatus) { text += "\(status.bit)" }

        mutating func appendInterpolation(flag: RowFlags) { text += "\(flag.rawValue)" }

        /// Appends the names of the columns, for SELECT and for the columns of INSERT.
        mutating func appendInterpolation<Column: Columns>(_ columns: Column.Type) { append(columns.names) }

        /// Appends the names of some columns.
        mutating func appendInterpolation<Column: Columns>(names columns: [Column]) { append(columns.map(\.title)) }

        /// Appends a 0 for each of the columns.
        mutating func appendInterpolation<Column: Columns>(zeros columns: [Column]) { append(columns.map { _ in "0" }) }

        /// Appends so many rows of consecutive parameters, `(?1, ?2), (?3, ?4)`, for VALUES.
        mutating func appendInterpolation<Column: Columns>(rows: Int, of columns: [Column]) {
            appendInterpolation(rows: rows, width: columns.count)
        }

        mutating func appendInterpolation(rows: Int, width: Int) {
            append((0..<rows).map { row in "(" + (1...width).map { "?\(row * width + $0)" }.joined(separator: ", ") + ")" })
        }

        /// Appends the first parameters, `?1, ?2`.
        mutating func appendInterpolation(first count: Int) { append((0..<count).map { "?\($0 + 1)" }) }

        mutating func appendInterpolation(number: some BinaryInteger) { text += "\(number)" }

        /// Appends the parameters of the columns, for the values of INSERT.
        mutating func appendInterpolation<Column: Columns>(parameters columns: Column.Type) {
            append(columns.allCases.map { "?\($0.parameter)" })
        }

        /// Appends `name = parameter` for each column, for UPDATE.
        mutating func appendInterpolation<Column: Columns>(set columns: [Column]) {
            append(columns.map { "\($0.title) = ?\($0.parameter)" })
        }

        /// Appends `name = name + parameter` for each column, for UPDATE.
        mutating func appendInterpolation<Column: Columns>(add columns: [Column]) {
            append(columns.map { "\($0.title) = \($0.title) + ?\($0.parameter)" })
        }

        mutating func appendInterpolation<Column: Columns>(parameter column: Column) { text += "?\(column.parameter)" }

        mutating func appendInterpolation(_ part: SQL) { text += part.text }

        private mutating func append(_ list: [String]) { text += list.joined(separator: ", ") }
    }
}
