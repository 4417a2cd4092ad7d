/// A list of columns that a statement reads or binds. A case is named as its column, `createdAt` for `created_at`; its number is the
/// column's position among the results, and its parameter has the next number. So the list alone decides the order.
protocol Columns: CaseIterable, Hashable, CodingKey, RawRepresentable<Int> {
    /// In the order of the cases; made once, by `columnNames()`.
    static var names: [String] { get }
    /// The columns that layout 2 added, with what stands for them in layout 1.
    static var addedInLayout2: [Self: String] { get }
}

extension Columns {
    static var addedInLayout2: [Self: String] { [:] }

    /// The columns as a store of that layout can be asked for them.
    static func list(ofLayout layout: Int64) -> String {
        let columns = zip(allCases, names).map { column, name in layout < 2 ? addedInLayout2[column] ?? name : name }
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

/// A statement as one list of columns sees it.
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

    // MARK: Parameters

    func bind(_ column: Column, _ value: Int64) { statement.bind(column.parameter, value) }
    func bind(_ column: Column, _ value: Bool) { statement.bind(column.parameter, value) }
    func bind(_ column: Column, _ value: String?) throws(QueueError) { try statement.bind(column.parameter, value) }

    /// The bytes must stay where they are until the statement has run.
    func bind(_ column: Column, borrowing bytes: UnsafeRawBufferPointer?) throws(QueueError) {
        try statement.bind(column.parameter, borrowing: bytes)
    }
}
