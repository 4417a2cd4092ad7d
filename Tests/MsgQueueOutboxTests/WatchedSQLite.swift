import CSQLite
import MsgQueueOutbox

/// What watches the steps of an outbox's statements in this task.
final class Watcher: @unchecked Sendable {
    @TaskLocal static var current: Watcher?

    private let before: (String) throws -> Void
    private let after: (String) throws -> Void
    /// What a function threw.
    private(set) var error: (any Error)?

    init(before: @escaping (String) throws -> Void, after: @escaping (String) throws -> Void = { _ in }) {
        (self.before, self.after) = (before, after)
    }

    fileprivate func step(_ statement: OpaquePointer?) -> Int32 {
        let sql = sqlite3_sql(statement).map { String(cString: $0) } ?? ""
        func call(_ body: (String) throws -> Void) { do { try body(sql) } catch { self.error = error } }
        call(before)
        defer { call(after) }
        return sqlite3_step(statement)
    }
}

extension Outbox.SQLite {
    /// The linked SQLite, with a watcher.
    static let watched = Outbox.SQLite(
        prepare: sqlite3_prepare_v2, step: { Watcher.current?.step($0) ?? sqlite3_step($0) }, reset: sqlite3_reset,
        clearBindings: sqlite3_clear_bindings, finalize: sqlite3_finalize, bindInt64: sqlite3_bind_int64, bindText64: sqlite3_bind_text64,
        bindBlob64: sqlite3_bind_blob64, columnType: sqlite3_column_type, columnInt64: sqlite3_column_int64,
        columnText: sqlite3_column_text, columnBlob: sqlite3_column_blob, columnBytes: sqlite3_column_bytes, changes: sqlite3_changes,
        lastInsertRowid: sqlite3_last_insert_rowid, setLastInsertRowid: sqlite3_set_last_insert_rowid,
        getAutocommit: sqlite3_get_autocommit, extendedErrcode: sqlite3_extended_errcode, errmsg: sqlite3_errmsg)
}
