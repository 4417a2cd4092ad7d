import CSQLite
import Glibc

/// Creates new stores, atomically.
enum StoreCreation {
    /// Writes the store to a temporary file and renames it when it is durable. Returns its bytes; nil: another process created the store
    /// first, and that one stays.
    static func create(_ path: String) throws(QueueError) -> [UInt8]? {
        let image = try newImage()
        let file = try NewFile(for: path)
        try Posix.write(file.descriptor, at: 0, image, path)
        return try file.finish(replacing: false) ? image : nil
    }

    private static let lock: Mutex = {
        let lock = Mutex()
        ForkGuard.protect(lock)
        return lock
    }()
    /// The bytes of a store that this process has made: its schema takes most of the time of a creation.
    nonisolated(unsafe) private static var made: [UInt8]?

    /// Returns the bytes of an empty store: those that were made before, with a generation of their own.
    private static func newImage() throws(QueueError) -> [UInt8] {
        if let image = lock.withLock({ made }).flatMap({ renewed($0) }) { return image }
        let image = try image(usesLog: true)
        lock.withLock { made = image }
        return image
    }

    /// Returns the bytes of an empty store with another generation; nil: they cannot be changed in their place.
    private static func renewed(_ image: [UInt8]) -> [UInt8]? {
        let size = Int(pageSizes[0])
        for start in stride(from: 0, to: image.count - size + 1, by: size) {
            let page = Array(image[start..<start + size])
            guard let page = StoreState.setting(generation: Int64.random(in: 1...Int64.max), in: page) else { continue }
            return image[..<start] + page + image[(start + size)...]
        }
        return nil
    }

    /// The page sizes of stores, in bytes; the first is that of new stores. A commit writes whole pages, so small ones make it cheaper.
    /// Development versions made stores with pages of 4096 bytes.
    static let pageSizes: [Int64] = [2048, 4096]

    /// Returns the bytes of an empty store. `usesLog`: its header selects the write-ahead log.
    /// `vacuumsInSteps`: as new stores do; those of development versions do not.
    static func image(usesLog: Bool, pageSize: Int64 = pageSizes[0], vacuumsInSteps: Bool = true) throws(QueueError) -> [UInt8] {
        var first = StoreState()
        first.generation = Int64.random(in: 1...Int64.max)
        let statements = vacuumsInSteps ? Schema.statements : Schema.statementsWithUpgrades
        return try image(usesLog: usesLog, pageSize: pageSize, vacuumsInSteps: vacuumsInSteps, statements + [first.update])
    }

    private static func image(
        usesLog: Bool, pageSize: Int64, vacuumsInSteps: Bool, _ statements: [String]
    ) throws(QueueError) -> [UInt8] {
        var handle: OpaquePointer?
        var code = sqlite3_open_v2(":memory:", &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nil)
        defer { sqlite3_close(handle) }
        let setup = [
            "PRAGMA page_size=\(pageSize)", "PRAGMA auto_vacuum=\(vacuumsInSteps ? "INCREMENTAL" : "NONE")",
            "PRAGMA application_id=\(Schema.applicationID)", "PRAGMA user_version=\(Schema.version)",
            "BEGIN",
        ]
        for sql in setup + statements + ["COMMIT"] where code == SQLITE_OK {
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

    /// Returns the first page of a store with these tables, without indexes and constraints, for a database of `pages` pages.
    static func schemaPage(
        _ tables: [(table: TableSearch.Table, root: UInt32)], pages: Int64, pageSize: Int64
    ) throws(QueueError) -> [UInt8] {
        var statements: [String] = []
        for (table, _) in tables { statements.append(try definition(of: table)) }
        statements.append("PRAGMA writable_schema=ON")
        statements += tables.map { "UPDATE sqlite_schema SET rootpage = \($0.root) WHERE name = '\($0.table.rawValue)'" }
        var page = Array(try image(usesLog: false, pageSize: pageSize, vacuumsInSteps: false, statements).prefix(Int(pageSize)))
        guard page.count == pageSize, page[100] == 0x0d else { throw QueueError(.internal, "the schema needs more than one page") }
        for (index, shift) in [24, 16, 8, 0].enumerated() { page[28 + index] = UInt8(truncatingIfNeeded: pages >> Int64(shift)) }
        return page
    }

    /// Returns a short statement that creates a table with the columns and the key of the schema.
    private static func definition(of table: TableSearch.Table) throws(QueueError) -> String {
        var handle: OpaquePointer?
        var statement: OpaquePointer?
        var code = sqlite3_open_v2(":memory:", &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nil)
        defer {
            sqlite3_finalize(statement)
            sqlite3_close(handle)
        }
        for sql in Schema.statements where code == SQLITE_OK { code = sqlite3_exec(handle, sql, nil, nil, nil) }
        if code == SQLITE_OK {
            let sql = "SELECT name, pk FROM pragma_table_info('\(table.rawValue)')"
            code = sqlite3_prepare_v2(handle, sql, -1, &statement, nil)
        }
        var (columns, key): ([String], [String]) = ([], [])
        while code == SQLITE_OK || code == SQLITE_ROW {
            code = sqlite3_step(statement)
            guard code == SQLITE_ROW, let name = sqlite3_column_text(statement, 0) else { break }
            // The page has little room. Only `read` is a keyword; a column that is absent is read as 0 also without its default.
            var column = String(cString: name)
            if column == "read" { column = "\"read\"" }
            if sqlite3_column_int(statement, 1) > 0 {
                key.append(column)
                if table.hasRowid { column += " INTEGER PRIMARY KEY" }
            }
            columns.append(column)
        }
        guard code == SQLITE_DONE, !columns.isEmpty else { throw QueueError(.storage, "creating a schema failed (SQLite \(code))") }
        let end = table.hasRowid ? ")" : ",PRIMARY KEY(\(key.joined(separator: ",")))) WITHOUT ROWID"
        return "CREATE TABLE \(table.rawValue)(\(columns.joined(separator: ","))\(end)"
    }

    /// The file format versions in the header of a database that uses a write-ahead log.
    static let walMode: (offset: Int64, bytes: [UInt8]) = (18, [2, 2])

    /// Selects the write-ahead log in the header. SQLite would use a rollback journal to change it.
    private static func useLog(_ image: inout [UInt8]) {
        for (index, byte) in walMode.bytes.enumerated() { image[Int(walMode.offset) + index] = byte }
    }
}
