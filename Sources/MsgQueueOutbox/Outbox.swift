import MsgQueue

/// An outbox in the program's own SQLite database: a message is put in the transaction that writes what it belongs to, so that both exist or
/// neither, and is collected into a queue later, exactly once. See <doc:MsgQueueOutbox>.
///
/// It uses the connection of the program, and follows its rules for threads: call an outbox only where the connection may be used. It opens
/// and closes no database, sets no hook, and keeps no statement.
public struct Outbox {
    /// The rows and bytes that are read at a time.
    private static let (mostRows, mostBytes) = (1000, 16 << 20)

    /// The statements that create the tables, for the program's migrations. They change nothing if the tables exist.
    public static var schema: String { SQL.schema }

    private let connection: HostConnection

    /// Creates an outbox. Reads and writes nothing.
    ///
    /// - Parameters:
    ///   - connection: An open connection to the database, `sqlite3 *` in C.
    ///   - sqlite: The functions of the SQLite that opened it.
    public init(connection: OpaquePointer, sqlite: SQLite = .linked) {
        self.connection = HostConnection(handle: connection, sqlite: sqlite)
    }

    // MARK: Putting

    /// Puts a message into the outbox, in the transaction of the program; without one it is a transaction of its own. The message exists
    /// when that commits, also after a rollback of the program to a savepoint before.
    ///
    /// A start and an expiry that are durations count from this call. `sqlite3_last_insert_rowid` stays as it was. Begin with BEGIN IMMEDIATE: a transaction that reads first, and writes
    /// when another one has written, gets `SQLITE_BUSY` at once, whatever the busy time-out is.
    ///
    /// - Returns: The id: that of the draft, or a new UUIDv7.
    /// - Throws: `.duplicate`, if the outbox has the id; the transaction stays usable. `.invalid` and `.tooLarge`, if no queue would keep the
    ///   message. `.tooNew`, if a later version made the tables. Errors of SQLite with their ``Error/databaseCode``.
    @discardableResult
    public func put(_ draft: MessageQueue.Draft) throws(Error) -> String {
        let now = MessageQueue.Timestamp.now.millisecondsSince1970
        let id =
            draft.id ?? MessageID.make(sequence: .random(in: 0...MessageID.sequenceCeiling), now: now, random: .random(in: 0 ... .max))
        let values = try queueCall { () throws(MessageQueue.Error) in try Row.values(draft, id: id, now: now) }
        let last = connection.lastInsertRowid
        // An insertion whose commit or trigger fails changes it, too.
        defer { connection.restore(lastInsertRowid: last) }
        try connection.run(SQL.insert, each: [values])
        guard connection.changes == 0 else { return id }
        _ = try connection.source()
        throw Error(.duplicate, "the outbox has a message with the id \(id)")
    }

    // MARK: Collecting

    /// Moves messages from the outbox into the queue, in the order in which they were put, and returns how many. Returns at once if there are
    /// none. It blocks the thread.
    ///
    /// Whatever interrupts it, no message is lost or taken over twice, whatever became of it in the queue. What the queue cannot keep stays in
    /// the table with its reason in the column `refused`; it is not read again until that is NULL. Its commits survive power loss, unless the
    /// program has turned off flushes or journals.
    ///
    /// - Parameters:
    ///   - queue: The queue, always the same one for a database.
    ///   - limit: The most rows to read; more are left for the next call.
    /// - Throws: `.conflict`, inside a transaction, or if another collector of this database was faster. `.full` (what there is room for
    ///   was moved) and other errors of `takeOver(_:_:)`. Errors of SQLite with their ``Error/databaseCode``. After an error call it again.
    @discardableResult
    public func collect(into queue: MessageQueue, limit: Int = 10_000) throws(Error) -> Int {
        guard limit > 0 else { throw Error(.invalid, "limit must be positive, got \(limit)") }
        guard !connection.isInTransaction else { throw Error(.conflict, "collect must be called outside of a transaction") }
        let source = try connection.source()
        let look = try queueCall { () throws(MessageQueue.Error) in try queue.handedOver(source: source) }
        var step = Step()
        step.ids = look.entries.filter { $0.error == nil }.map(\.id)[...]
        // Its columns are checked also if it is empty.
        _ = try connection.prepare(SQL.rows)
        guard try connection.integer(SQL.isNumbered) != nil else {
            throw Error(.corrupt, "the tables are not those of an outbox: number is not AUTOINCREMENT")
        }
        let hasRows = try connection.integer(SQL.hasRows) != nil
        guard hasRows || !step.ids.isEmpty else { return 0 }
        return try connection.durably { () throws(Error) in try move(step, queue, look, limit: limit) }
    }

