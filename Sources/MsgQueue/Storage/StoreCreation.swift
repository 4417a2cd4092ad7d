import CSQLite
import Glibc

/// Creates new stores, atomically.
enum StoreCreation {
    /// Writes the store to a temporary file and renames it when it is durable. If another process created the store first, that one stays.
    static func create(_ path: String) throws(QueueError) {
        let image = try Self.image(usesLog: true)
        let file = try NewFile(for: path)
        try Posix.write(file.descriptor, at: 0, image, path)
        _ = try file.finish(replacing: false)
    }

    /// The page size of every store, in bytes.
    static let pageSize: Int64 = 4096

    /// Returns the bytes of an empty store. `usesLog`: its header selects the write-ahead log.
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
            let message = handle.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
            throw QueueError(.storage, "creating a store: \(message) (SQLite \(code))")
        }
        var size: sqlite3_int64 = 0
        guard let bytes = sqlite3_serialize(handle, "main", &size, 0), size >= 100 else {
            throw QueueError(.storage, "creating a store: out of memory")
        }
        defer { sqlite3_free(bytes) }
        var image = Array(UnsafeBufferPointer(start: bytes, count: Int(size)))
        if usesLog { useLog(&image) }
        return image
    }

    /// Returns the pages of an empty store that contain its header and schema, for a database of `pages` pages.
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
                // The number of pages of the database.
                let count = UInt32(clamping: pages)
                for (index, shift) in [24, 16, 8, 0].enumerated() { bytes[28 + index] = UInt8(truncatingIfNeeded: count >> UInt32(shift)) }
            }
            found.append((UInt32(clamping: page), bytes))
        }
        return found
    }

    /// The file format versions in the header of a database that uses a write-ahead log.
    static let walMode: (offset: Int64, bytes: [UInt8]) = (18, [2, 2])

    /// Selects the write-ahead log in the header. SQLite would use a rollback journal to change it.
    private static func useLog(_ image: inout [UInt8]) {
        for (index, byte) in walMode.bytes.enumerated() { image[Int(walMode.offset) + index] = byte }
    }
}
