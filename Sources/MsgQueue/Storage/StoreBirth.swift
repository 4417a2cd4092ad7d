import CSQLite
import Glibc

/// How a store comes into being: whole, or not at all.
enum StoreBirth {
    /// Builds the store beside its place and gives it its name only when it is on disk. Whoever is first wins; the other's is dropped.
    static func make(_ path: String) throws(QueueError) { _ = try make(new: path) }

    /// The same; false when the name was taken.
    static func make(new path: String) throws(QueueError) -> Bool {
        let image = try Self.image()
        let file = try NewFile(for: path)
        try Posix.write(file.descriptor, at: 0, image, path)
        return try file.finish(replacing: false)
    }

    /// An empty store, built in memory.
    private static func image() throws(QueueError) -> [UInt8] {
        var handle: OpaquePointer?
        var code = sqlite3_open_v2(":memory:", &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nil)
        defer { sqlite3_close(handle) }
        var first = StoreState()
        first.generation = Int64.random(in: 1...Int64.max)
        let setup = ["PRAGMA application_id=\(Schema.applicationID)", "PRAGMA user_version=\(Schema.version)", "BEGIN"]
        for sql in setup + Schema.statements + [first.update, "COMMIT"] where code == SQLITE_OK {
            code = sqlite3_exec(handle, sql, nil, nil, nil)
        }
        guard code == SQLITE_OK else {
            throw QueueError(.storage, "a new store: \(handle.map { String(cString: sqlite3_errmsg($0)) } ?? "no memory") (SQLite \(code))")
        }
        var size: sqlite3_int64 = 0
        guard let bytes = sqlite3_serialize(handle, "main", &size, 0), size >= 100 else {
            throw QueueError(.storage, "a new store: no memory")
        }
        defer { sqlite3_free(bytes) }
        var image = Array(UnsafeBufferPointer(start: bytes, count: Int(size)))
        useLog(&image)
        return image
    }

    /// Where a database's header says that it has a write-ahead log, and how.
    static let logMark: (offset: Int64, bytes: [UInt8]) = (18, [2, 2])

    /// In the header, so that SQLite need not change it, for which it would use a rollback journal.
    private static func useLog(_ image: inout [UInt8]) {
        for (index, byte) in logMark.bytes.enumerated() { image[Int(logMark.offset) + index] = byte }
    }
}
