@testable import MsgQueue

/// A store in a directory of its own, for tests that go below the engine.
final class StoreBench {
    let directory = TemporaryDirectory()
    private(set) var store: Store
    private var random = SeededGenerator(1)
    private var isOpen = true
    var now: Int64 = 1_700_000_000_000

    init(pageSize: Int64 = StoreCreation.pageSizes[0]) throws {
        if pageSize != StoreCreation.pageSizes[0] {
            try FileBytes.write(try StoreCreation.image(usesLog: true, pageSize: pageSize), to: directory.store)
        }
        store = try Store(path: directory.store, options: Options())
    }

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

    /// Closes in order, or as if the process had ended, and opens again.
    func reopen(clean: Bool = true) throws {
        close(clean: clean)
        store = try Store(path: directory.store, options: Options())
        isOpen = true
    }

    /// In one transaction; nothing of it stays when `body` throws.
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

    /// Inside a transaction.
    func insert(
        _ conversation: Name = "a", _ body: [UInt8] = [], id: String? = nil, metadata: [(key: String, value: String)] = [],
        notBefore: Int64 = 0, expiresAt: Int64 = 0, unmeteredOnly: Bool = false
    ) throws -> Row {
        let number = random.next()
        // The store lends the bytes only while it inserts.
        return try body.withUnsafeBytes { bytes in
            let draft = BorrowedDraft(
                id: id, conversation: conversation, body: bytes, metadata: metadata, notBefore: notBefore, expiresAt: expiresAt,
                unmeteredOnly: unmeteredOnly)
            return try store.insert(draft, now: now, random: number)
        }
    }

    /// One message in a transaction of its own.
    @discardableResult
    func add(_ conversation: Name = "a", _ body: [UInt8] = [], id: String? = nil, metadata: [(key: String, value: String)] = []) throws
        -> Row
    {
        try transaction { _ in try insert(conversation, body, id: id, metadata: metadata) }
    }

    func row(_ sequence: Int64, _ part: Store.Part = .whole) throws -> Row? { try store.row(at: sequence, part) }

    /// Inside a transaction: writes `progress`, with a receipt only after the message was sent.
    func move(_ row: Row, to progress: Progress) throws {
        var row = row
        if row.progress.status.isUnsent, progress.status == .delivered || progress.status == .read {
            var sent = progress
            sent.status = .sent
            try store.update(row, to: sent)
            row.progress = sent
        }
        try store.update(row, to: progress)
    }

    /// Over the store's own connection: nobody else gets one while it is open.
    func rows(_ sql: String) throws -> [[String?]] { try PlainDatabase.rows(sql, store.database.handle) }
}
