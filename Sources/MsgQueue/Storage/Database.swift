import CPlatform
import CSQLite
import Glibc

/// The one connection to a store: with every protection on, used under one lock, flushing the log itself.
///
/// SQLite runs at `synchronous=NORMAL`, where a commit writes the log but does not flush it; `commit(durable: true)` then flushes the log
/// itself, which is what `FULL` does, but only for the commits that promise it. (The pragma cannot change inside a transaction.)
final class Database {
    let handle: OpaquePointer
    let path: String
    private var statements: [CallSite: Statement] = [:]
    private(set) var isInTransaction = false
    /// A flush failed: what the disk holds is not known, and nothing is written through this connection any more.
    private(set) var isPoisoned = false
    /// nil: a view, whose changes stay in memory.
    private let lock: StoreLock?
    private let view: StoreView?
    private var watch: FileWatch
    private var room = DiskRoom()
    /// Frames in the log after the last commit; written by SQLite's hook.
    /// Allocated after the last throw that would leave this object half made: `deinit` does not run then.
    private let hookFrames: UnsafeMutablePointer<Int32>
    /// Frames in the log that are durable.
    private var flushedFrames: Int32 = 0
    /// Flushes of the log that succeeded.
    private(set) var flushes = 0
    /// Everything in the log is in the database: the next commit begins a new log.
    private(set) var isLogFresh = true
    private var logDescriptor: Int32 = -1
    private(set) var logSalts: UInt64 = 0

    /// Beyond so many pages the log is copied into the database.
    private static let checkpointFrames: Int32 = 4000
    /// A log that grew beyond so many pages is cut off once it was copied.
    private static let longLog: Int32 = 6_000

    /// The store itself. Nothing is written by opening it.
    init(lock: StoreLock, lengthLimit: Int64) throws(QueueError) {
        path = lock.path
        self.lock = lock
        view = nil
        watch = FileWatch(path: lock.path, descriptor: lock.descriptor)
        // Its locks are ours (StoreLock), so this connection takes none.
        handle = try Self.connect(lock.path, "unix-none")
        hookFrames = .allocate(capacity: 1)
        hookFrames.initialize(to: 0)
        do throws(QueueError) {
            try harden(lengthLimit)
            guard let name = sqlite3_db_filename(handle, "main"), String(cString: name) == path else {
                throw QueueError(.internal, "SQLite opened another file than \(path)")
            }
            guard sqlite3_db_readonly(handle, "main") == 0 else { throw QueueError(.permission, "\(path) can only be read") }
            try pragma("journal_mode=WAL", answers: "wal")
            try pragma("journal_mode", answers: "wal")
            try set(["synchronous=NORMAL", "wal_autocheckpoint=0", "journal_size_limit=\(Int64(Self.longLog) * 4096)"])
            sqlite3_wal_hook(
                handle,
                { context, _, _, frames in
                    context?.assumingMemoryBound(to: Int32.self).pointee = frames
                    return SQLITE_OK
                }, hookFrames)
            logDescriptor = try Posix.open(StorePath.log(of: path), O_RDONLY)
        } catch {
            close()
            throw error
        }
    }

    /// What a view shows.
    init(view: StoreView, lengthLimit: Int64) throws(QueueError) {
        path = view.path
        lock = nil
        self.view = view
        watch = FileWatch(path: view.path, descriptor: -1)
        do throws(QueueError) {
            handle = try Self.connect(try view.publish(), StoreView.vfsName)
        } catch {
            view.retire()
            throw error
        }
        hookFrames = .allocate(capacity: 1)
        hookFrames.initialize(to: 0)
        do throws(QueueError) {
            try harden(lengthLimit)
            try set(["journal_mode=MEMORY", "synchronous=OFF"])
        } catch {
            close()
            throw error
        }
    }

