import CSQLite

/// The disk of a simulated queue: a store in memory that outlives the simulated processes that write it. A process ends at a commit, as
/// SIGKILL ends one: what was committed before stays. Used by one thread.
package final class SimulatedDisk {
    /// What happens at a commit.
    package enum Fate: Equatable {
        case stored
        /// The process ends, before the transaction is stored or right after it.
        case crash(isStored: Bool)
        /// An error of the disk: nothing of the transaction is stored.
        case refused
    }

    /// A kind of change that a transaction made to a table, which tells what the transaction did.
    package struct Write: Hashable, Sendable {
        package let table: String
        package let operation: String
    }

    /// Decides about each commit that changes something. `number` counts them from 1; `writes`: what it changed. Called under the engine's
    /// lock: it must not call the engine.
    package var fate: (_ number: Int, _ writes: Set<Write>) -> Fate = { _, _ in .stored }
    /// The number of commits that changed something, with those that were not stored.
    package private(set) var commits = 0
    /// The process has ended. Whoever runs it opens the store again.
    package private(set) var isDown = false
    /// Whether the commit at which the process ended was stored.
    package private(set) var isStored = false
    /// The sequence numbers of the messages that this commit changed, if it was stored.
    package private(set) var changed: Set<Int64> = []

    /// Is told of the sequence number of each message that is written, also if the transaction is rolled back. It must not use the store.
    var watcher: ((Int64) -> Void)?

    private var image: [UInt8]?
    /// The connection of the process.
    private var handle: OpaquePointer?
    private var writes: Set<Write> = []
    private var rows: Set<Int64> = []

    package init() {}

    /// A disk with these bytes of a store.
    init(image: [UInt8]) { self.image = image }

    /// The bytes of the store that are committed.
    var bytes: [UInt8] { handle.flatMap(Self.read) ?? image ?? [] }

    private static func read(_ handle: OpaquePointer) -> [UInt8]? {
        var size: sqlite3_int64 = 0
        guard let bytes = sqlite3_serialize(handle, "main", &size, 0) else { return nil }
        defer { sqlite3_free(bytes) }
        return Array(UnsafeBufferPointer(start: bytes, count: Int(size)))
    }

    private static let empty = Result { () throws(QueueError) in try StoreCreation.image(usesLog: false) }

    /// Returns the bytes of the store, for the process that opens it.
    private func open() throws(QueueError) -> [UInt8] {
        let bytes = if let image { image } else { try Self.empty.get() }
        image = bytes
        isDown = false
        return bytes
    }

    /// Called by a transaction that begins.
    func begin() { (writes, rows) = ([], []) }

    func commit() -> Fate {
        commits += 1
        return fate(commits, writes)
    }

    /// The process ends, with what its connection has stored.
    func end(_ handle: OpaquePointer, isStored: Bool) {
        guard !isDown else { return }
        if let bytes = Self.read(handle) { image = bytes }
        self.handle = nil
        (isDown, self.isStored) = (true, isStored)
        changed = isStored ? rows : []
    }

    /// Fills a database in memory, which nothing has used yet, and follows its changes. The disk must outlive it.
    func attach(to handle: OpaquePointer) throws(QueueError) {
        let bytes = try open()
        guard let copy = sqlite3_malloc64(UInt64(bytes.count))?.assumingMemoryBound(to: UInt8.self) else {
            throw QueueError(.storage, "out of memory")
        }
        bytes.withUnsafeBufferPointer { source in if let base = source.baseAddress { copy.update(from: base, count: source.count) } }
        // SQLite frees the bytes, also after an error.
        let (size, flags) = (Int64(bytes.count), UInt32(SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE))
        let code = sqlite3_deserialize(handle, "main", copy, size, size, flags)
        guard code == SQLITE_OK else { throw QueueError(.storage, "a store in memory cannot be loaded (SQLite \(code))") }
        self.handle = handle
        sqlite3_update_hook(
            handle,
            { context, operation, _, table, row in
                guard let context, let table else { return }
                Unmanaged<SimulatedDisk>.fromOpaque(context).takeUnretainedValue().note(operation, String(cString: table), row)
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    private func note(_ operation: Int32, _ table: String, _ row: Int64) {
        let name = operation == SQLITE_INSERT ? "insert" : operation == SQLITE_DELETE ? "delete" : "update"
        writes.insert(Write(table: table, operation: name))
        guard table == "message" else { return }
        rows.insert(row)
        watcher?(row)
    }
}