    /// Each transaction deletes what the one before it has handed over, and reads more.
    private func move(
        _ first: Step, _ queue: MessageQueue, _ look: MessageQueue.HandOver, limit: Int
    ) throws(Error) -> Int {
        var (step, left, moved) = (first, limit, 0)
        while true {
            let isLast = step.ids.count <= Self.mostRows
            let found = try connection.transaction { () throws(Error) in
                try remove(step)
                return isLast ? try read(min(left, Self.mostRows)) : nil
            }
            step = Step(ids: step.ids.dropFirst(Self.mostRows))
            guard let found else { continue }
            try queueCall { () throws(MessageQueue.Error) in try queue.handOverDone(look) }
            guard found.count > 0 else { return moved }
            left -= found.count
            guard !found.rows.isEmpty else { continue }
            for (row, error) in try takeOver(found.rows, queue, look) {
                guard let error, error.code != .duplicate else {
                    step.numbers.append(row.number)
                    moved += 1
                    continue
                }
                step.refusals.append(Refusal(number: row.number, reason: error.detail))
            }
        }
    }

    /// Hands rows over, and returns what became of them: of all, or of as many as there is room for.
    private func takeOver(
        _ rows: [Row], _ queue: MessageQueue, _ look: MessageQueue.HandOver
    ) throws(Error) -> [(Row, MessageQueue.Error?)] {
        var some = rows[...]
        while true {
            do throws(MessageQueue.Error) {
                return Array(zip(some, try queue.takeOver(some.map(\.draft), look)))
            } catch {
                guard error.code == .full, some.count > 1 else { throw Error(error) }
                some = some.prefix(some.count / 2)
            }
        }
    }

    /// What the next transaction changes.
    private struct Step {
        /// Messages that the queue had taken over before.
        var ids: ArraySlice<String> = []
        /// Rows whose messages the queue has taken over.
        var numbers: [Int64] = []
        var refusals: [Refusal] = []
    }

    private struct Found {
        var rows: [Row] = []
        var count = 0
    }

    private func remove(_ step: Step) throws(Error) {
        try connection.run(SQL.touch)
        try change(SQL.deleteID, each: step.ids.prefix(Self.mostRows).map { [.text($0)] }, find: SQL.findID)
        try change(SQL.deleteNumber, each: step.numbers.map { [.integer($0)] }, find: SQL.findNumber)
        try refuse(step.refusals)
    }

    /// Deletes or refuses rows, each by the first of its parameters. The host may have deleted a row before, but a trigger of the host must
    /// not keep it, because it would be collected again. `find`: finds a row that was kept.
    private func change(_ sql: String, each parameters: [[Statement.Value]], find: String) throws(Error) {
        guard !parameters.isEmpty else { return }
        let statement = try connection.prepare(sql)
        for values in parameters {
            try statement.run(values)
            guard connection.changes == 0 else { continue }
            let kept = try connection.prepare(find)
            try kept.run(Array(values.prefix(1))) { _ throws(Error) in
                throw Error(.conflict, "the outbox: a trigger keeps a row that was collected as it is")
            }
        }
    }

    private func refuse(_ refusals: [Refusal]) throws(Error) {
        try change(SQL.refuse, each: refusals.map { [.integer($0.number), .text($0.reason)] }, find: SQL.findNumber)
        guard let first = refusals.first else { return }
        Log.warning("\(refusals.count) messages of the outbox cannot be kept, the first: \(first.reason)")
    }

    /// Reads rows. They are read in a transaction that writes, because its commit flushes exactly what it has seen.
    private func read(_ limit: Int) throws(Error) -> Found {
        var (found, refusals, bytes) = (Found(), [Refusal](), 0)
        try select(limit) { row throws(Error) in
            found.count += 1
            switch try Row.read(row) {
            case .refused(let refusal): refusals.append(refusal)
            case .row(let row):
                found.rows.append(row)
                bytes += row.draft.body.count
            }
            return bytes < Self.mostBytes
        }
        try refuse(refusals)
        return found
    }

    /// The statement is finalized when this returns: an open one would keep the database's log from being reused.
    private func select(_ limit: Int, _ row: (borrowing Statement) throws(Error) -> Bool) throws(Error) {
        let statement = try connection.prepare(SQL.rows)
        try statement.run([.integer(Int64(limit))], row: row)
    }
}
