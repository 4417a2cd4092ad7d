import CSQLite
import Glibc

/// A prepared statement. It is always reset after use, because an active statement delays later commits.
final class Statement {
    private let handle: OpaquePointer
    private unowned let database: Database

    /// SQLite copies the bytes before the binding call returns.
    private static let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

    init(_ sql: String, _ database: Database) throws(QueueError) {
        var handle: OpaquePointer?
        let code = sqlite3_prepare_v3(database.handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &handle, nil)
        guard code == SQLITE_OK, let handle else { throw database.error(code, "prepare") }
        self.handle = handle
        self.database = database
    }

    var sql: String { sqlite3_sql(handle).map { String(cString: $0) } ?? "" }

    /// Destroys the statement, before the database is closed. It must not be used afterwards.
    func finalize() { sqlite3_finalize(handle) }

    // MARK: Binding

    func bind(_ index: Int32, _ value: Int64) { sqlite3_bind_int64(handle, index, value) }

    func bind(_ index: Int32, _ value: Bool) { sqlite3_bind_int64(handle, index, value ? 1 : 0) }

    func bind(_ index: Int32, _ value: String?) throws(QueueError) {
        guard var value else {
            sqlite3_bind_null(handle, index)
            return
        }
        let code = value.withUTF8 { bytes in
            // A NULL pointer would bind NULL instead of the empty text.
            guard let base = bytes.baseAddress, !bytes.isEmpty else {
                return sqlite3_bind_text(handle, index, "", 0, Self.transient)
            }
            return base.withMemoryRebound(to: CChar.self, capacity: bytes.count) {
                sqlite3_bind_text64(handle, index, $0, UInt64(bytes.count), Self.transient, UInt8(SQLITE_UTF8))
            }
        }
        guard code == SQLITE_OK else { throw database.error(code, "bind") }
    }

    /// Binds without copying: `bytes` must stay valid until the statement has run.
    func bind(_ index: Int32, borrowing bytes: UnsafeRawBufferPointer?) throws(QueueError) {
        let code: Int32
        switch bytes {
        case nil: code = sqlite3_bind_null(handle, index)
        case .some(let bytes) where bytes.isEmpty: code = sqlite3_bind_zeroblob(handle, index, 0)
        case .some(let bytes): code = sqlite3_bind_blob64(handle, index, bytes.baseAddress, UInt64(bytes.count), nil)
        }
        guard code == SQLITE_OK else { throw database.error(code, "bind") }
    }

    /// Binds a text in UTF-8. The bytes must stay valid until the statement has run.
    func bind(_ index: Int32, borrowing text: UnsafeBufferPointer<UInt8>) throws(QueueError) {
        guard let base = text.baseAddress, !text.isEmpty else { return try bind(index, "") }
        let code = base.withMemoryRebound(to: CChar.self, capacity: text.count) {
            sqlite3_bind_text64(handle, index, $0, UInt64(text.count), nil, UInt8(SQLITE_UTF8))
        }
        guard code == SQLITE_OK else { throw database.error(code, "bind") }
    }

    // MARK: Running

    /// Runs a statement that changes the database. `database.changes` is then the number of changed rows.
    func run() throws(QueueError) {
        do throws(QueueError) { try database.log?.prepareChange() } catch {
            reset()
            throw error
        }
        try runControl()
    }

    /// Runs BEGIN or COMMIT.
    func runControl() throws(QueueError) {
        defer { reset() }
        var code = sqlite3_step(handle)
        while code == SQLITE_ROW { code = sqlite3_step(handle) }
        guard code == SQLITE_DONE else { throw database.error(code, "run") }
    }

    /// Calls `row` for each row, until it returns false.
    func forEach(_ row: () throws(QueueError) -> Bool) throws(QueueError) {
        defer { reset() }
        while true {
            let code = sqlite3_step(handle)
            if code == SQLITE_DONE { return }
            guard code == SQLITE_ROW else { throw database.error(code, "read") }
            guard try row() else { return }
        }
    }

    /// Returns the first column of all rows.
    func integers() throws(QueueError) -> [Int64] {
        var found: [Int64] = []
        try forEach { () throws(QueueError) in
            found.append(int(0))
            return true
        }
        return found
    }

