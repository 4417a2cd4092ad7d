import CSQLite

extension Outbox {
    /// The functions of the SQLite library that opened the connection.
    ///
    /// Needed only when that is not the SQLite that this product links: a custom build or SQLCipher with functions of other names, or loaded
    /// by `dlopen`. One copy of SQLite must never use a connection of another, so all functions must be given.
    public struct SQLite: Sendable {
        /// The SQLite that this product links. A program that links a library with the same names, such as SQLCipher, in its place uses it for
        /// its own calls as well.
        public static let linked = SQLite(
            prepare: sqlite3_prepare_v2, step: sqlite3_step, reset: sqlite3_reset,
            clearBindings: sqlite3_clear_bindings, finalize: sqlite3_finalize, bindInt64: sqlite3_bind_int64,
            bindText64: sqlite3_bind_text64, bindBlob64: sqlite3_bind_blob64, columnType: sqlite3_column_type,
            columnInt64: sqlite3_column_int64, columnText: sqlite3_column_text, columnBlob: sqlite3_column_blob,
            columnBytes: sqlite3_column_bytes, changes: sqlite3_changes,
            lastInsertRowid: sqlite3_last_insert_rowid, setLastInsertRowid: sqlite3_set_last_insert_rowid,
            getAutocommit: sqlite3_get_autocommit, extendedErrcode: sqlite3_extended_errcode, errmsg: sqlite3_errmsg)

        /// What `sqlite3_bind_text64` calls when it needs the bytes no longer.
        public typealias Destructor = @convention(c) (UnsafeMutableRawPointer?) -> Void
        /// `sqlite3_prepare_v2`.
        public typealias Prepare =
            @convention(c) @Sendable (
                OpaquePointer?, UnsafePointer<CChar>?, Int32, UnsafeMutablePointer<OpaquePointer?>?,
                UnsafeMutablePointer<UnsafePointer<CChar>?>?
            ) -> Int32
        /// The functions of a statement or a connection that return a number.
        public typealias Call = @convention(c) @Sendable (OpaquePointer?) -> Int32
        /// `sqlite3_bind_int64`.
        public typealias BindInt64 = @convention(c) @Sendable (OpaquePointer?, Int32, Int64) -> Int32
        /// `sqlite3_bind_text64`.
        public typealias BindText64 =
            @convention(c) @Sendable (OpaquePointer?, Int32, UnsafePointer<CChar>?, UInt64, Destructor?, UInt8) -> Int32
        /// `sqlite3_bind_blob64`.
        public typealias BindBlob64 = @convention(c) @Sendable (OpaquePointer?, Int32, UnsafeRawPointer?, UInt64, Destructor?) -> Int32
        /// `sqlite3_column_type` and `sqlite3_column_bytes`.
        public typealias ColumnNumber = @convention(c) @Sendable (OpaquePointer?, Int32) -> Int32
        /// `sqlite3_column_int64`.
        public typealias ColumnInt64 = @convention(c) @Sendable (OpaquePointer?, Int32) -> Int64
        /// `sqlite3_column_text`.
        public typealias ColumnText = @convention(c) @Sendable (OpaquePointer?, Int32) -> UnsafePointer<UInt8>?
        /// `sqlite3_column_blob`.
        public typealias ColumnBlob = @convention(c) @Sendable (OpaquePointer?, Int32) -> UnsafeRawPointer?
        /// `sqlite3_last_insert_rowid`.
        public typealias LastInsertRowid = @convention(c) @Sendable (OpaquePointer?) -> Int64
        /// `sqlite3_set_last_insert_rowid`.
        public typealias SetLastInsertRowid = @convention(c) @Sendable (OpaquePointer?, Int64) -> Void
        /// `sqlite3_errmsg`.
        public typealias Errmsg = @convention(c) @Sendable (OpaquePointer?) -> UnsafePointer<CChar>?

        let prepare: Prepare
        let step: Call
        let reset: Call
        let clearBindings: Call
        let finalize: Call
        let bindInt64: BindInt64
        let bindText64: BindText64
        let bindBlob64: BindBlob64
        let columnType: ColumnNumber
        let columnInt64: ColumnInt64
        let columnText: ColumnText
        let columnBlob: ColumnBlob
        let columnBytes: ColumnNumber
        let changes: Call
        let lastInsertRowid: LastInsertRowid
        let setLastInsertRowid: SetLastInsertRowid
        let getAutocommit: Call
        let extendedErrcode: Call
        let errmsg: Errmsg

        /// Creates a table of functions. Each parameter is the function of its name, `prepare` that of `sqlite3_prepare_v2`.
        public init(
            prepare: Prepare, step: Call, reset: Call, clearBindings: Call, finalize: Call, bindInt64: BindInt64, bindText64: BindText64,
            bindBlob64: BindBlob64, columnType: ColumnNumber, columnInt64: ColumnInt64, columnText: ColumnText, columnBlob: ColumnBlob,
            columnBytes: ColumnNumber, changes: Call,
            lastInsertRowid: LastInsertRowid, setLastInsertRowid: SetLastInsertRowid, getAutocommit: Call, extendedErrcode: Call,
            errmsg: Errmsg
        ) {
            self.prepare = prepare
            self.step = step
            self.reset = reset
            self.clearBindings = clearBindings
            self.finalize = finalize
            self.bindInt64 = bindInt64
            self.bindText64 = bindText64
            self.bindBlob64 = bindBlob64
            self.columnType = columnType
            self.columnInt64 = columnInt64
            self.columnText = columnText
            self.columnBlob = columnBlob
            self.columnBytes = columnBytes
            self.changes = changes
            self.lastInsertRowid = lastInsertRowid
            self.setLastInsertRowid = setLastInsertRowid
            self.getAutocommit = getAutocommit
            self.extendedErrcode = extendedErrcode
            self.errmsg = errmsg
        }
    }
}
