import CSQLite
import Glibc

/// The only connection to a store. All protections of SQLite are enabled. Used under one lock.
///
/// SQLite runs with `synchronous=NORMAL`: a commit writes the log but does not flush it. `commit(durable: true)` then flushes the log, as
/// SQLite does with `FULL`, but only for the commits that must be durable. (The pragma cannot be changed inside a transaction.)
final class Database {
    let handle: OpaquePointer
    let path: String
    private var statements: [CallSite: Statement] = [:]
    private var control: (begin: Statement, commit: Statement)?
    private(set) var isInTransaction = false
    /// The last transaction was committed: this connection reads its changes, also when their flush failed.
    private(set) var isCommitted = false
    /// A flush failed. The content of the disk is unknown, and this connection writes nothing more.
    private(set) var isPoisoned = false

    func poison() { isPoisoned = true }

    /// nil: a view, whose changes stay in memory, a file under construction, or a store in memory.
    private(set) var log: WriteAheadLog?
    private let view: StoreView?
    /// The disk of a store in memory.
    private let disk: SimulatedDisk?
    private let isUnderConstruction: Bool

    /// Opens the store itself. Opening writes nothing. `isLogNew`: there is no log yet.
    convenience init(lock: StoreLock, isLogNew: Bool, lengthLimit: Int64) throws(QueueError) {
        try self.init(lock.path, settings: [], lengthLimit: lengthLimit)
        do throws(QueueError) { try openLog(lock.descriptor, isNew: isLogNew) } catch {
            close()
            throw error
        }
    }

    /// Opens the database that a view presents.
    convenience init(view: StoreView, lengthLimit: Int64) throws(QueueError) {
        try self.init(view.path, view: view, lengthLimit: lengthLimit)
    }

    /// Opens a file under construction, which nothing else uses yet: without locks, log or flush. The caller flushes it.
    convenience init(building file: String, lengthLimit: Int64) throws(QueueError) {
        try self.init(file, isUnderConstruction: true, settings: Self.withoutLog + ["cache_size=-65536"], lengthLimit: lengthLimit)
    }

    /// Opens a store in memory.
    convenience init(disk: SimulatedDisk, lengthLimit: Int64) throws(QueueError) {
        try self.init(":memory:", disk: disk, lengthLimit: lengthLimit)
    }

    private static let withoutLog = ["journal_mode=MEMORY", "synchronous=OFF"]

    private init(
        _ path: String, view: StoreView? = nil, disk: SimulatedDisk? = nil, isUnderConstruction: Bool = false,
        settings: [String] = withoutLog, lengthLimit: Int64
    ) throws(QueueError) {
        (self.path, self.view, self.disk, self.isUnderConstruction) = (path, view, disk, isUnderConstruction)
        do throws(QueueError) {
            // `StoreLock` holds the locks on the file, so this connection takes none.
            handle = try Self.connect(try view?.publish() ?? path, view == nil ? "unix-none" : StoreView.vfsName)
        } catch {
            view?.retire()
            throw error
        }
        do throws(QueueError) {
            try disk?.attach(to: handle)
            try harden(lengthLimit)
            try set(settings)
        } catch {
            close()
            throw error
        }
    }

    private func openLog(_ descriptor: Int32, isNew: Bool) throws(QueueError) {
        guard let name = sqlite3_db_filename(handle, "main"), String(cString: name) == path else {
            throw QueueError(.internal, "SQLite opened another file than \(path)")
        }
        // The lock's descriptor is open for writing: SQLite fell back to reading after an error.
        guard sqlite3_db_readonly(handle, "main") == 0 else { throw QueueError(.storage, "SQLite could not open \(path) for writing") }
        try pragma("journal_mode=WAL", answers: "wal")
        try pragma("journal_mode", answers: "wal")
        try set(["synchronous=NORMAL", "wal_autocheckpoint=0", "journal_size_limit=\(LogSpace.limit)"])
        let size = try pageSize()
        let log = WriteAheadLog(of: self, descriptor, try Posix.open(StorePath.log(of: path), O_RDWR), pageSize: size)
        self.log = log
        guard WriteBuffer.install(handle, log: LogFlush(log.descriptor, isNew: isNew)) else {
            throw QueueError(.internal, "SQLite has no log of \(path) open")
        }
    }

    /// Held by the thread that uses the connection, which debug builds check; nil: only one thread has the connection.
    var owner: TurnLock?

    private static func connect(_ name: String, _ vfs: String) throws(QueueError) -> OpaquePointer {
        var opened: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_NOFOLLOW
        let code = sqlite3_open_v2(name, &opened, flags, vfs)
        guard code == SQLITE_OK, let opened else {
            let error = opened.map { Self.error(code, "open", $0) } ?? QueueError(.storage, "\(name): out of memory")
            sqlite3_close_v2(opened)
            throw error
        }
        sqlite3_extended_result_codes(opened, 1)
        return opened
    }

