/// An open store. Used under the engine's lock. Functions that write must be called between `begin()` and `commit`.
///
/// Values that are kept in memory beside the tables (counts, the next sequence number) follow the transaction: `rollback` restores them.
package final class Store {
    let database: Database
    /// nil: a store in memory.
    let lock: StoreLock?
    let state: StateRow
    let titles: Titles
    let handOvers: HandOverTable
    let recentIDs: RecentIDs
    let times: TimeIndex
    let history: HistoryIndex
    let repairs = Repairs()
    let running = RunningChecks()
    let queue: QueueIndex
    let unsentSums: UnsentSumsIndex
    let attempts: AttemptTable
    let failures: FailureIndex
    let counts: ConversationCounts
    let space: DiskSpace
    let log: StoreLog
    let insertion: MessageInsertion
    let messages: MessageTable
    let outcomes: AttemptOutcomes
    let pages: MessagePages
    let conversations: ConversationList
    let pruning: Pruning
    let checks: StoreChecks
    let indexes: IndexMaintenance
    /// The first change of this session ends the feed of earlier ones.
    var endsFeed = false
    /// What an earlier process has written is durable: of a store that is only read.
    var isFlushedByReader = false
    /// The end of the log that was lost before the store was opened.
    package let loss: LostTail?
    /// What was repaired when the store was opened, to be reported to the host.
    package internal(set) var repair: String?
    let isReadOnly: Bool
    /// The close compacts the file if it pays.
    private let compacts: Bool
    static let lengthLimit = Options.bodyCeiling + (64 << 20)

    /// Opens the store at `path`, or creates it. An existing store is not changed on disk until it has been accepted.
    package convenience init(path: String, options: Options) throws(QueueError) { try self.init(path: path, options: options, .current) }

    convenience init(path: String, options: Options, _ layout: Layout) throws(QueueError) {
        let opening = try StoreOpening(path, options, layout)
        self.init(over: opening.database, opening.lock, opening.boot, loss: opening.survey.loss, options)
        // Unowned: the store's log has the database.
        database.log?.prepare = { [unowned log] () throws(QueueError) in try log.prepare() }
        do throws(QueueError) {
            try space.readVacuumMode()
            try start(opening.survey, layout, folded: opening.folded)
            try openFeed(options)
            if !options.readOnly { space.beginReserve() }
        } catch {
            database.rollback()
            if !options.readOnly, commits == 0 { opening.removeCreatedFiles() }
            close(clean: false)
            throw StoreOpening.asOpening(error)
        }
    }

    /// Opens a store in memory.
    package convenience init(disk: SimulatedDisk, options: Options) throws(QueueError) {
        self.init(over: try Database(disk: disk, lengthLimit: Self.lengthLimit), nil, SystemBoot.id(), options)
        do throws(QueueError) {
            try start(StoreSurvey(inMemory: database), .current)
            try openFeed(options)
        } catch {
            close(clean: false)
            throw error
        }
    }

    /// `options`: nil for a database that is not the store itself. Then no file beside it is written.
    init(over database: Database, _ lock: StoreLock?, _ boot: String, loss: LostTail? = nil, _ options: Options? = nil) {
        (self.database, self.lock, self.loss) = (database, lock, loss)
        state = StateRow(database, hasFile: lock != nil, boot: boot)
        titles = Titles(database)
        handOvers = HandOverTable(database)
        recentIDs = RecentIDs(database, state)
        times = TimeIndex(database, state)
        history = HistoryIndex(database, state)
        queue = QueueIndex(database, state)
        unsentSums = UnsentSumsIndex(database, queue)
        attempts = AttemptTable(database, history)
        failures = FailureIndex(database, attempts, repairs)
        counts = ConversationCounts(database, state, times, history, failures, unsentSums, running, repairs)
        isReadOnly = options?.readOnly ?? true
        space = DiskSpace(database, state, counts, lock, limitBody: options?.limitBody ?? 0)
        log = StoreLog(database, state, space, path: lock?.path ?? database.path)
        insertion = MessageInsertion(database, state, times, history, counts, unsentSums)
        messages = MessageTable(insertion, attempts, failures, recentIDs, log, running, repairs)
        outcomes = AttemptOutcomes(messages, space, limitFileBytes: options?.limitFileBytes ?? 0)
        pages = MessagePages(messages, repairs)
        conversations = ConversationList(messages, pages, titles)
        pruning = Pruning(messages, pages)
        checks = StoreChecks(messages, running)
        indexes = IndexMaintenance(messages, running)
        compacts = lock != nil && options.map { MaintenanceRule.changesByItself($0) } ?? false
        repairs.use(self)
    }

    /// From here on only threads that hold this lock use the store.
    func guarded(by lock: TurnLock) { database.owner = lock }

    // MARK: Transactions

    // Inlined, it would stand in each of the compiled forms of `Transactions.run`.
    @inline(never)
    package func begin() throws(QueueError) {
        guard !database.isInTransaction else { return }
        try database.begin()
        state.begin()
        running.begin()
        unsentSums.begin()
        history.begin()
    }

    /// The number of commits that wrote something.
    package var commits: Int { state.commits }

    package var isInTransaction: Bool { database.isInTransaction }
    package var lastCommitWrote: Bool { database.lastCommitWrote }

    package func commit(durable: Bool) throws(QueueError) {
        guard database.isInTransaction else { return }
        let isFirst = !state.isMarked && state.isChanged
        let isStateWritten: Bool
        do throws(QueueError) {
            try counts.write()
            try writeFeed()
            isStateWritten = try state.write(isFirst: isFirst)
            try database.commit(durable: durable)
        } catch {
            // Memory follows what the connection reads. After a commit whose flush failed these are the changes, and the connection refuses
            // further writes.
            if !database.isCommitted {
                database.rollback()
                undo()
            }
            throw error
        }
        if isStateWritten { state.noteWritten() }
        if database.lastCommitWrote {
            state.noteCommit()
            endsFeed = false
        }
        counts.commit()
        feed?.committedTransaction()
        if isFirst {
            state.noteMarked()
            // The database file itself must be marked as in use, so that a copy of it without its log is detected.
            if !log.markFile(), !log.checkpoint(), durable { log.noteFlushed() }
        } else if durable {
            log.noteFlushed()
        }
        if log.isOverdue { log.checkpoint() }
    }

    package func rollback() {
        guard database.isInTransaction else { return }
        database.rollback()
        undo()
    }

    private func undo() {
        state.rollback()
        running.rollback()
        unsentSums.rollback()
        pruning.rollback()
        failures.rollback()
        history.rollback()
        times.rollback()
        insertion.rollback()
        counts.rollback()
    }

    /// The number of unfolded rows at which the fold runs, so that it remains short.
    static let foldEvery: Int64 = 512

    /// Folds in a transaction of its own. It needs no flush: after a power failure it is repeated.
    func foldNow() throws(QueueError) {
        guard state.unfoldedRows > 0 else { return }
        guard !isInTransaction else { return try counts.fold() }
        do throws(QueueError) { try foldAlone() } catch {
            // The log may have no space to grow. After a checkpoint it is reused from its start.
            guard error.isFull, log.freeSpace(usingReserve: false) else { throw error }
            try foldAlone()
        }
    }

    private func foldAlone() throws(QueueError) {
        try begin()
        do throws(QueueError) {
            try counts.fold()
            try commit(durable: false)
        } catch {
            rollback()
            throw error
        }
    }

    package func foldIfDue() throws(QueueError) {
        if state.unfoldedRows >= Self.foldEvery { try foldNow() }
    }

    // MARK: Closing

    /// Closes the store. `clean`: also folds all rows and stores the totals, so that the next open need not count. Returns an error when what
    /// was accepted may be lost, because a file of the store was removed, replaced or modified from outside.
    @discardableResult
    package func close(clean: Bool) -> QueueError? {
        if clean, !isReadOnly, !isPoisoned { checkFiles() }
        let isClosed = clean && !isReadOnly && closeCleanly()
        if isClosed { space.endReserve() }
        if clean, !isClosed { flushBeforeClose() }
        database.close()
        if isClosed, lock != nil { log.remove() }
        lock?.release()
        return database.log?.lossOfFiles
    }

    /// Ends the simulated process of a store in memory.
    func end() { database.end() }
    var hasEnded: Bool { database.hasEnded }

    /// Compares the names of the files before the close writes to them.
    private func checkFiles() {
        do throws(QueueError) { try database.log?.checkFiles(thoroughly: true) } catch { Log.error(error.detail) }
    }

    /// Flushes the log, which is kept because the store could not be closed cleanly.
    private func flushBeforeClose() {
        do throws(QueueError) { try log.flush() } catch { Log.error("\(path): \(error.detail)") }
    }

    /// Marks the store as closed and runs a checkpoint. Returns true when the database contains everything, so that the log can be removed.
    private func closeCleanly() -> Bool {
        guard !database.isPoisoned else { return false }
        guard state.isMarked || state.unfoldedRows > 0 || state.row.mark != .closed || log.isBegun else { return true }
        let isVacuumed = compacts && space.vacuum()
        for _ in 0..<3 {
            do throws(QueueError) {
                try begin()
                try history.settle()
                try counts.fold()
                // VACUUM rebuilt the indexes from the messages, and the counts must agree with damaged ones, too.
                if isVacuumed { try counts.rebuild() }
                state.close(counts.totals)
                try commit(durable: true)
                guard database.log?.checkpoint() ?? false else {
                    Log.warning("\(path): not closed cleanly: the checkpoint failed; the next open repeats it")
                    return false
                }
                return true
            } catch {
                // The next open counts the messages again, which only takes time.
                rollback()
                guard error.isFull, log.freeSpace() else {
                    Log.warning("\(path): not closed cleanly: \(error.detail)")
                    return false
                }
            }
        }
        return false
    }

    /// Empties the page cache, so that the next reads come from the files.
    package func dropPageCache() { database.dropPageCache() }

    package func readingTwice<T>(_ body: () throws(QueueError) -> T) throws(QueueError) -> T { try database.readingTwice(body) }

    package func withoutReadError(_ error: QueueError) -> QueueError { database.withoutReadError(error) }

    package var path: String { database.path }
    package var isPoisoned: Bool { database.isPoisoned }
}
