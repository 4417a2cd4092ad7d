import CSQLite
import Glibc

/// How a store comes into being: whole, or not at all.
enum StoreBirth {
    /// Builds the store beside its place and gives it its name only when it is on disk. Whoever is first wins; the other's is dropped.
    static func make(_ path: String) throws(QueueError) {
        let image = try Self.image(usesLog: true)
        let file = try NewFile(for: path)
        try Posix.write(file.descriptor, at: 0, image, path)
        _ = try file.finish(replacing: false)
    }

    /// Bytes of a page of every store.
    static let pageSize: Int64 = 4096

    /// An empty store, built in memory. `usesLog`: its header says so.
    static func image(usesLog: Bool) throws(QueueError) -> [UInt8] {
        var handle: OpaquePointer?
        var code = sqlite3_open_v2(":memory:", &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nil)
        defer { sqlite3_close(handle) }
        var first = StoreState()
        first.generation = Int64.random(in: 1...Int64.max)
        let setup = [
            "PRAGMA page_size=\(pageSize)", "PRAGMA application_id=\(Schema.applicationID)", "PRAGMA user_version=\(Schema.version)",
            "BEGIN",
        ]
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
        if usesLog { useLog(&image) }
        return image
    }

    /// The pages of an empty store that hold its header and schema, for a database of so many pages.
    static func schema(pages: Int64) throws(QueueError) -> [(page: UInt32, bytes: [UInt8])] {
        let image = try Self.image(usesLog: false)
        let size = Int(pageSize)
        func number(_ offset: Int, bytes: Int) -> Int {
            guard offset + bytes <= image.count else { return 0 }
            return image[offset..<offset + bytes].reduce(0) { $0 << 8 | Int($1) }
        }
        var found: [(page: UInt32, bytes: [UInt8])] = []
        var left = [1]
        // https://sqlite.org/fileformat2.html#b_tree_pages
        while let page = left.popLast(), page >= 1, page * size <= image.count, found.count < 64 {
            let start = (page - 1) * size
            var bytes = Array(image[start..<start + size])
            let head = page == 1 ? start + 100 : start
            if number(head, bytes: 1) == 0x05 {
                left.append(number(head + 8, bytes: 4))
                for cell in 0..<number(head + 3, bytes: 2) { left.append(number(start + number(head + 12 + 2 * cell, bytes: 2), bytes: 4)) }
            }
            if page == 1 {
                // How many pages the database has.
                let count = UInt32(clamping: pages)
                for (index, shift) in [24, 16, 8, 0].enumerated() { bytes[28 + index] = UInt8(truncatingIfNeeded: count >> UInt32(shift)) }
            }
            found.append((UInt32(clamping: page), bytes))
        }
        return found
    }

    /// Where a database's header says that it has a write-ahead log, and how.
    static let logMark: (offset: Int64, bytes: [UInt8]) = (18, [2, 2])

    /// In the header, so that SQLite need not change it, for which it would use a rollback journal.
    private static func useLog(_ image: inout [UInt8]) {
        for (index, byte) in logMark.bytes.enumerated() { image[Int(logMark.offset) + index] = byte }
    }
}