    /// Returns what `row` returns for the first row; nil: there are no rows.
    func first<T>(_ row: () throws(QueueError) -> T) throws(QueueError) -> T? {
        defer { reset() }
        let code = sqlite3_step(handle)
        if code == SQLITE_DONE { return nil }
        guard code == SQLITE_ROW else { throw database.error(code, "read") }
        return try row()
    }

    private func reset() {
        // An error of the last step was already thrown.
        sqlite3_reset(handle)
        sqlite3_clear_bindings(handle)
    }

    // MARK: Columns

    func int(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }

    func double(_ column: Int32) -> Double { sqlite3_column_double(handle, column) }

    func bool(_ column: Int32) -> Bool { sqlite3_column_int64(handle, column) != 0 }

    /// The type of a value, such as SQLITE_TEXT. Must be read before the value.
    func type(_ column: Int32) -> Int32 { sqlite3_column_type(handle, column) }

    /// Whether the types of the first columns are permitted: bits with the numbers of the types.
    func hasTypes(_ permitted: [UInt8]) -> Bool {
        var column: Int32 = 0
        for types in permitted {
            guard types & 1 << UInt8(truncatingIfNeeded: sqlite3_column_type(handle, column)) != 0 else { return false }
            column &+= 1
        }
        return true
    }

    func isNull(_ column: Int32) -> Bool { type(column) == SQLITE_NULL }

    func text(_ column: Int32) -> String {
        guard let bytes = sqlite3_column_text(handle, column) else { return "" }
        let count = Int(sqlite3_column_bytes(handle, column))
        return String(decoding: UnsafeBufferPointer(start: bytes, count: count), as: UTF8.self)
    }

    /// Returns a text; nil: the value is of another type or not valid UTF-8.
    func validText(_ column: Int32) -> String? {
        guard type(column) == SQLITE_TEXT, let bytes = sqlite3_column_text(handle, column) else { return nil }
        let buffer = UnsafeBufferPointer(start: bytes, count: Int(sqlite3_column_bytes(handle, column)))
        let text = String(decoding: buffer, as: UTF8.self)
        return text.utf8.elementsEqual(buffer) ? text : nil
    }

    /// Whether the bytes of a value are after those of `last`, which they replace; nil: there are none before.
    func follows(_ column: Int32, _ last: inout [UInt8]?) -> Bool {
        let start = sqlite3_column_blob(handle, column)
        let bytes = UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : Int(sqlite3_column_bytes(handle, column)))
        guard var before = last else {
            last = Array(bytes)
            return true
        }
        // In its place, because a copy of each name would take time.
        last = nil
        let order = before.withUnsafeBytes { earlier -> Int32 in
            let common = min(earlier.count, bytes.count)
            guard common > 0, let first = earlier.baseAddress, let second = bytes.baseAddress else { return 0 }
            return memcmp(first, second, common)
        }
        let follows = order < 0 || order == 0 && before.count < bytes.count
        before.removeAll(keepingCapacity: true)
        before.append(contentsOf: bytes)
        last = before
        return follows
    }

    func blob(_ column: Int32) -> [UInt8] {
        guard let bytes = sqlite3_column_blob(handle, column) else { return [] }
        return Array(UnsafeRawBufferPointer(start: bytes, count: Int(sqlite3_column_bytes(handle, column))))
    }
}

extension Database {
    /// Returns the first bytes of a blob without reading the rest of it, which a statement would do; nil: there is no such blob.
    func start(ofBlob column: String, in table: String, row: Int64, count: Int) throws(QueueError) -> [UInt8]? {
        var blob: OpaquePointer?
        let code = sqlite3_blob_open(handle, "main", table, column, row, 0, &blob)
        defer { sqlite3_blob_close(blob) }
        // There is no such row, or its value is of another type.
        if code == SQLITE_ERROR { return nil }
        guard code == SQLITE_OK else { throw error(code, "read") }
        let size = min(count, Int(sqlite3_blob_bytes(blob)))
        var bytes = [UInt8](repeating: 0, count: size)
        let result = sqlite3_blob_read(blob, &bytes, Int32(clamping: size), 0)
        guard result == SQLITE_OK else { throw error(result, "read") }
        return bytes
    }
}
