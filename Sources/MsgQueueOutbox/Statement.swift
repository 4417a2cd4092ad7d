import CSQLite

/// A statement of the host's connection. It is finalized with the value.
struct Statement: ~Copyable {
    enum Value {
        case null
        case integer(Int64)
        case text(String)
        case blob([UInt8])
    }

    private let sqlite: Outbox.SQLite
    private let connection: OpaquePointer
    private let handle: OpaquePointer

    /// SQLite copies the bytes before the binding call returns.
    private static var transient: Outbox.SQLite.Destructor { unsafeBitCast(-1, to: Outbox.SQLite.Destructor.self) }

    init(_ sql: String, _ connection: OpaquePointer, _ sqlite: Outbox.SQLite) throws(Outbox.Error) {
        var handle: OpaquePointer?
        let code = sqlite.prepare(connection, sql, -1, &handle, nil)
        guard code == SQLITE_OK, let handle else { throw Self.error(code, connection, sqlite) }
        (self.sqlite, self.connection, self.handle) = (sqlite, connection, handle)
    }

    deinit { _ = sqlite.finalize(handle) }

    /// Runs the statement with these parameters, and calls `row` for each row until it returns false.
    func run(
        _ values: [Value] = [], row: (borrowing Statement) throws(Outbox.Error) -> Bool = { _ in true }
    ) throws(Outbox.Error) {
        defer {
            // An error of the last step was already thrown.
            _ = sqlite.reset(handle)
            _ = sqlite.clearBindings(handle)
        }
        var index: Int32 = 0
        for value in values {
            index += 1
            let code = bind(index, value)
            guard code == SQLITE_OK else { throw Self.error(code, connection, sqlite) }
        }
        while true {
            let code = sqlite.step(handle)
            if code == SQLITE_DONE { return }
            guard code == SQLITE_ROW else { throw Self.error(code, connection, sqlite) }
            guard try row(self) else { return }
        }
    }

    private func bind(_ index: Int32, _ value: Value) -> Int32 {
        switch value {
        case .null: return SQLITE_OK
        case .integer(let number): return sqlite.bindInt64(handle, index, number)
        case .text(let text):
            return text.withCString { sqlite.bindText64(handle, index, $0, UInt64(text.utf8.count), Self.transient, UInt8(SQLITE_UTF8)) }
        case .blob(let bytes):
            // A NULL pointer would bind NULL instead of an empty blob.
            return (bytes.isEmpty ? [0] : bytes).withUnsafeBytes {
                sqlite.bindBlob64(handle, index, $0.baseAddress, UInt64(bytes.count), Self.transient)
            }
        }
    }

    private static func error(_ code: Int32, _ connection: OpaquePointer, _ sqlite: Outbox.SQLite) -> Outbox.Error {
        let text = sqlite.errmsg(connection).map { String(cString: $0) } ?? "unknown error"
        let extended = sqlite.extendedErrcode(connection)
        // After MISUSE the connection describes an earlier call.
        return Outbox.Error(database: extended & 0xff == code & 0xff ? extended : code, text)
    }

    // MARK: Columns

    func isNull(_ column: Int32) -> Bool { sqlite.columnType(handle, column) == SQLITE_NULL }

    /// nil: the value is no integer.
    func integer(_ column: Int32) -> Int64? {
        sqlite.columnType(handle, column) == SQLITE_INTEGER ? sqlite.columnInt64(handle, column) : nil
    }

    /// nil: the value is no text, not valid UTF-8, or longer than `limit` bytes.
    func text(_ column: Int32, limit: Int = 1 << 16) throws(Outbox.Error) -> String? {
        guard sqlite.columnType(handle, column) == SQLITE_TEXT else { return nil }
        guard let bytes = sqlite.columnText(handle, column) else { throw Self.error(SQLITE_NOMEM, connection, sqlite) }
        let buffer = UnsafeBufferPointer(start: bytes, count: Int(sqlite.columnBytes(handle, column)))
        return buffer.count > limit ? nil : String(validating: buffer, as: UTF8.self)
    }

    /// nil: the value is no blob.
    func blob(_ column: Int32) throws(Outbox.Error) -> [UInt8]? {
        guard sqlite.columnType(handle, column) == SQLITE_BLOB else { return nil }
        guard let bytes = sqlite.columnBlob(handle, column) else {
            // Of an empty blob the pointer is NULL, too.
            guard sqlite.extendedErrcode(connection) & 0xff != SQLITE_NOMEM else { throw Self.error(SQLITE_NOMEM, connection, sqlite) }
            return []
        }
        return Array(UnsafeRawBufferPointer(start: bytes, count: Int(sqlite.columnBytes(handle, column))))
    }
}
