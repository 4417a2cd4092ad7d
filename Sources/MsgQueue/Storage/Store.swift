/// An open store. Used under the engine's lock. Functions that write must be called between `begin()` and `commit`.
///
/// Values that are kept in memory beside the tables (counts, the next sequence number) follow the transaction: `rollback` restores them.
package final class Store {
    let database: Database
    /// nil: a store in memory.
    private let lock: StoreLock?
    private let side: SideFile
    let state: StateRow
    let titles: Titles
    let handOvers: HandOverTable
    let recentIDs: RecentIDs
    let times: TimeIndex
    let history: HistoryIndex
    let repairs = Repairs()
    let checks = RunningChecks()
    let queue: QueueIndex
    let unsentSums: UnsentSumsIndex
    let attempts: AttemptTable
    let failures: FailureIndex
    let counts: ConversationCounts
    var pageEnds = PageEnds()
    var ageSearch = AgeSearch()
    /// The last message of the history that was found too old by its own time.
    var oldThrough: Int64 = 0
    /// Pruning found fewer messages than the counts say.
    var hasMissedExcess = false
    /// The bulk insertion in the current transaction.
    var bulk: BulkInsertion?
    /// nil: `comparison` has not ended.
    private var conversationCheck: DerivedCheck?
    /// The page of the table `state`; nil: the opening is not complete, and may still change the schema.
    private var statePage: UInt32?
    /// The end of the log that was lost before the store was opened.
    package let loss: LostTail?
    /// What was repaired when the store was opened, to be reported to the host.
    package private(set) var repair: String?
    let isReadOnly: Bool
    /// The close compacts the file if it pays.
    private let compacts: Bool
    /// The maximum size of the files; 0: no limit.
    let limitFileBytes: Int64
    /// The log may contain text of messages that are gone, which the next checkpoint overwrites.
    var hasRemovedText = false

    static let lengthLimit = Options.bodyCeiling + (64 << 20)

    /// Opens the store at `path`, or creates it. An existing store is not changed on disk until it has been accepted.
    package convenience init(path: String, options: Options) throws(QueueError) { try self.init(path: path, options: options, .current) }

    convenience init(path: String, options: Options, _ layout: Layout) throws(QueueError) {
        let opening = try StoreOpening(path, options, layout)
        self.init(over: opening.database, opening.lock, opening.boot, loss: opening.survey.loss, options)
        if !options.readOnly {
            // Unowned: the database belongs to this store.
            database.prepareLog = { [unowned self] () throws(QueueError) in try prepareLog() }
        }
        do throws(QueueError) {
            try start(opening.survey, layout)
        } catch {
            database.rollback()
            close(clean: false)
            throw StoreOpening.asOpening(error)
        }
    }

    /// Opens a store in memory.
    package convenience init(disk: SimulatedDisk, options: Options) throws(QueueError) {
        self.init(over: try Database(disk: disk, lengthLimit: Self.lengthLimit), nil, SystemBoot.id(), options)
        do throws(QueueError) {
            try start(StoreSurvey(inMemory: database), .current)
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
        counts = ConversationCounts(database, state, times, history, failures, unsentSums, checks, repairs)
        side = SideFile(of: lock?.path ?? database.path)
        isReadOnly = options?.readOnly ?? true
        compacts = lock != nil && options.map { MaintenanceRule.changesByItself($0) } ?? false
        limitFileBytes = options?.limitFileBytes ?? 0
        repairs.use(self)
    }

    /// Continues from the state that the last owner left.
    func start(_ survey: StoreSurvey, _ layout: Layout) throws(QueueError) {
        // Also for the commit of an upgrade.
        state.adopt(survey.state, isUnchecked: survey.needsCheck)
        if survey.logFrames > 0, !isReadOnly {
            try database.prepareChange()
            if !checkpoint() { Log.warning("\(path): the log of the last session could not be checkpointed yet") }
        }
        try upgrade(survey, to: layout)
        // The last session may have ended while it deleted messages.
        hasRemovedText = survey.logFrames > 0 && !isReadOnly
        state.beginSequences(after: survey.loss)
        if survey.layout >= Layout.withTimes { try times.read() }
        if survey.state == nil {
            try rebuildState()
        } else if survey.needsIndexes {
            try reindex()
        }
        try counts.start(state.row.mark == .closed && state.row.totals.isPlausible ? state.row.totals : nil)
        guard counts.totals.isPlausible else {
            throw QueueError(.corrupt, "\(path) is damaged: its counts are out of range")
        }
        if survey.needsCheck { checks.session = BackgroundCheck(through: state.lastSequence, counted: counts.messages) }
        statePage = survey.statePage
    }

    /// Adds what a store of an earlier layout or build lacks, in one transaction.
    private func upgrade(_ survey: StoreSurvey, to layout: Layout) throws(QueueError) {
        let statements = layout.statements(from: survey.layout)
        let hasHistory = try history.hasTables()
        if hasHistory { try history.read() }
        guard !statements.isEmpty || !hasHistory || survey.lacksPriorityIndex else { return }
        try begin()
        if survey.lacksPriorityIndex { try database.execute(Schema.priorityIndex) }
        if !hasHistory { try history.create() }
        for sql in statements { try database.execute(sql) }
        if survey.layout < Layout.withTimes { try times.arrange() }
        if survey.layout < Layout.withFailures { try failures.rebuild() }
        state.requireWrite()
        try commit(durable: true)
    }

    /// Performs the writes that end interrupted attempts, and rolls them back.
    func dryRunRecovery() throws(QueueError) {
        try begin()
        for attempt in try attempts.interrupted() {
            do throws(QueueError) {
                guard let row = try row(at: attempt.sequence, .none), StatusRule.allows(row.progress.status, .sending) else { continue }
                let number = row.progress.attempts &+ 1
                try end(
                    row,
                    OutcomeRule.recover(
                        number: number, startedAt: max(attempt.startedAt, 0), of: row.progress, holdInterrupted: false, maxRetries: 1000))
            } catch {
                guard error.code == .corrupt, !error.isIndex else { throw error }
            }
        }
        rollback()
    }

    /// Rebuilds the indexes after a statement found one that does not match the table. Returns false when that fails.
    package func rebuildIndexes() -> Bool {
        guard !isInTransaction, !isPoisoned else { return false }
        do throws(QueueError) {
            try reindex()
            return true
        } catch {
            rollback()
            Log.error("\(path): rebuilding the indexes failed: \(error.detail)")
            return false
        }
    }

    /// The number of index entries that one step of the comparison reads: about a millisecond.
    private static let comparisonStep: Int64 = 2_000

    /// Runs one step of the comparison of the indexes of queued messages and of the list of conversations, which runs once a session. Returns
    /// what differs.
    package func compareIndexes() -> String? {
        guard !areIndexesCompared, !isInTransaction else { return nil }
        do throws(QueueError) {
            if checks.comparison?.isDone ?? false { return try compareConversations() }
            var comparison =
                checks.comparison
                ?? QueuedComparison(
                    through: state.foldedThrough, counted: counts.counters.unfolded.values.reduce(counts.totals.queued) { $0 &- $1.queued })
            let fits = try comparison.step(database, limit: Self.comparisonStep)
            checks.comparison = comparison
            guard fits else { return "queued messages are missing from an index" }
            // In the same step, so that a small store is compared at once and wakes no idle host again.
            return comparison.isDone ? try compareConversations() : nil
        } catch {
            areIndexesCompared = true
            Log.warning("\(path): comparing the indexes failed: \(error.detail)")
            return error.code == .corrupt ? error.detail : nil
        }
    }
    /// The comparison of this session has ended.
    package private(set) var areIndexesCompared = false

    /// Without the counts, which the background check compares.
    private func compareConversations() throws(QueueError) -> String? {
        if conversationCheck == nil {
            conversationCheck = try DerivedCheck(Derived.conversations(ofLayout: Layout.current.version), counts: false, of: database)
        }
        guard var check = conversationCheck else { return nil }
        let start = Ports.nanoseconds()
        func isTimeLeft() -> Bool { Ports.nanoseconds() &- start < 1_000_000 }
        let bounds = DerivedCheck.Bounds(folded: state.foldedThrough, historyAfter: history.start)
        repeat { try check.step(database, bounds, isTimeLeft) } while !check.isDone && isTimeLeft()
        conversationCheck = check
        guard check.isDone else { return nil }
        areIndexesCompared = true
        return check.findings.first
    }

    private func reindex() throws(QueueError) {
        addRepair("an index was damaged and was rebuilt from the messages")
        try begin()
        try rebuildIndexesAndCounts()
        state.requireWrite()
        try commit(durable: true)
    }

    private func addRepair(_ text: String) { repair = repair.map { "\($0); \(text)" } ?? text }

    /// Rebuilds the row of `state`, which is damaged, the indexes and the counts from the messages.
    private func rebuildState() throws(QueueError) {
        addRepair("the table state was damaged and was rebuilt from the messages")
        let last = try recentIDs.highestSequence(known: max(try StoreSurvey.lastSequence(database).last, loss?.last ?? 0))
        state.reset(after: last)
        try begin()
        // The row may be missing.
        try database.execute(Schema.firstState)
        try rebuildIndexesAndCounts()
        state.requireWrite()
        try commit(durable: true)
    }

    /// From here on only threads that hold this lock use the store.
    func guarded(by lock: TurnLock) { database.owner = lock }

    // MARK: Transactions

    package func begin() throws(QueueError) {
        guard !database.isInTransaction else { return }
        try database.begin()
        state.begin()
        checks.begin()
        unsentSums.begin()
        history.begin()
    }

    /// The number of commits that wrote something.
    package private(set) var commits = 0

    package var isInTransaction: Bool { database.isInTransaction }
    package var lastCommitWrote: Bool { database.lastCommitWrote }

    package func commit(durable: Bool) throws(QueueError) {
        guard database.isInTransaction else { return }
        let isFirst = !state.isMarked && state.isChanged
        let isStateWritten: Bool
        do throws(QueueError) {
            try counts.write()
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
        if database.lastCommitWrote { commits &+= 1 }
        counts.commit()
        if isFirst {
            state.noteMarked()
            // The database file itself must be marked as in use, so that a copy of it without its log is detected.
            if !markFile(), !checkpoint(), durable { noteFlushed() }
        } else if durable {
            noteFlushed()
        }
        if database.isLogOverdue { checkpoint() }
    }

    /// Marks the database file as in use without a checkpoint, after which the next change would start the log again, with two flushes. The
    /// rest of the row stays as it was: the log was started for it. Returns false when a checkpoint must do it.
    private func markFile() -> Bool {
        guard let statePage, !database.isLogOverdue else { return false }
        do throws(QueueError) {
            if needsFlush { try database.flush() }
            guard try database.rewritePage(statePage, StoreState.markingOpen) else { return false }
            noteFlushed()
            database.beginReserve(keeping: neededReserve)
            return true
        } catch {
            Log.warning("\(path): \(error.detail)")
            return false
        }
    }

    /// Whether the log is long enough for a checkpoint. One that becomes much longer is checkpointed by the next commit.
    package var isLogLong: Bool { database.isLogLong }

    package func rollback() {
        guard database.isInTransaction else { return }
        database.rollback()
        undo()
    }

    private func undo() {
        state.rollback()
        checks.rollback()
        unsentSums.rollback()
        ageSearch = AgeSearch()
        failures.rollback()
        history.rollback()
        times.rollback()
        bulk = nil
        counts.rollback()
    }

    // MARK: The log

    /// Makes the side record and the file names durable, before the log is written from its start. Without the record, a log that is
    /// overwritten could seem to be lost, and without its file, a log that a crash left with pages but without a commit could belong to any
    /// store.
    private func prepareLog() throws(QueueError) {
        do throws(QueueError) { try prepareSideRecord() } catch {
            let advice =
                error.isFull
                ? ": make room on the disk"
                : error.code == .permission
                    ? ": it must be permitted to write the file and its directory" : "; the next change tries it again"
            throw QueueError(
                error.code, "\(error.detail). Nothing is changed before \(StorePath.tail(of: path)) is durable\(advice)",
                isFull: error.isFull)
        }
    }

    private func prepareSideRecord() throws(QueueError) {
        // A checkpoint writes the record, which has failed.
        guard !side.isOpen else { return try side.write(record(frames: Int64(database.logFrames)), durable: true) }
        try side.open()
        do throws(QueueError) {
            var first = record(frames: Int64(database.logFrames))
            if database.isLogFresh { (first.generation, first.base) = (state.firstGeneration, state.onDisk.generation) }
            // A new file beside a new log may be empty after a power failure (`LostTail`).
            try side.write(first, durable: !side.isNew || !database.isLogFresh)
            try database.watchFiles()
        } catch {
            side.undoOpen()
            throw error
        }
    }

    private func record(frames: Int64) -> SideRecord {
        SideRecord(
            generation: state.row.generation, base: state.row.logBase, salts: database.logSalts, frames: frames,
            lastSequence: state.lastSequence)
    }

    /// Writes the durable length of the log to the side record.
    private func noteFlushed() {
        guard !isReadOnly, !database.isPoisoned, !database.isLogFresh else { return }
        do throws(QueueError) { try side.write(record(frames: Int64(database.logFrames)), durable: false) } catch {
            // Without the record, only a loss of the log's end would not be detected.
            Log.warning(error.detail)
        }
    }

    /// Runs a checkpoint. Returns true when the log is no longer needed. After a failure the log is kept; nothing is lost.
    @discardableResult
    package func checkpoint() -> Bool {
        guard !database.isLogFresh else { return true }
        guard copyLog() else { return false }
        if hasRemovedText {
            if cleanLog() { hasRemovedText = false } else { Log.warning("\(path): deleted text is still in the log") }
        } else if database.isLogTooLong, !cleanLog() {
            // After a large batch most of the log's space is released.
            Log.warning("\(path): the log could not be shortened")
        }
        database.adaptReserve(keeping: neededReserve, exactly: false)
        return true
    }

    /// Runs a checkpoint and removes everything from the log with `remove`. Returns false when either failed.
    private func emptyLog(_ remove: () -> Bool) -> Bool {
        guard database.isLogFresh || copyLog(), remove() else { return false }
        database.adaptReserve(keeping: neededReserve, exactly: true)
        return true
    }

    /// Runs a checkpoint and prepares the next log, so that the next change need not.
    private func copyLog() -> Bool {
        guard database.checkpoint() else { return false }
        _ = isLogPrepared()
        return true
    }

    /// Overwrites the text in a checkpointed log.
    private func cleanLog() -> Bool { isLogPrepared() && database.cleanLog() }

    /// Whether the log may be overwritten, after another attempt to prepare that.
    private func isLogPrepared() -> Bool {
        do throws(QueueError) {
            try database.prepareChange()
            return true
        } catch {
            Log.warning(error.detail)
            return false
        }
    }

    /// Whether a commit is not durable yet.
    package var needsFlush: Bool { database.needsFlush }

    /// The number of successful flushes. What was committed before the last one is durable.
    package var flushes: Int { database.flushes }

    /// Makes all commits durable.
    package func flush() throws(QueueError) {
        guard needsFlush, !isInTransaction else { return }
        try database.flush()
        noteFlushed()
    }

    /// Removes deleted text from the log and the file as well.
    package func scrub() {
        // A store in memory has no log.
        guard lock != nil else { return hasRemovedText = false }
        // Before the first commit of a session the database is marked as closed, and a log beside it must be empty.
        guard emptyLog({ state.isMarked ? cleanLog() : database.truncateLog() }) else {
            // The next checkpoint tries again.
            hasRemovedText = true
            return Log.warning("\(path): deleted text is still in the log")
        }
        hasRemovedText = false
    }

    // MARK: Disk reserve

    /// Bytes that accepted messages may still need: for each unsent message an outcome and a row of `attempt`, the index entries of
    /// unfolded rows, the pages of a deleted body, and what closing writes.
    private var neededReserve: Int64 {
        let unsent = min(max(0, counts.totals.queued.addingClamped(counts.totals.failed)), 1 << 40)
        let bodies = min(max(0, counts.totals.unsentBytes), Self.bodyReserve)
        return Self.leastReserve + bodies + bodies / 8 + unsent * Self.reservePerUnsent + foldReserve
    }
    private static let (leastReserve, bodyReserve): (Int64, Int64) = (192 << 10, 4 << 20)
    private static let reservePerUnsent: Int64 = 256

    /// What a closed store keeps where little space is free, so that its messages can be sent after it is opened on a full disk.
    private var reserveOfClosed: Int64 { counts.totals.queued > 0 || counts.totals.failed > 0 ? neededReserve : 0 }

    /// Bytes that the fold writes: for each row four times the name of the conversation, in pages at least half full, and numbers.
    private var foldReserve: Int64 {
        counts.counters.unfolded.reduce(0) { sum, entry in
            let rows = min(max(0, entry.value.queued &+ entry.value.failed &+ entry.value.history), 1 << 40)
            return sum.addingClamped(rows * (200 + 8 * Int64(min(entry.key.text.utf8.count, 1 << 10))))
        }
    }

    /// Bytes that a new message needs: its row, its entry in the index of ids, what the fold writes, and its part of the reserve.
    package static func space(for draft: borrowing BorrowedDraft) -> Int64 {
        let text = draft.metadata.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
        let names = 3 * (draft.id?.utf8.count ?? 0) + 9 * draft.conversation.text.utf8.count + (draft.sender?.utf8.count ?? 0)
        let content = Int64(draft.body.count) + Int64(text)
        return content + content / 4 + Int64(names) + 600 + reservePerUnsent
    }

    /// The size of the store's files, for the option `limitFileBytes`: the pages of the database that are in use, the log, and what the
    /// indexes and the outcomes of the accepted messages will need. `more`: bytes that the open transaction will write to the log.
    package func fileUse(adding more: Int64) throws(QueueError) -> Int64 {
        let unsent = min(max(0, counts.totals.queued.addingClamped(counts.totals.failed)), 1 << 40)
        return try database.fileBytes(adding: more.addingClamped(more / 4)).addingClamped(unsent * Self.reservePerUnsent + foldReserve)
    }

    /// Reserves disk space for messages that need so many bytes (`space(for:)`) and for sending them. Throws when the disk is full.
    package func reserveSpace(for wanted: Int64) throws(QueueError) {
        guard !isReadOnly else { return }
        do throws(QueueError) { try database.reserveSpace(for: wanted, keeping: neededReserve) } catch {
            guard error.isFull, !isInTransaction, checkpoint() else { throw error }
            try database.reserveSpace(for: wanted, keeping: neededReserve)
        }
    }

    /// Frees disk space after a write failed because the disk is full: by a checkpoint, and then, if `usingReserve`, from the reserve.
    /// Returns false when nothing can be freed.
    package func freeSpace(usingReserve mayRelease: Bool = true) -> Bool {
        guard !isInTransaction, !database.isPoisoned else { return false }
        let hadLog = !database.isLogFresh
        if hadLog, checkpoint() { return true }
        guard mayRelease, database.releaseReserve() else { return false }
        Log.warning("\(path): the disk is full; using the space reserved for sending and deleting")
        return true
    }

    // MARK: Free space

    /// Returns the size of the database in bytes, and how much of it is free.
    package func space() throws(QueueError) -> (file: Int64, free: Int64) { try database.sizes() }

    /// Returns the size of the database file, and how much of it is free. Pages that are only in the log so far do not count.
    package func fileSpace() throws(QueueError) -> (file: Int64, free: Int64) {
        let sizes = try database.sizes()
        guard let lock else { return sizes }
        let file = Int64(try Posix.status(lock.descriptor, path).st_size)
        return (file, min(sizes.free, file))
    }

    package var canVacuumInSteps: Bool { database.canVacuumInSteps && !isReadOnly }

    /// Moves up to so many pages from the end of the file to free ones, inside the caller's transaction.
    package func vacuumStep(pages: Int64) throws(QueueError) {
        try database.vacuumStep(pages: pages)
        state.requireWrite()
    }

    /// Runs a checkpoint, after which the file is as short as the database.
    package func shortenFile() { if !checkpoint() { Log.warning("\(path): the file could not be shortened yet") } }

    // MARK: Closing

    /// Closes the store. `clean`: also folds all rows and stores the totals, so that the next open need not count. Returns an error when what
    /// was accepted may be lost, because a file of the store was removed, replaced or modified from outside.
    @discardableResult
    package func close(clean: Bool) -> QueueError? {
        if clean, !isReadOnly, !isPoisoned { checkFiles() }
        let isClosed = clean && !isReadOnly && closeCleanly()
        if clean, !isClosed { flushBeforeClose() }
        database.close()
        if isClosed, lock != nil {
            // A log that cannot be removed keeps no text.
            if !Posix.remove(StorePath.log(of: path)) { Posix.empty(StorePath.log(of: path)) }
            side.remove()
        }
        lock?.release()
        return database.lossOfFiles
    }

    /// Ends the simulated process of a store in memory.
    func end() { database.end() }
    var hasEnded: Bool { database.hasEnded }

    /// Compares the names of the files before the close writes to them.
    private func checkFiles() {
        do throws(QueueError) { try database.checkFiles(thoroughly: true) } catch { Log.error(error.detail) }
    }

    /// Flushes the log, which is kept because the store could not be closed cleanly.
    private func flushBeforeClose() {
        do throws(QueueError) { try flush() } catch { Log.error("\(path): \(error.detail)") }
    }

    /// Marks the store as closed and runs a checkpoint. Returns true when the database contains everything, so that the log can be removed.
    private func closeCleanly() -> Bool {
        guard !database.isPoisoned else { return false }
        guard state.isMarked || state.unfoldedRows > 0 || state.row.mark != .closed || side.isOpen else { return true }
        let isVacuumed = compacts && database.vacuum()
        for _ in 0..<3 {
            do throws(QueueError) {
                try begin()
                try history.settle()
                try counts.fold()
                // VACUUM rebuilt the indexes from the messages, and the counts must agree with damaged ones, too.
                if isVacuumed { try counts.rebuild() }
                state.close(counts.totals)
                try commit(durable: true)
                guard database.checkpoint() else {
                    Log.warning("\(path): not closed cleanly: the checkpoint failed; the next open repeats it")
                    return false
                }
                database.endReserve(keeping: reserveOfClosed)
                return true
            } catch {
                // The next open counts the messages again, which only takes time.
                rollback()
                guard error.isFull, freeSpace() else {
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
