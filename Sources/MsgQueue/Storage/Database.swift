import CSQLite

/// The one connection to a store: opened hard, used under one lock, with its own hand on the disk's flush.
///
/// SQLite runs at `synchronous=NORMAL`, where a commit writes the log but does not flush it; `commit(durable: true)` then flushes the log
/// itself, which is what `FULL` does, but only for the commits that promise it. (The pragma cannot change inside a transaction.)
final class Database {
    let handle: OpaquePointer
    let path: String
    private var statements: [StaticString.Key: Statement] = [:]
    private(set) var isInTransaction = false
    /// A flush failed: what the disk holds is not known, and nothing is written through this connection any more.
    private(set) var isPoisoned = false
    private var watch: FileWatch
    /// Frames in the log after the last commit; written by SQLite's hook.
    private let logFrames: UnsafeMutablePointer<Int32>

    /// Beyond so many pages the log is copied into the database.
    private static let checkpointFrames: Int32 = 4000

    init(path: String, lengthLimit: Int64) throws(QueueError) {
        var opened: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_NOFOLLOW
        let code = sqlite3_open_v2(path, &opened, flags, nil)
        guard code == SQLITE_OK, let opened else {
            let message = opened.map { String(cString: sqlite3_errmsg($0)) } ?? "out of memory"
            sqlite3_close_v2(opened)
            throw QueueError(code == SQLITE_CANTOPEN ? .permission : .storage, "\(path): \(message)")
        }
        handle = opened
        self.path = path
        watch = FileWatch(path: path)
        logFrames = .allocate(capacity: 1)
        logFrames.initialize(to: 0)
        sqlite3_extended_result_codes(handle, 1)
        do {
            try harden(lengthLimit)
        } catch {
            close()
            throw error
        }
    }

    deinit { logFrames.deallocate() }

