@testable import MsgQueue

/// A store in a temporary directory, for tests below the engine.
final class StoreBench {
    let directory = TemporaryDirectory()
    private(set) var store: Store
    private var random = SeededGenerator(1)
    private var isOpen = true
    var now: Int64 = 1_700_000_000_000

    /// `vacuumsInSteps`: false in stores of development versions.
    init(pageSize: Int64 = StoreCreation.pageSizes[0], vacuumsInSteps: Bool = true) throws {
        if pageSize != StoreCreation.pageSizes[0] || !vacuumsInSteps {
            let image = try StoreCreation.image(usesLog: true, pageSize: pageSize, vacuumsInSteps: vacuumsInSteps)
            try FileBytes.write(image, to: directory.store)
        }
        store = try Store(path: directory.store, options: Options())
    }

    /// Makes a store of layout 2 of a closed one without times.
    static let asLayout2 =
        ["message_time", "message_time_in", "conversation_time", "message_deferred", "message_due"].map { "DROP INDEX \($0)" }
        + ["DROP INDEX message_ordered", "CREATE INDEX message_queued ON message(seq) WHERE indexed = 1 AND status = 0"]
        + ["title", "failure", "failure_count", "handed_over"].map { "DROP TABLE \($0)" }
        + Schema.additionsOf3.filter { $0.hasPrefix("ALTER") }.map { statement in
            let words = statement.split(separator: " ")
            return "ALTER TABLE \(words[2]) DROP COLUMN \(words[5])"
        } + ["PRAGMA user_version = 2"]

    deinit { if isOpen { store.close(clean: false) } }

    func close(clean: Bool = true) {
        guard isOpen else { return }
        store.close(clean: clean)
        isOpen = false
    }

    func copy(to path: String) throws(QueueError) {
        let copy = try store.copy(to: path)
        do throws(QueueError) {
            while try copy.step() {}
            try copy.finish()
        } catch {
            copy.abandon()
            throw error
        }
    }

    /// The number of frames of the log that are not checkpointed.
    var logFrames: Int32 { store.database.log?.frames ?? 0 }

    /// Closes the store, or leaves it as a crash does, and opens it again.
    func reopen(clean: Bool = true) throws {
        close(clean: clean)
        store = try Store(path: directory.store, options: Options())
        isOpen = true
    }

    /// Runs `body` in one transaction, which is rolled back when it throws.
    @discardableResult
    func transaction<T>(_ body: (Store) throws -> T) throws -> T {
        try store.begin()
        do {
            let value = try body(store)
            try store.commit(durable: false)
            return value
        } catch {
            store.rollback()
            throw error
        }
    }

    /// Inserts a message. The caller has begun a transaction.
    func insert(
        _ conversation: Name = "a", _ body: [UInt8] = [], id: String? = nil, metadata: [(key: String, value: String)] = [],
        notBefore: Int64 = 0, expiresAt: Int64 = 0, unmeteredOnly: Bool = false
    ) throws -> Row {
        let number = random.next()
        // The store uses the bytes only during the insert.
        return try body.withUnsafeBytes { bytes in
            let draft = BorrowedDraft(
                id: id, conversation: conversation, body: bytes, metadata: metadata, notBefore: notBefore, expiresAt: expiresAt,
                unmeteredOnly: unmeteredOnly)
            return try store.insertion.insert(draft, now: now, random: number)
        }
    }

    /// Inserts one message in its own transaction.
    @discardableResult
    func add(_ conversation: Name = "a", _ body: [UInt8] = [], id: String? = nil, metadata: [(key: String, value: String)] = []) throws
        -> Row
    {
        try transaction { _ in try insert(conversation, body, id: id, metadata: metadata) }
    }

    func row(_ sequence: Int64, _ part: MessageTable.Part = .whole) throws -> Row? { try store.messages.row(at: sequence, part) }

    /// Writes `progress`, with a receipt only after the message was sent. The caller has begun a transaction.
    func move(_ row: Row, to progress: Progress) throws {
        var row = row
        if row.progress.status.isUnsent, progress.status == .delivered || progress.status == .read {
            var sent = progress
            sent.status = .sent
            try store.messages.update(row, to: sent)
            row.progress = sent
        }
        try store.messages.update(row, to: progress)
    }

    /// Runs a query over the store's connection, the only one while the store is open.
    func rows(_ sql: String) throws -> [[String?]] { try PlainDatabase.rows(sql, store.database.handle) }
}

extension Store {
    /// Returns what differs from what it is derived from.
    func differences() throws(QueueError) -> [String] {
        var check = try DerivedCheck(of: database)
        let bounds = DerivedCheck.Bounds(folded: state.foldedThrough, historyAfter: history.start)
        while !check.isDone { try check.step(database, bounds) { true } }
        return check.findings
    }
}

extension Store {
    /// Deletes the queued and failed messages of one conversation or of all, as `clear` does, in the open transaction. Returns their number.
    func deleteUnsent(of conversation: Name?) throws -> Int {
        try counts.fold()
        let sending = Set(try attempts.interrupted().map(\.sequence))
        var filter = Filter(conversation: conversation?.text, statuses: [StatusSet(.queued), StatusSet(.failed)], withoutBodies: true)
        var removed = 0
        while true {
            let found = try pages.sequences(filter, sending: sending)
            guard let last = found.last else { break }
            for row in try found.compactMap({ try messages.row(at: $0, .outline) }) { try messages.delete(row) }
            (filter.after, removed) = (last, removed + found.count)
        }
        if removed > 0 { try indexes.checkCleared(conversation) }
        return removed
    }
}
