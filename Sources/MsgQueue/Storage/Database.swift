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
    /// nil: a view, whose changes stay in memory, a file under construction, or a store in memory.
    private let lock: StoreLock?
    private let view: StoreView?
    /// The disk of a store in memory.
    private let disk: SimulatedDisk?
    private var watch: FileWatch
    private var reserve = DiskReserve()
    private var space = LogSpace()
    private var pageSize: Int64 = 4096
    /// The number of frames in the log after the last commit; written by the WAL hook. Allocated only when the connection is open:
    /// `deinit` does not run when an initialiser throws earlier.
    private let hookFrames: UnsafeMutablePointer<Int32>
    private let isUnderConstruction: Bool
    /// The number of durable frames in the log.
    private var flushedFrames: Int32 = 0
    /// The number of successful flushes of the log.
    private(set) var flushes = 0
    /// The whole log is checkpointed: the next commit starts a new log.
    private(set) var isLogFresh = true
    private var logDescriptor: Int32 = -1
    private(set) var logSalts: UInt64 = 0

    /// The header of the log was overwritten, so the next commit must write one.
    private var isHeaderOverwritten = false

    /// Opens the store itself. Opening writes nothing. `isLogNew`: there is no log yet.
    init(lock: StoreLock, isLogNew: Bool, lengthLimit: Int64) throws(QueueError) {
        path = lock.path
        self.lock = lock
        (view, disk, isUnderConstruction) = (nil, nil, false)
        watch = FileWatch(path: lock.path, descriptor: lock.descriptor)
        // `StoreLock` holds the locks on the file, so this connection takes none.
        handle = try Self.connect(lock.path, "unix-none")
        hookFrames = .allocate(capacity: 1)
        hookFrames.initialize(to: 0)
        do throws(QueueError) {
            try harden(lengthLimit)
            guard let name = sqlite3_db_filename(handle, "main"), String(cString: name) == path else {
                throw QueueError(.internal, "SQLite opened another file than \(path)")
            }
            // The lock's descriptor is open for writing: SQLite fell back to reading after an error.
            guard sqlite3_db_readonly(handle, "main") == 0 else { throw QueueError(.storage, "SQLite could not open \(path) for writing") }
            try pragma("journal_mode=WAL", answers: "wal")
            try pragma("journal_mode", answers: "wal")
            try set(["synchronous=NORMAL", "wal_autocheckpoint=0", "journal_size_limit=\(LogSpace.limit)"])
            sqlite3_wal_hook(
                handle,
                { context, _, _, frames in
                    context?.assumingMemoryBound(to: Int32.self).pointee = frames
                    return SQLITE_OK
                }, hookFrames)
            logDescriptor = try Posix.open(StorePath.log(of: path), O_RDWR)
            guard WriteBuffer.install(handle, log: LogFlush(logDescriptor, isNew: isLogNew)) else {
                throw QueueError(.internal, "SQLite has no log of \(path) open")
            }
            let sizes = try statement("PRAGMA page_size")
            pageSize = try sizes.first { () throws(QueueError) in sizes.int(0) } ?? pageSize
            try readVacuumMode()
            space.update(free: DiskReserve.freeBytes(lock.descriptor))
        } catch {
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
        try self.init(file, isUnderConstruction: true, lengthLimit: lengthLimit, "cache_size=-65536")
    }

    /// Opens a store in memory.
    convenience init(disk: SimulatedDisk, lengthLimit: Int64) throws(QueueError) {
        try self.init(":memory:", disk: disk, lengthLimit: lengthLimit)
    }

    /// Opens a database that has no lock and no log, and is not flushed.
    private init(
        _ path: String, view: StoreView? = nil, disk: SimulatedDisk? = nil, isUnderConstruction: Bool = false, lengthLimit: Int64,
        _ settings: String...
    ) throws(QueueError) {
        (self.path, self.view, self.disk, self.isUnderConstruction) = (path, view, disk, isUnderConstruction)
        lock = nil
        watch = FileWatch(path: path, descriptor: -1)
        do throws(QueueError) {
            handle = try Self.connect(try view?.publish() ?? path, view == nil ? "unix-none" : StoreView.vfsName)
        } catch {
            view?.retire()
            throw error
        }
        hookFrames = .allocate(capacity: 1)
        hookFrames.initialize(to: 0)
        do throws(QueueError) {
            try disk?.attach(to: handle)
            try harden(lengthLimit)
            try set(["journal_mode=MEMORY", "synchronous=OFF"] + settings)
        } catch {
            close()
            throw error
        }
    }

    deinit { hookFrames.deallocate() }

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

    /// Makes durable what must be so before the log is written from its start. (Pages of a large transaction are written to the log before
    /// its commit.)
    var prepareLog: (() throws(QueueError) -> Void)?
    private var isLogPrepared = false

    /// Called before each change. After an error the change must not be made; the next one tries again.
    func prepareChange() throws(QueueError) {
        guard !isLogPrepared, let prepareLog else { return }
        try prepareLog()
        isLogPrepared = true
    }

    func execute(_ sql: String) throws(QueueError) {
        try prepareChange()
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

    /// Returns the size of the database in bytes, and how much of it is free.
    func sizes() throws(QueueError) -> (file: Int64, free: Int64) {
        let statement = try statement("PRAGMA page_size")
        let size = try statement.first { () throws(QueueError) in statement.int(0) } ?? pageSize
        return (try pageCount() * size, try freePages() * size)
    }

    private func freePages() throws(QueueError) -> Int64 {
        let statement = try statement("PRAGMA freelist_count")
        return try statement.first { () throws(QueueError) in statement.int(0) } ?? 0
    }

    /// Whether free pages can be returned to the file system in steps. Stores of earlier versions cannot before a VACUUM.
    private(set) var canVacuumInSteps = false

    private func readVacuumMode() throws(QueueError) {
        let statement = try statement("PRAGMA auto_vacuum")
        canVacuumInSteps = try statement.first { () throws(QueueError) in statement.int(0) } == 2
    }

    /// Moves pages from the end of the file to free ones, and removes these from the end. Inside a transaction. The file becomes shorter with
    /// the next checkpoint.
    func vacuumStep(pages: Int64) throws(QueueError) { try execute("PRAGMA incremental_vacuum(\(pages))") }

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
        if lastCommitWrote, isLogFresh, lock != nil {
            isLogFresh = false
            flushedFrames = 0
            guard readSalts() || !isHeaderOverwritten else {
                isPoisoned = true
                throw QueueError(.unknown, "the log of \(path) has no header")
            }
            isHeaderOverwritten = false
        } else if lastCommitWrote, logSalts == 0, lock != nil {
            // Reading them failed.
            readSalts()
        }
        if durable { try flush() }
        if lastCommitWrote, lock != nil, let file = LogFile(handle) { space.append(through: logEnd, file) }
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
        if lock != nil, let file = LogFile(handle) { space.recordRollback(file) }
    }

    /// Reads the log's salts. When that fails they are 0, here and in the side record. Returns false when the log has no valid header.
    @discardableResult
    private func readSalts() -> Bool {
        do throws(QueueError) {
            let salts = try LogImage.salts(logDescriptor, path: StorePath.log(of: path))
            logSalts = salts ?? 0
            return salts != nil
        } catch {
            logSalts = 0
            Log.warning(error.detail)
            return true
        }
    }

    /// Continues a log that existed when the connection was opened. All its frames are durable.
    func adoptLog(frames: Int) {
        guard frames > 0 else { return }
        isLogFresh = false
        hookFrames.pointee = Int32(clamping: frames)
        flushedFrames = hookFrames.pointee
        space.adopt(size: LogFile(handle)?.size ?? logEnd)
        readSalts()
    }

    /// Whether the code is SQLITE_IOERR_FSYNC or SQLITE_IOERR_DIR_FSYNC.
    private static func isFlush(_ code: Int32) -> Bool { [4, 5].contains(code >> 8) && code & 0xff == SQLITE_IOERR }

    // MARK: The log

    /// The number of frames in the log that are not checkpointed.
    var logFrames: Int32 { isLogFresh ? 0 : hookFrames.pointee }
    /// Whether a commit is not durable yet.
    var needsFlush: Bool { lock != nil && !isPoisoned && logFrames > flushedFrames }
    /// The end of the last frame, in bytes.
    private var logEnd: Int64 {
        Int64(LogImage.headerSize) + Int64(logFrames) * (Int64(LogImage.frameHeaderSize) + pageSize)
    }
    /// Whether the log is long enough for a checkpoint.
    var isLogLong: Bool { logEnd >= space.target }
    /// Whether a checkpoint cannot wait for the timer thread.
    var isLogOverdue: Bool { logEnd >= space.overdue }
    /// Whether the log file is so long that it is shortened after its checkpoint.
    var isLogTooLong: Bool { space.isTooLong }

    /// Limits the log to a share of `bytes`, the limit of the size of all files.
    func limitLog(to bytes: Int64) throws(QueueError) {
        guard bytes > 0 else { return }
        space.target = min(max(bytes / 16, LogSpace.shortest), LogSpace.target)
        try execute("PRAGMA journal_size_limit=\(space.limit)")
    }

    /// Bytes of the database that are in use, and of the log after a transaction that writes `more` bytes to it. Free pages of the database
    /// are used again. The log has at least the size that it has without large transactions.
    func fileBytes(adding more: Int64) throws(QueueError) -> Int64 {
        let used = try pageCount() - freePages()
        return used * pageSize + max(space.size, space.goal, logEnd.addingClamped(more))
    }

    /// Flushes the log. A failed flush is never repeated: the kernel may have dropped the pages and would report success.
    func flush() throws(QueueError) {
        guard lock != nil else { return }
        guard !isPoisoned else { throw QueueError(.storage, "an earlier flush of \(path) failed") }
        guard let file = LogFile(handle) else {
            isPoisoned = true
            throw QueueError(.unknown, "cannot access the log of \(path) to flush it")
        }
        let result = file.flush()
        guard result == SQLITE_OK else {
            isPoisoned = true
            throw QueueError(.unknown, "flushing the log of \(path) failed (SQLite \(result)): \(Posix.lastError())")
        }
        do throws(QueueError) { try checkFiles(thoroughly: false) } catch {
            // What was committed is in the log, which may be a file that was removed.
            throw QueueError(.unknown, error.detail)
        }
        flushedFrames = logFrames
        flushes += 1
    }

    /// A file was removed, replaced or modified from outside: what was committed may be lost.
    private(set) var lossOfFiles: QueueError?

    /// Throws when a file was removed, replaced or modified from outside. `thoroughly`: compares the file names even within the same second.
    func checkFiles(thoroughly: Bool) throws(QueueError) {
        do throws(QueueError) {
            if thoroughly { try watch.check() } else { try watch.check(log: logDescriptor) }
        } catch {
            isPoisoned = true
            lossOfFiles = error
            throw error
        }
    }

    /// Runs a checkpoint, which copies the log into the database. Returns true when all frames were copied, so that the log is no longer
    /// needed. After a failure the log is kept; nothing is lost.
    func checkpoint() -> Bool {
        guard lock != nil, !isInTransaction, !isPoisoned else { return false }
        guard !isLogFresh else { return true }
        do throws(QueueError) {
            // Only durable frames may be copied, and a replaced file must not be written.
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
            Log.warning("\(path): a flush failed during a checkpoint; close the queue and open it again")
        }
        watch.record()
        guard code == SQLITE_OK, frames == copied else { return false }
        isLogFresh = true
        isLogPrepared = false
        flushedFrames = 0
        if let lock { space.update(free: DiskReserve.freeBytes(lock.descriptor)) }
        return true
    }

    /// Writes `change` of a page to the database file itself, durably. The log must contain a version of the page and be flushed: a crash may
    /// leave a part of the page, which is then read from the log, as after a crash in a checkpoint. Returns false, without a change, when
    /// `change` returns nil.
    func rewritePage(_ number: UInt32, _ change: ([UInt8]) -> [UInt8]?) throws(QueueError) -> Bool {
        guard let lock, number >= 1, !isPoisoned else { return false }
        try checkFiles(thoroughly: true)
        let offset = (Int64(number) - 1) * pageSize
        let page = try Posix.read(lock.descriptor, at: offset, count: Int(pageSize), path)
        guard let changed = change(page), changed.count == page.count else { return false }
        guard changed != page else { return true }
        defer { watch.record() }
        try Posix.write(lock.descriptor, at: offset, changed, path)
        guard Posix.flush(lock.descriptor) else {
            isPoisoned = true
            throw QueueError(.storage, "flushing \(path): \(Posix.lastError()); close the queue and open it again")
        }
        return true
    }

    /// Overwrites a checkpointed log, so that it keeps no deleted text, and shortens a long one.
    func cleanLog() -> Bool {
        guard lock != nil, isLogFresh, !isPoisoned else { return false }
        guard space.isKept, let file = LogFile(handle) else { return truncateLog() }
        guard file.writeZeros(at: 0, count: Int64(LogImage.headerSize)) else { return false }
        isHeaderOverwritten = true
        guard file.flush() == SQLITE_OK else {
            isPoisoned = true
            return false
        }
        return space.clean(file)
    }

    /// Truncates a checkpointed log to zero bytes.
    func truncateLog() -> Bool {
        guard lock != nil, isLogFresh, !isPoisoned else { return false }
        let code = sqlite3_wal_checkpoint_v2(handle, "main", SQLITE_CHECKPOINT_TRUNCATE, nil, nil)
        if Self.isFlush(code) { isPoisoned = true }
        guard code == SQLITE_OK else { return false }
        space.reset()
        return true
    }

    /// Makes the names of the files durable and starts to watch the files.
    func watchFiles() throws(QueueError) {
        try Posix.syncDirectory(of: path)
        try watch.begin()
    }

    // MARK: Disk reserve

    /// The disk is full: what is written now may need the reserve.
    var usesReserve: Bool { !reserve.isWhole }

    /// Reserves disk space: `bytes` of new messages, and `kept` bytes more, can then be checkpointed when the disk is full.
    func reserveSpace(for bytes: Int64, keeping kept: @autoclosure () -> Int64) throws(QueueError) {
        guard let lock, reserve.isNeeded(for: bytes) else { return }
        let size = Int64(try Posix.status(lock.descriptor, path).st_size)
        let grown = max(0, try pageCount() * pageSize - size)
        // Allocation changes the file's times.
        defer { watch.recordTimes() }
        guard reserve.allocate(lock.descriptor, size: size, bytes: grown.addingClamped(bytes).addingClamped(kept())) else {
            throw QueueError(.storage, "the disk is full: no space for new messages in \(path)", isFull: true)
        }
    }

    /// Adapts the reserve after a checkpoint to what is needed, or to as much of it as is free. With plenty of free
    /// space a little more may stay reserved, unless `exactly`.
    func adaptReserve(keeping kept: Int64, exactly: Bool) {
        guard let lock else { return }
        do throws(QueueError) {
            let status = try Posix.status(lock.descriptor, path)
            let (size, allocated) = (Int64(status.st_size), Int64(status.st_blocks) * 512)
            let loosely = space.isKept && !exactly
            if !reserve.trim(lock.descriptor, size: size, allocated: allocated, bytes: kept, loosely: loosely) {
                Log.warning("\(path): reserved space could not be released: \(Posix.lastError())")
            }
            beginReserve(keeping: kept)
        } catch {
            Log.warning("\(path): the reserved space could not be adapted: \(error.detail)")
        }
    }

    /// Reserves `kept` bytes, or as much of it as is free, unless something is reserved already.
    func beginReserve(keeping kept: Int64) {
        do throws(QueueError) { try reserveSpace(for: 0, keeping: kept) } catch {
            // The next enqueue tries again and reports the error.
            guard let lock, let status = try? Posix.status(lock.descriptor, path) else { return }
            reserve.allocateAvailable(lock.descriptor, size: Int64(status.st_size), bytes: kept)
            watch.recordTimes()
        }
    }

    /// Releases what is reserved and not needed in a closed store, whose messages need `kept` bytes on a full disk.
    func endReserve(keeping kept: Int64) {
        guard let lock else { return }
        do throws(QueueError) {
            let status = try Posix.status(lock.descriptor, path)
            try reserve.end(lock.descriptor, size: Int64(status.st_size), allocated: Int64(status.st_blocks) * 512, keeping: kept)
        } catch {
            Log.warning("\(path): reserved space could not be released: \(error.detail)")
        }
    }

    /// Releases half of the reserve for what must be written now, or all of it when little is left. Returns false when nothing is reserved.
    func releaseReserve() -> Bool {
        guard let lock, let status = try? Posix.status(lock.descriptor, path) else { return false }
        defer { watch.record() }
        return reserve.release(lock.descriptor, size: Int64(status.st_size), allocated: Int64(status.st_blocks) * 512)
    }

    /// In pages. Closing runs VACUUM when more than half of the file and more than `unused` pages are free. With more than `rest` pages in
    /// use it would take longer than 20 ms, and the next session gives the space back in steps. A store that cannot do that may have more.
    private static let (unused, rest, restWithoutSteps): (Int64, Int64, Int64) = (256, 256, 8192)

    /// Returns free pages to the file system, if that is worthwhile. After a failure the file keeps them. Not inside a transaction.
    /// A store that cannot vacuum in steps can do so afterwards. Returns true when the file was rewritten, with its indexes.
    func vacuum() -> Bool {
        guard lock != nil, !isInTransaction, !isPoisoned else { return false }
        do throws(QueueError) {
            let free = try freePages()
            let used = try pageCount() - free
            let most = canVacuumInSteps ? Self.rest : Self.restWithoutSteps
            guard free > Self.unused, free > used, used <= most else { return false }
            if !canVacuumInSteps { try execute("PRAGMA auto_vacuum=INCREMENTAL") }
            // VACUUM attaches a temporary database.
            sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 1)
            defer { sqlite3_limit(handle, SQLITE_LIMIT_ATTACHED, 0) }
            try execute("VACUUM")
            try readVacuumMode()
            return true
        } catch {
            Log.warning("\(path): VACUUM failed: \(error.detail)")
            return false
        }
    }

    // MARK: Closing

    /// Closes the connection in any state. Writes neither the log nor the database.
    func close() {
        for statement in statements.values { statement.finalize() }
        (statements, control) = ([:], nil)
        sqlite3_close_v2(handle)
        if logDescriptor >= 0 { Glibc.close(logDescriptor) }
        logDescriptor = -1
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
        case SQLITE_FULL: return QueueError(.storage, message, isFull: true)
        case SQLITE_IOERR: return QueueError(.storage, message, isFull: Posix.isFull(system))
        case SQLITE_CANTOPEN:
            return QueueError([EACCES, EPERM, EROFS].contains(system) ? .permission : .storage, message, isFull: Posix.isFull(system))
        case SQLITE_NOMEM, SQLITE_READONLY, SQLITE_PROTOCOL: return QueueError(.storage, message)
        case SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_FORMAT:
            return QueueError(.corrupt, message, isIndex: code == SQLITE_CORRUPT | (3 << 8))  // SQLITE_CORRUPT_INDEX
        // The statements violate no constraint of sound tables: a number that is too large for its column, or a value of another type.
        case SQLITE_CONSTRAINT: return QueueError(.corrupt, message, isIndex: true)
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