    /// Nothing in the file is trusted, nothing but this process writes it, and it is the file that was meant.
    private func harden(_ lengthLimit: Int64) throws(QueueError) {
        for (option, value) in [
            (SQLITE_DBCONFIG_DEFENSIVE, 1), (SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0), (SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
            (SQLITE_DBCONFIG_ENABLE_VIEW, 0), (SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0), (SQLITE_DBCONFIG_DQS_DML, 0),
            (SQLITE_DBCONFIG_DQS_DDL, 0),
        ] as [(Int32, Int32)] {
            let code = csqlite_db_config(handle, option, value)
            guard code == SQLITE_OK else { throw error(code, "configure \(option)") }
        }
        sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0)
        sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, Int32(clamping: lengthLimit))
        sqlite3_busy_timeout(handle, 0)
        guard let name = sqlite3_db_filename(handle, "main"), String(cString: name) == path else {
            throw QueueError(.internal, "SQLite opened another file than \(path)")
        }
        guard sqlite3_db_readonly(handle, "main") == 0 else { throw QueueError(.permission, "\(path) can only be read") }
        // The exclusive lock before the first access: the log's index then lives on the heap, not in a file that others could truncate.
        try pragma("locking_mode=EXCLUSIVE", answers: "exclusive")
        try pragma("journal_mode=WAL", answers: "wal")
        try pragma("journal_mode", answers: "wal")
        for setting in [
            "synchronous=NORMAL", "wal_autocheckpoint=0", "mmap_size=0", "temp_store=MEMORY", "secure_delete=ON",
            "cell_size_check=ON", "cache_size=-4096", "foreign_keys=OFF",
        ] { try execute("PRAGMA \(setting)") }
        sqlite3_wal_hook(
            handle,
            { context, _, _, frames in
                context?.assumingMemoryBound(to: Int32.self).pointee = frames
                return SQLITE_OK
            }, logFrames)
    }

    /// A pragma that must answer so. It is stepped to its end: it may answer a row and fail only then.
    private func pragma(_ setting: String, answers expected: String) throws(QueueError) {
        let statement = try Statement("PRAGMA \(setting)", self)
        defer { statement.finalize() }
        var answer = ""
        try statement.forEach { () throws(QueueError) in
            answer = statement.text(0)
            return true
        }
        guard answer == expected else {
            throw QueueError(.storage, "PRAGMA \(setting) answered \(answer), not \(expected)")
        }
    }

    func execute(_ sql: String) throws(QueueError) {
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw error(code, sql) }
    }

    /// The statement for this text, prepared once. The text is a literal, so that its address is its name.
    func statement(_ sql: StaticString) throws(QueueError) -> Statement {
        let key = StaticString.Key(address: UInt(bitPattern: sql.utf8Start), length: sql.utf8CodeUnitCount)
        if let statement = statements[key] { return statement }
        let statement = try Statement(sql.description, self)
        statements[key] = statement
        return statement
    }

    /// Rows that the last statement changed.
    var changes: Int { Int(sqlite3_changes(handle)) }

    // MARK: Transactions

    private var changesAtBegin: Int32 = 0
    /// Whether the last commit had anything to write: only then it shows that the disk takes it.
    private(set) var lastCommitWrote = false

    /// Begins a transaction unless one is under way.
    func begin() throws(QueueError) {
        guard !isPoisoned else {
            throw QueueError(.storage, "a flush of \(path) failed before: close the queue and open it again")
        }
        guard !isInTransaction else { return }
        try statement("BEGIN IMMEDIATE").run()
        isInTransaction = true
        changesAtBegin = sqlite3_total_changes(handle)
    }

    /// Commits what was begun. `durable`: when this returns, it survives a power cut. After an error everything is rolled back, except that
    /// after `unknown` nobody knows.
    func commit(durable: Bool) throws(QueueError) {
        guard isInTransaction else { return }
        do throws(QueueError) {
            try statement("COMMIT").run()
            guard sqlite3_get_autocommit(handle) != 0 else {
                throw QueueError(.internal, "the commit left the transaction open")
            }
        } catch {
            let code = sqlite3_errcode(handle)
            rollback()
            // The last frame may be in the log although writing it was answered with an error.
            if code & 0xff == SQLITE_IOERR { throw QueueError(.unknown, error.detail) }
            throw error
        }
        isInTransaction = false
        lastCommitWrote = sqlite3_total_changes(handle) != changesAtBegin
        if durable { try flush() }
        if logFrames.pointee >= Self.checkpointFrames { checkpoint(truncate: false) }
    }

    func rollback() {
        isInTransaction = false
        guard sqlite3_get_autocommit(handle) == 0 else { return }
        if sqlite3_exec(handle, "ROLLBACK", nil, nil, nil) != SQLITE_OK { isPoisoned = true }
    }

    /// Flushes the log. A flush that failed is never tried again: the kernel may have dropped the pages and say yes the next time.
    private func flush() throws(QueueError) {
        var file: UnsafeMutablePointer<sqlite3_file>?
        let code = sqlite3_file_control(handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file)
        guard code == SQLITE_OK, let file, let methods = file.pointee.pMethods, let sync = methods.pointee.xSync else {
            isPoisoned = true
            throw QueueError(.unknown, "the log of \(path) cannot be reached for a flush")
        }
        let result = sync(file, SQLITE_SYNC_NORMAL)
        guard result == SQLITE_OK else {
            isPoisoned = true
            throw QueueError(.unknown, "the flush of \(path) failed (\(result)): \(Posix.lastError())")
        }
        do {
            try watch.check()
        } catch {
            isPoisoned = true
            throw error
        }
    }

    /// Copies the log into the database; what fails here costs nothing but the log's size. True when all of it was copied.
    @discardableResult
    func checkpoint(truncate: Bool) -> Bool {
        guard !isInTransaction, !isPoisoned else { return false }
        let mode = truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE
        let code = sqlite3_wal_checkpoint_v2(handle, "main", mode, nil, nil)
        if code == SQLITE_OK { logFrames.pointee = 0 }
        return code == SQLITE_OK
    }

    func close() {
        for statement in statements.values { statement.finalize() }
        statements = [:]
        sqlite3_close_v2(handle)
    }

    // MARK: Errors

    /// What SQLite's code means to a caller.
    func error(_ code: Int32, _ what: String) -> QueueError {
        let message = "\(String(cString: sqlite3_errmsg(handle))) (SQLite \(code), \(what))"
        if code == SQLITE_READONLY | (6 << 8) { return QueueError(.permission, message) }  // the directory is read-only
        switch code & 0xff {
        case SQLITE_BUSY, SQLITE_LOCKED: return QueueError(.locked, message)
        case SQLITE_FULL, SQLITE_IOERR, SQLITE_NOMEM, SQLITE_READONLY, SQLITE_CANTOPEN, SQLITE_PROTOCOL:
            return QueueError(.storage, message)
        case SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_FORMAT: return QueueError(.corrupt, message)
        case SQLITE_PERM, SQLITE_AUTH: return QueueError(.permission, message)
        case SQLITE_TOOBIG: return QueueError(.tooLarge, message)
        default: return QueueError(.internal, message)
        }
    }
}

extension StaticString {
    fileprivate struct Key: Hashable {
        let address: UInt
        let length: Int
    }
}