    /// Configures the connection: the content of the file is untrusted, only this process writes it, and closing does not checkpoint.
    private func harden(_ lengthLimit: Int64) throws(QueueError) {
        for (option, value) in [
            (SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1),
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
        // Before the first access, so that the WAL index is in memory, not in a file that another process could truncate.
        try pragma("locking_mode=EXCLUSIVE", answers: "exclusive")
        try set(["mmap_size=0", "temp_store=MEMORY", "secure_delete=ON", "cell_size_check=ON", "cache_size=-4096", "foreign_keys=OFF"])
    }

    private func set(_ settings: [String]) throws(QueueError) {
        for setting in settings { try execute("PRAGMA \(setting)") }
    }

    /// Runs a pragma and checks its result. The statement is stepped to its end: it can return a row and fail after that.
    private func pragma(_ setting: String, answers expected: String) throws(QueueError) {
        let statement = try Statement("PRAGMA \(setting)", self)
        defer { statement.finalize() }
        var answer = ""
        try statement.forEach { () throws(QueueError) in
            answer = statement.text(0)
            return true
        }
        guard answer == expected else {
            throw QueueError(.storage, "PRAGMA \(setting) returned \(answer), expected \(expected)")
        }
    }

    func execute(_ sql: String) throws(QueueError) {
        try log?.prepareChange()
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        guard code == SQLITE_OK else { throw error(code, sql) }
    }

    /// Returns the statement of this call site. It is prepared once and cached, so its text must not depend on variables; debug builds
    /// check that.
    func statement(
        _ sql: @autoclosure () -> SQL, file: StaticString = #fileID, line: Int = #line, column: Int = #column
    ) throws(QueueError) -> Statement {
        owner?.assertHeld()
        let key = CallSite(file: UInt(bitPattern: file.utf8Start), place: line << 16 | column)
        if let statement = statements[key] {
            assert(statement.sql == sql().text, "the text of this statement depends on a variable")
            return statement
        }
        let statement = try Statement(sql().text, self)
        statements[key] = statement
        return statement
    }

    /// Returns the statements that every transaction uses, without the search for their call sites.
    private func controls() throws(QueueError) -> (begin: Statement, commit: Statement) {
        owner?.assertHeld()
        if let control { return control }
        let control = (begin: try statement("BEGIN IMMEDIATE"), commit: try statement("COMMIT"))
        self.control = control
        return control
    }

    /// Whether there is a table or an index of this name.
    func hasObject(_ name: String) throws(QueueError) -> Bool {
        let statement = try statement("SELECT 1 FROM sqlite_schema WHERE name = ?1")
        try statement.bind(1, name)
        return try statement.first { () throws(QueueError) in true } ?? false
    }

    /// The number of rows changed by the last statement.
    var changes: Int { Int(sqlite3_changes(handle)) }

    /// Returns the number of pages of the database.
    func pageCount() throws(QueueError) -> Int64 {
        let statement = try statement("PRAGMA page_count")
        return try statement.first { () throws(QueueError) in statement.int(0) } ?? 0
    }

    /// Returns the number of bytes of a page.
    func pageSize() throws(QueueError) -> Int64 {
        let statement = try statement("PRAGMA page_size")
        return try statement.first { () throws(QueueError) in statement.int(0) } ?? 4096
    }

    /// Returns the size of the database in bytes, and how much of it is free.
    func sizes() throws(QueueError) -> (file: Int64, free: Int64) {
        let size = try pageSize()
        return (try pageCount() * size, try freePages() * size)
    }

    func freePages() throws(QueueError) -> Int64 {
        let statement = try statement("PRAGMA freelist_count")
        return try statement.first { () throws(QueueError) in statement.int(0) } ?? 0
    }

    /// Empties the page cache, so that the next reads come from the files. A page that was read incorrectly is then read again.
    func dropPageCache() {
        sqlite3_db_release_memory(handle)
        forgetReadErrors()
    }

    // MARK: Transactions

    private var changesAtBegin: Int32 = 0
    /// Whether the last commit wrote anything. Only such a commit shows that the disk accepts writes.
    private(set) var lastCommitWrote = false

    /// Whether the transaction has changed anything.
    var hasChanges: Bool { sqlite3_total_changes(handle) != changesAtBegin }

    /// Begins a transaction unless one is under way.
    func begin() throws(QueueError) {
        guard !isPoisoned else {
            throw QueueError(.storage, "an earlier flush of \(path) failed: close the queue and open it again")
        }
        guard !isInTransaction else { return }
        try controls().begin.runControl()
        isInTransaction = true
        isCommitted = false
        changesAtBegin = sqlite3_total_changes(handle)
        disk?.begin()
    }

    /// Commits the transaction. `durable`: its changes survive a power failure when this returns. After an error the transaction is rolled
    /// back; after the error `unknown` it may be committed all the same.
    func commit(durable: Bool) throws(QueueError) {
        guard isInTransaction else { return }
        do throws(QueueError) {
            try commitInMemory()
            try controls().commit.runControl()
            guard sqlite3_get_autocommit(handle) != 0 else {
                throw QueueError(.internal, "the commit left the transaction open")
            }
        } catch {
            let code = sqlite3_extended_errcode(handle)
            rollback()
            // The last frame may be in the log although writing it failed.
            if Self.isFlush(code) { isPoisoned = true }
            if code & 0xff == SQLITE_IOERR, !error.isFull, !isUnderConstruction { throw QueueError(.unknown, error.detail) }
            throw error
        }
        isInTransaction = false
        isCommitted = true
        lastCommitWrote = hasChanges
        try log?.record(wrote: lastCommitWrote, durable: durable)
    }

    /// In a store in memory: ends the process at this commit, or refuses it, when that is its fate.
    private func commitInMemory() throws(QueueError) {
        guard let disk, hasChanges, !isPoisoned else { return }
        switch disk.commit() {
        case .stored: return
        case .refused: throw QueueError(.storage, "the simulated disk refused a write")
        case .crash(let isStored):
            if isStored { try controls().commit.runControl() }
            end(isStored: isStored)
            throw QueueError(.unknown, "the simulated process ended")
        }
    }

    /// The simulated process has ended.
    private(set) var hasEnded = false

    /// Ends the simulated process: what it has not committed is lost, and it writes nothing more.
    func end(isStored: Bool = false) {
        guard let disk, !isPoisoned else { return }
        rollback()
        (isPoisoned, hasEnded) = (true, true)
        disk.end(handle, isStored: isStored)
    }

    func rollback() {
        isInTransaction = false
        // SQLite itself may have rolled back, after an error.
        if sqlite3_get_autocommit(handle) == 0, sqlite3_exec(handle, "ROLLBACK", nil, nil, nil) != SQLITE_OK { isPoisoned = true }
        log?.recordRollback()
    }

    /// Whether the code is SQLITE_IOERR_FSYNC or SQLITE_IOERR_DIR_FSYNC.
    static func isFlush(_ code: Int32) -> Bool { [4, 5].contains(code >> 8) && code & 0xff == SQLITE_IOERR }

    // MARK: Closing

    /// Closes the connection in any state. Writes neither the log nor the database.
    func close() {
        for statement in statements.values { statement.finalize() }
        (statements, control) = ([:], nil)
        sqlite3_close_v2(handle)
        log?.close()
        view?.retire()
    }

    // MARK: Errors

    func error(_ code: Int32, _ what: String) -> QueueError {
        let error = Self.error(code, what, handle)
        // What this process has just written is not damaged: SQLite reports a failed read in this way, too.
        return isUnderConstruction && error.code == .corrupt ? QueueError(.storage, error.detail) : error
    }

    /// Returns the library's error for a result code of SQLite.
    private static func error(_ code: Int32, _ what: String, _ handle: OpaquePointer) -> QueueError {
        let system = sqlite3_system_errno(handle)
        var message = "\(String(cString: sqlite3_errmsg(handle))) (SQLite \(code), \(what))"
        if [SQLITE_IOERR, SQLITE_CANTOPEN].contains(code & 0xff), system != 0 { message += ": \(Posix.describe(system))" }
        if code == SQLITE_READONLY | (6 << 8) { return QueueError(.permission, message) }  // the directory is read-only
        switch code & 0xff {
        case SQLITE_BUSY, SQLITE_LOCKED: return QueueError(.locked, message)
        case SQLITE_FULL: return QueueError(.storage, message, .full)
        case SQLITE_IOERR: return QueueError(.storage, message, Posix.isFull(system) ? .full : .other)
        case SQLITE_CANTOPEN:
            let isForbidden = [EACCES, EPERM, EROFS].contains(system)
            return QueueError(isForbidden ? .permission : .storage, message, Posix.isFull(system) ? .full : .other)
        case SQLITE_NOMEM, SQLITE_READONLY, SQLITE_PROTOCOL: return QueueError(.storage, message)
        case SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_FORMAT:
            return QueueError(.corrupt, message, code == SQLITE_CORRUPT | (3 << 8) ? .index : .other)  // SQLITE_CORRUPT_INDEX
        // The statements violate no constraint of sound tables: a number that is too large for its column, or a value of another type.
        case SQLITE_CONSTRAINT: return QueueError(.corrupt, message, .index)
        case SQLITE_PERM, SQLITE_AUTH: return QueueError(.permission, message)
        case SQLITE_TOOBIG: return QueueError(.tooLarge, message)
        default: return QueueError(.internal, message)
        }
    }
}

/// A position in the source code: the address of the file's name, and line and column in it.
private struct CallSite: Hashable {
    let file: UInt
    let place: Int
}
