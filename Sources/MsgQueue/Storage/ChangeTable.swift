/// The table `change` of the feed of changes. It exists in stores that were opened with the option `keep_changes`. A row has the changes of
/// one commit, or of a part of it (`ChangeRows`). The row at 0 is the head: how many changes are kept (0: the feed is off), the epoch, and the
/// first position of the epoch.
struct ChangeTable {
    static let lastPosition: Int64 = 1 << 60
    // The store owns the database, and the feed.
    private unowned let database: Database

    init(_ database: Database) { self.database = database }

    func exists() throws(QueueError) -> Bool { try database.hasObject("change") }

    func create() throws(QueueError) { try database.execute(Schema.changeTable) }

    // MARK: Reading

    /// Returns the head; nil: there is none, or it is damaged.
    func head() throws(QueueError) -> StoredChanges? {
        guard try exists() else { return nil }
        let statement = try database.statement("SELECT \(ChangeColumn.self) FROM change WHERE first = 0")
        return try statement.first { () throws(QueueError) in StoredChanges(statement) } ?? nil
    }

    /// Returns the first row; nil: there is none, or it is damaged.
    func first() throws(QueueError) -> StoredChanges? {
        let statement = try database.statement(
            "SELECT \(ChangeColumn.self) FROM change WHERE first > 0 ORDER BY first LIMIT 1")
        return try statement.first { () throws(QueueError) in StoredChanges(statement) } ?? nil
    }

    /// The same of the last row.
    func last() throws(QueueError) -> StoredChanges? {
        let statement = try database.statement(
            "SELECT \(ChangeColumn.self) FROM change WHERE first > 0 ORDER BY first DESC LIMIT 1")
        return try statement.first { () throws(QueueError) in StoredChanges(statement) } ?? nil
    }

    /// Whether there are no changes.
    func isEmpty() throws(QueueError) -> Bool {
        let rows = try database.statement("SELECT 1 FROM change WHERE first > 0 LIMIT 1")
        return try rows.first { () throws(QueueError) in true } == nil
    }

    /// Returns where the row with this position begins; nil or 0: there is none.
    func start(of position: Int64) throws(QueueError) -> Int64? {
        let search = try database.statement("SELECT max(first) FROM change WHERE first > 0 AND first <= ?1")
        search.bind(1, position)
        return try search.first { () throws(QueueError) in search.int(0) }
    }

    /// Calls `body` for each change from a position on, through `last`, until it returns false. Throws `corrupt`.
    func forEach(
        from position: Int64, through last: Int64, _ body: (StoredChanges, Int64, ChangeRows.Change, UInt64) -> Bool
    ) throws(QueueError) {
        let damage = QueueError(.corrupt, "the feed of changes is damaged")
        guard var next = try start(of: position), next > 0 else { throw damage }
        let statement = try database.statement(
            "SELECT \(ChangeColumn.self) FROM change WHERE first >= ?1 ORDER BY first")
        statement.bind(1, next)
        var isFound = false
        try statement.forEach { () throws(QueueError) in
            guard let row = StoredChanges(statement), row.first == next else { throw damage }
            var reader = ChangeReader(row.rows)
            while next < row.end {
                guard next <= last else { return false }
                guard let (change, bytes) = reader.next() else { throw damage }
                if next >= position {
                    isFound = true
                    guard body(row, next, change, row.check(of: bytes, at: next)) else { return false }
                }
                next += 1
            }
            guard reader.isAtEnd else { throw damage }
            return next <= last
        }
        guard isFound else { throw damage }
    }

    // MARK: Writing

    func insert(_ row: StoredChanges, _ changes: UnsafeRawBufferPointer) throws(QueueError) {
        try run(
            try database.statement(
                "INSERT INTO change(\(ChangeColumn.self)) VALUES(\(parameters: ChangeColumn.self))"), row, changes)
    }

    /// Writes the head.
    func write(_ head: StoredChanges) throws(QueueError) {
        let statement = try database.statement(
            "INSERT OR REPLACE INTO change(\(ChangeColumn.self)) VALUES(\(parameters: ChangeColumn.self))")
        try run(statement, head, UnsafeRawBufferPointer(start: nil, count: 0))
    }

    private func run(_ statement: Statement, _ row: StoredChanges, _ changes: UnsafeRawBufferPointer) throws(QueueError) {
        let fields = Fields<ChangeColumn>(statement)
        fields.bind(.first, row.first)
        fields.bind(.count, row.count)
        fields.bind(.at, row.at)
        fields.bind(.salt, row.salt)
        fields.bind(.bytes, row.bytes)
        try fields.bind(.rows, borrowing: changes)
        fields.bind(.checksum, row.checksum(changes))
        try statement.run()
    }

    /// Removes the rows before one.
    func remove(before first: Int64) throws(QueueError) {
        let removal = try database.statement("DELETE FROM change WHERE first > 0 AND first < ?1")
        removal.bind(1, first)
        try removal.run()
    }

    func removeAll() throws(QueueError) { try database.execute("DELETE FROM change") }
}

/// A row of the table `change`.
struct StoredChanges {
    let first: Int64
    let count: Int64
    let at: Int64
    /// A random number of the session that wrote it: another history of the store has another one. In the head the epoch.
    let salt: Int64
    /// Of the changes in this row and all before it. In the head the first position of the epoch.
    let bytes: Int64
    let rows: [UInt8]

    /// Reads a row with all columns in order; nil: it is damaged.
    init?(_ statement: Statement) {
        let fields = Fields<ChangeColumn>(statement)
        (first, count, at) = (fields.int(.first), fields.int(.count), fields.int(.at))
        (salt, bytes, rows) = (fields.int(.salt), fields.int(.bytes), fields.blob(.rows))
        guard fields.int(.checksum) == rows.withUnsafeBytes(checksum) else { return nil }
        guard count >= 0, first >= 0, first <= ChangeTable.lastPosition, count <= ChangeTable.lastPosition else { return nil }
    }

    /// A row that is written without a copy of its changes.
    init(first: Int64, count: Int64, at: Int64, salt: Int64, bytes: Int64) {
        (self.first, self.count, self.at, self.salt, self.bytes, rows) = (first, count, at, salt, bytes, [])
    }

    func checksum(_ changes: UnsafeRawBufferPointer) -> Int64 {
        var checksum = Checksum()
        checksum.add(first)
        checksum.add(count)
        checksum.add(at)
        checksum.add(salt)
        checksum.add(bytes)
        checksum.add(changes)
        return checksum.stored
    }

    /// The position after its last change.
    var end: Int64 { first &+ count }

    func check(of change: ArraySlice<UInt8>, at position: Int64) -> UInt64 {
        var checksum = Checksum()
        checksum.add(salt)
        checksum.add(position)
        change.withUnsafeBytes { checksum.add($0) }
        // 0 says that there was no row.
        return max(checksum.value, 1)
    }
}