    /// A file that nobody else knows yet: without locks, without a log, and without a flush, for which its builder cares.
    init(building file: String, lengthLimit: Int64) throws(QueueError) {
        path = file
        lock = nil
        view = nil
        watch = FileWatch(path: file, descriptor: -1)
        handle = try Self.connect(file, "unix-none")
        hookFrames = .allocate(capacity: 1)
        hookFrames.initialize(to: 0)
        do throws(QueueError) {
            try harden(lengthLimit)
            try set(["journal_mode=MEMORY", "synchronous=OFF", "cache_size=-65536"])
        } catch {
            close()
            throw error
        }
    }

    deinit { hookFrames.deallocate() }

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

    /// Nothing in the file is trusted, nothing but this process writes it, and closing the connection neither flushes nor copies the log.
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
        // Exclusive before the first access: the log's index is then in memory, not in a file that others could truncate.
        try pragma("locking_mode=EXCLUSIVE", answers: "exclusive")
        try set(["mmap_size=0", "temp_store=MEMORY", "secure_delete=ON", "cell_size_check=ON", "cache_size=-4096", "foreign_keys=OFF"])
    }

    private func set(_ settings: [String]) throws(QueueError) {
        for setting in settings { try execute("PRAGMA \(setting)") }
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

    /// The statement of the place in the code that asks for it, whose text is made and prepared once. Therefore the text must not depend
    /// on variables; debug builds compare it.
    func statement(
        _ sql: @autoclosure () -> SQL, file: StaticString = #fileID, line: Int = #line, column: Int = #column
    ) throws(QueueError) -> Statement {
        let key = CallSite(file: UInt(bitPattern: file.utf8Start), place: line << 16 | column)
        if let statement = statements[key] {
            assert(statement.sql == sql().text, "the text of this statement depends on a variable")
            return statement
        }
        let statement = try Statement(sql().text, self)
        statements[key] = statement
        return statement
    }

    /// Rows that the last statement changed.
    var changes: Int { Int(sqlite3_changes(handle)) }

    /// Pages of the database after the last commit.
    private func pageCount() throws(QueueError) -> Int64 {
        let statement = try statement("PRAGMA page_count")
        return try statement.first { () throws(QueueError) in statement.int(0) } ?? 0
    }

    /// Drops the pages kept in memory, so that what is read next comes from the files: a page that was read wrongly once is read again.
    func forgetPages() { sqlite3_db_release_memory(handle) }

    // MARK: Transactions

    private var changesAtBegin: Int32 = 0
    /// Whether the last commit had anything to write: only then it shows that the disk takes it.
    private(set) var lastCommitWrote = false

    /// Whether the transaction has changed anything.
    var hasChanges: Bool { sqlite3_total_changes(handle) != changesAtBegin }

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
            let code = sqlite3_extended_errcode(handle)
            rollback()
            // The last frame may be in the log although writing it was answered with an error.
            if Self.isFlush(code) { isPoisoned = true }
            if code & 0xff == SQLITE_IOERR, !error.isFull { throw QueueError(.unknown, error.detail) }
            throw error
        }
        isInTransaction = false
        lastCommitWrote = hasChanges
        if lastCommitWrote, isLogFresh, lock != nil {
            isLogFresh = false
            flushedFrames = 0
            readSalts()
        }
        if durable { try flush() }
    }

    func rollback() {
        isInTransaction = false
        guard sqlite3_get_autocommit(handle) == 0 else { return }
        if sqlite3_exec(handle, "ROLLBACK", nil, nil, nil) != SQLITE_OK { isPoisoned = true }
    }

    /// The log's salts; 0 when they cannot be read, which the side record then says.
    private func readSalts() {
        do throws(QueueError) { logSalts = try LogImage.salts(logDescriptor, path: StorePath.log(of: path)) ?? 0 } catch {
            logSalts = 0
            Log.warning(error.detail)
        }
    }

    /// The log was there when the connection was opened, with so many frames, all of them durable.
    func adoptLog(frames: Int) {
        guard frames > 0 else { return }
        isLogFresh = false
        hookFrames.pointee = Int32(clamping: frames)
        flushedFrames = hookFrames.pointee
        readSalts()
    }

    private static func isFlush(_ code: Int32) -> Bool { [4, 5].contains(code >> 8) && code & 0xff == SQLITE_IOERR }

    // MARK: The log

    /// Frames in the log.
    var logFrames: Int32 { isLogFresh ? 0 : hookFrames.pointee }
    /// Whether a commit is not durable yet.
    var needsFlush: Bool { lock != nil && !isPoisoned && logFrames > flushedFrames }
    /// Whether the log is long enough to be copied.
    var isLogLong: Bool { logFrames >= Self.checkpointFrames }
    /// Whether it is longer than what is kept of it.
    var isLogOversized: Bool { logFrames > Self.longLog }

    /// Flushes the log. A flush that failed is never tried again: the kernel may have dropped the pages and say yes the next time.
    func flush() throws(QueueError) {
        guard lock != nil else { return }
        guard !isPoisoned else { throw QueueError(.storage, "a flush of \(path) failed before") }
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
        try checkFiles(thoroughly: false)
        flushedFrames = logFrames
        flushes += 1
    }

    /// The files are still the ones that were opened, and nobody else wrote them.
    private func checkFiles(thoroughly: Bool) throws(QueueError) {
        do throws(QueueError) {
            if thoroughly { try watch.check() } else { try watch.check(log: logDescriptor) }
        } catch {
            isPoisoned = true
            throw error
        }
    }

    /// Copies the log into the database; what fails here costs nothing but the log's size. True when all of it was copied: then nothing
    /// in the log is needed any more.
    func checkpoint() -> Bool {
        guard lock != nil, !isInTransaction, !isPoisoned else { return false }
        guard !isLogFresh else { return true }
        do throws(QueueError) {
            // What is not flushed must not be relied on; and a file that was replaced must not be written.
            if needsFlush { try flush() }
            try checkFiles(thoroughly: true)
        } catch {
            Log.warning(error.detail)
            return false
        }
        var (frames, copied): (Int32, Int32) = (0, 0)
        let code = sqlite3_wal_checkpoint_v2(handle, "main", SQLITE_CHECKPOINT_PASSIVE, &frames, &copied)
        if Self.isFlush(code) {
            isPoisoned = true
            Log.warning("\(path): a flush failed while the log was copied; the queue must be closed and opened again")
        }
        watch.remember()
        guard code == SQLITE_OK, frames == copied else { return false }
        isLogFresh = true
        flushedFrames = 0
        return true
    }

    /// Makes a log that was copied empty, so that no text that was deleted stays in it.
    func truncateLog() -> Bool {
        guard lock != nil, isLogFresh, !isPoisoned else { return false }
        let code = sqlite3_wal_checkpoint_v2(handle, "main", SQLITE_CHECKPOINT_TRUNCATE, nil, nil)
        if Self.isFlush(code) { isPoisoned = true }
        return code == SQLITE_OK
    }

    /// From now on the files are watched. Their names are made durable first.
    func watchFiles() throws(QueueError) {
        try Posix.syncDirectory(of: path)
        watch.remember()
    }

    // MARK: Room

    /// Sees to it that so many bytes of new messages can be copied into the database when the disk is full, and `kept` bytes more.
    func takeRoom(for bytes: Int64, keeping kept: @autoclosure () -> Int64) throws(QueueError) {
        guard let lock, room.isNeeded(for: bytes) else { return }
        let size = Int64(try Posix.status(lock.descriptor, path).st_size)
        let grown = max(0, try pageCount() * 4096 - size)
        // Allocating it changes the file's times.
        defer { watch.rememberTimes() }
        guard room.take(lock.descriptor, size: size, bytes: grown.addingClamped(bytes).addingClamped(kept())) else {
            throw QueueError(.storage, "the disk is full: \(path) can take no more messages", isFull: true)
        }
    }

    /// Takes the room again that a checkpoint gave back, or as much of it as there is.
    func restoreRoom(keeping kept: Int64) {
        room.forget()
        do throws(QueueError) { try takeRoom(for: 0, keeping: kept) } catch {
            // The next message asks again, and is told.
            guard let lock, let size = try? Posix.status(lock.descriptor, path).st_size else { return }
            room.takeRest(lock.descriptor, size: Int64(size), bytes: kept)
            watch.rememberTimes()
        }
    }

    /// Gives half of the room up for what must be written now, in the end all of it; false: there is none.
    func releaseRoom() -> Bool {
        guard let lock, let status = try? Posix.status(lock.descriptor, path) else { return false }
        defer { watch.remember() }
        return room.release(lock.descriptor, size: Int64(status.st_size), allocated: Int64(status.st_blocks) * 512)
    }

    /// A file of which more than half is unused, and so much at least, is made smaller when it is closed; a larger rest takes too long.
    private static let (unused, rest): (Int64, Int64) = (256, 8192)

    /// Gives unused pages back to the file system, if that is worth it. What fails costs nothing but their room. Outside a transaction.
    /// True when the file was written anew, with its indexes.
    func shrink() -> Bool {
        guard lock != nil, !isInTransaction, !isPoisoned else { return false }
        do throws(QueueError) {
            let statement = try statement("PRAGMA freelist_count")
            let free = try statement.first { () throws(QueueError) in statement.int(0) } ?? 0
            let used = try pageCount() - free
            guard free > Self.unused, free > used, used <= Self.rest else { return false }
            // It attaches a database in memory.
            sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 1)
            defer { sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0) }
            try execute("VACUUM")
            return true
        } catch {
            Log.warning("\(path): unused room was not given back: \(error.detail)")
            return false
        }
    }

    // MARK: The end

    /// Closes the connection, whatever its state. Neither log nor database is written by this.
    func close() {
        for statement in statements.values { statement.finalize() }
        statements = [:]
        sqlite3_close_v2(handle)
        if logDescriptor >= 0 { Glibc.close(logDescriptor) }
        logDescriptor = -1
        view?.retire()
    }

    // MARK: Errors

    func error(_ code: Int32, _ what: String) -> QueueError { Self.error(code, what, handle) }

    /// What SQLite's code means to a caller.
    private static func error(_ code: Int32, _ what: String, _ handle: OpaquePointer) -> QueueError {
        let system = sqlite3_system_errno(handle)
        var message = "\(String(cString: sqlite3_errmsg(handle))) (SQLite \(code), \(what))"
        if [SQLITE_IOERR, SQLITE_CANTOPEN].contains(code & 0xff), system != 0 { message += ": \(Posix.describe(system))" }
        if code == SQLITE_READONLY | (6 << 8) { return QueueError(.permission, message) }  // the directory is read-only
        switch code & 0xff {
        case SQLITE_BUSY, SQLITE_LOCKED: return QueueError(.locked, message)
        case SQLITE_FULL: return QueueError(.storage, message, isFull: true)
        case SQLITE_IOERR: return QueueError(.storage, message, isFull: Posix.isFull(system))
        case SQLITE_CANTOPEN:
            return QueueError([EACCES, EPERM, EROFS].contains(system) ? .permission : .storage, message, isFull: Posix.isFull(system))
        case SQLITE_NOMEM, SQLITE_READONLY, SQLITE_PROTOCOL: return QueueError(.storage, message)
        case SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_FORMAT:
            return QueueError(.corrupt, message, isIndex: code == SQLITE_CORRUPT | (3 << 8))  // SQLITE_CORRUPT_INDEX
        case SQLITE_PERM, SQLITE_AUTH: return QueueError(.permission, message)
        case SQLITE_TOOBIG: return QueueError(.tooLarge, message)
        default: return QueueError(.internal, message)
        }
    }
}

/// Where a statement is asked for: the address of the file's name, and line and column in it.
private struct CallSite: Hashable {
    let file: UInt
    let place: Int
}
