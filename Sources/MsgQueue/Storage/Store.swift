import Glibc

/// The only layer that knows SQL. Used under the engine's lock; every writing function needs `begin()` before and `commit` after.
///
/// What is kept in memory beside the tables (counts, the next sequence) follows the transaction: `rollback` undoes it.
package final class Store {
    let database: Database
    private let lock: StoreLock
    private let side: SideFile
    private(set) var nextSequence: Int64 = 1
    /// Nothing is stored behind it.
    package var lastSequence: Int64 { nextSequence - 1 }
    /// As the table has it, or will have it with the next commit.
    private var state = StoreState()
    private var stateOnDisk = StoreState()
    var foldedThrough: Int64 {
        get { state.foldedThrough }
        set { state.foldedThrough = newValue }
    }
    var counters = Counters()
    var pruneMap = PruneMap()
    /// What this transaction changed in memory, to be undone when it fails.
    private var atBegin: (next: Int64, state: StoreState, comparison: QueuedComparison?)?
    /// Under way.
    var comparison: QueuedComparison?
    /// This session has changed the store, and the database file says that it is in use.
    private var isMarked = false
    private let currentBoot: String
    /// What the store lost before it was opened.
    package let loss: LostTail?
    /// What was mended when the store was opened, for the host to be told.
    package private(set) var repair: String?
    let isReadOnly: Bool

    /// Messages that wait for the fold at most, so that it stays a short pause.
    static let foldEvery: Int64 = 512
    static let sequenceBlock: Int64 = 4096
    static let lengthLimit = Options.bodyCeiling + (64 << 20)

    /// Opens the store at `path`, or makes it. Until the store is accepted nothing on disk is changed.
    package init(path given: String, options: Options) throws(QueueError) {
        let path = try StorePath.resolve(given)
        isReadOnly = options.readOnly
        currentBoot = SystemBoot.id()
        lock = try Self.claim(path, readOnly: options.readOnly)
        side = SideFile(of: path)
        let survey: StoreSurvey
        do throws(QueueError) {
            let view = try StoreView(path: path, database: lock.descriptor)
            let reading = try Self.reading(view)
            do throws(QueueError) {
                survey = try StoreSurvey.take(view, reading, currentBoot: currentBoot)
                if let loss = survey.loss, options.refuseLostTail { throw QueueError(.corrupt, loss.text) }
                loss = survey.loss
                if !options.readOnly, survey.wasOpen || survey.logFrames > 0 || survey.state == nil || survey.needsIndexes {
                    try Self.rehearse(lock, reading, survey, currentBoot)
                }
                if let unread = view.readError { throw unread }
            } catch {
                reading.close()
                // What could not be read is not damaged: nothing that follows from it is true.
                throw view.readError ?? error
            }
            if options.readOnly {
                database = reading
            } else {
                reading.close()
                database = try Self.connect(lock, survey)
            }
        } catch {
            lock.release()
            // What is not known to the caller who only opens is not known at all.
            throw error.code == .unknown ? QueueError(.storage, error.detail, isFull: error.isFull) : error
        }
        do throws(QueueError) {
            try start(survey)
        } catch {
            database.rollback()
            close(clean: false)
            throw error.code == .unknown ? QueueError(.storage, error.detail, isFull: error.isFull) : error
        }
    }

    /// What the view shows, with every protection on: a damaged schema is found here already.
    private static func reading(_ view: StoreView) throws(QueueError) -> Database {
        let raw = try Posix.read(view.database, at: 0, count: 100, view.path)
        try Ties.checkUpgrade(view, raw, layout: try StoreHeader.check(with: try view.header(), raw: raw, view.path))
        do throws(QueueError) { return try Database(view: view, lengthLimit: lengthLimit) } catch {
            throw view.readError ?? (error.code == .corrupt ? StoreSurvey.asDamage(error, of: view.path) : error)
        }
    }

    /// What will be done once the store is accepted, in a view that is thrown away: what fails in it is a reason to refuse the store.
    private static func rehearse(
        _ lock: StoreLock, _ view: Database, _ survey: StoreSurvey, _ boot: String
    ) throws(QueueError) {
        let store = Store(over: view, lock, boot)
        do throws(QueueError) {
            try store.start(survey)
            _ = try store.nextExpiry(after: 0)
            _ = try store.conversationsWithFailures()
            _ = try store.queued(after: 0, limit: 1)
            do throws(QueueError) { try store.rehearseRecovery() } catch {
                guard error.isIndex else { throw error }
                store.rollback()
                guard store.remakeIndexes() else { throw error }
                try store.rehearseRecovery()
            }
        } catch {
            store.rollback()
            throw error.code == .internal ? QueueError(.corrupt, "\(lock.path) is damaged: \(error.detail)") : error
        }
    }

    /// Over a database that is not the store itself: nothing is written beside it.
    init(over database: Database, _ lock: StoreLock, _ boot: String) {
        self.database = database
        self.lock = lock
        side = SideFile(of: lock.path)
        currentBoot = boot
        loss = nil
        isReadOnly = true
    }

    private static func claim(_ path: String, readOnly: Bool) throws(QueueError) -> StoreLock {
        let lock: StoreLock
        if readOnly {
            lock = try StoreLock.take(path, try StorePath.inspectForReading(path), shared: true)
        } else {
            if try StorePath.inspect(path) == nil { try StoreBirth.make(path) }
            guard let file = try StorePath.inspect(path) else {
                throw QueueError(.storage, "\(path) vanished while it was opened")
            }
            lock = try StoreLock.take(path, file, shared: false)
        }
        do throws(QueueError) { try StorePath.inspectSideFiles(of: path) } catch {
            lock.release()
            throw error
        }
        return lock
    }

    /// The store was accepted: from here on it is written.
    private static func connect(_ lock: StoreLock, _ survey: StoreSurvey) throws(QueueError) -> Database {
        if !survey.isHeaderReady, survey.logFrames == 0 {
            try Posix.write(lock.descriptor, at: StoreBirth.logMark.offset, StoreBirth.logMark.bytes, lock.path)
            try Posix.sync(lock.descriptor, lock.path)
        }
        if survey.hasLog {
            do throws(QueueError) { try LogRewrite.run(lock.path, size: survey.logSize) } catch {
                guard error.isFull else { throw error }
                // The room that is kept for this.
                let size = try Posix.status(lock.descriptor, lock.path).st_size
                guard ftruncate(lock.descriptor, size) == 0 else { throw error }
                try LogRewrite.run(lock.path, size: survey.logSize)
            }
        }
        let database = try Database(lock: lock, lengthLimit: lengthLimit)
        database.adoptLog(frames: survey.logFrames)
        return database
    }

    /// Takes over where the last owner left off.
    private func start(_ survey: StoreSurvey) throws(QueueError) {
        if let found = survey.state { (state, stateOnDisk) = (found, found) }
        if survey.logFrames > 0, !isReadOnly {
            try openSideFile()
            if !checkpoint() { Log.warning("\(path): the log that was left behind could not be copied yet") }
        }
        if survey.layout < Schema.version { try upgrade() }
        nextSequence = state.sequenceCeiling + 1
        if survey.state == nil {
            try rebuild()
        } else if survey.needsIndexes {
            try makeIndexes()
        }
        if state.mark == .closed, state.totals.isPlausible {
            counters = Counters(totals: state.totals)
        } else {
            let unfolded = try unfoldedCounts()
            counters = Counters(totals: unfolded.values.reduce(try sumOfConversations(), +), unfolded: unfolded)
        }
        guard counters.totals.isPlausible else {
            throw QueueError(.corrupt, "\(path) is damaged: its counts are impossible")
        }
    }

    private func upgrade() throws(QueueError) {
        try begin()
        for sql in Schema.upgrade { try database.execute(sql) }
        isUpgraded = true
        try commit(durable: true)
    }
    /// The row of `state` must be written whatever is in it.
    private var isUpgraded = false

    /// The writes by which an owner takes over what was under way.
    private func rehearseRecovery() throws(QueueError) {
        try begin()
        for attempt in try interrupted() {
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

    /// Makes the indexes anew because a statement found one that does not fit; false: that is not possible.
    package func remakeIndexes() -> Bool {
        guard !isInTransaction, !isPoisoned else { return false }
        do throws(QueueError) {
            try makeIndexes()
            return true
        } catch {
            rollback()
            Log.error("\(path): \(error.detail)")
            return false
        }
    }

    /// Index entries that one step of the comparison reads: about a millisecond.
    private static let comparisonStep: Int64 = 2_000

    /// One step of the comparison of the indexes of queued messages, which is made once a session. False: they do not fit.
    package func compareQueuedIndexes() -> Bool {
        guard !isQueuedCompared, !isInTransaction else { return true }
        do throws(QueueError) {
            var comparison =
                comparison
                ?? QueuedComparison(
                    through: foldedThrough, counted: counters.unfolded.values.reduce(totals.queued) { $0 &- $1.queued })
            let fits = try comparison.step(database, limit: Self.comparisonStep)
            self.comparison = comparison
            isQueuedCompared = comparison.isDone
            return fits
        } catch {
            isQueuedCompared = true
            Log.warning("\(path): \(error.detail)")
            return error.code != .corrupt
        }
    }
    /// Nothing is left to compare in this session.
    package private(set) var isQueuedCompared = false

    private func makeIndexes() throws(QueueError) {
        note("an index was damaged and was made anew from the messages")
        try begin()
        try countAnew()
        isUpgraded = true
        try commit(durable: true)
    }

    private func note(_ text: String) { repair = repair.map { "\($0); \(text)" } ?? text }

    /// Makes anew what is kept beside the messages, because the row `state` is damaged.
    private func rebuild() throws(QueueError) {
        note("the table state was damaged and was made anew from the messages")
        let last = max(try StoreSurvey.lastSequence(database).last, try highestRememberedSequence(), loss?.last ?? 0)
        state = StoreState()
        state.mark = .open
        state.sequenceCeiling = min(last.addingClamped(Self.sequenceBlock), MessageID.sequenceCeiling)
        nextSequence = state.sequenceCeiling + 1
        try begin()
        // The row may be gone altogether.
        try database.execute(Schema.firstState)
        try countAnew()
        isUpgraded = true
        try commit(durable: true)
    }

    /// Ids that the engine made carry the sequence number of their message.
    private func highestRememberedSequence() throws(QueueError) -> Int64 {
        let statement = try database.statement("SELECT id FROM recent")
        var highest: Int64 = 0
        try statement.forEach { () throws(QueueError) in
            highest = max(highest, MessageID.sequence(in: statement.text(0)) ?? 0)
            return true
        }
        return highest
    }

    // MARK: Transactions

    package func begin() throws(QueueError) {
        guard !database.isInTransaction else { return }
        try database.begin()
        atBegin = (nextSequence, state, comparison)
    }

    package var isInTransaction: Bool { database.isInTransaction }
    package var lastCommitWrote: Bool { database.lastCommitWrote }

    package func commit(durable: Bool) throws(QueueError) {
        guard database.isInTransaction else { return }
        // What changes only the schema or indexes counts no row.
        let isFirst = !isMarked && (database.hasChanges || state != stateOnDisk || isUpgraded)
        do throws(QueueError) {
            try writeState(isFirst)
            try database.commit(durable: durable)
        } catch {
            // After a flush that failed the rows may be there: memory goes on as if, and the queue is closed to writes.
            if !database.isPoisoned {
                database.rollback()
                undo()
            }
            throw error
        }
        stateOnDisk = state
        isUpgraded = false
        counters.commit()
        if isFirst {
            isMarked = true
            // The database file itself must say that it is in use, so that a copy without its log is noticed.
            if !checkpoint(), durable { noteFlushed() }
        } else if durable {
            noteFlushed()
        }
        if database.isLogLong { checkpoint() }
    }

    /// With the first change of a session and of a log the row says so, and whom the log belongs to.
    private func writeState(_ isFirst: Bool) throws(QueueError) {
        guard database.hasChanges || state != stateOnDisk || isUpgraded else { return }
        if isFirst {
            state.mark = .open
            state.bootID = currentBoot
            state.totals = Counts()
            if nextSequence > state.sequenceCeiling { try reserveSequences() }
        }
        if isFirst || database.isLogFresh {
            state.logBase = stateOnDisk.generation
            state.generation = Int64.random(in: 1...Int64.max)
        }
        if isFirst, !isReadOnly { try openSideFile() }
        if state != stateOnDisk || isUpgraded { try state.write(database) }
    }

    package func rollback() {
        guard database.isInTransaction else { return }
        database.rollback()
        undo()
    }

    private func undo() {
        if let (next, old, compared) = atBegin { (nextSequence, state, comparison) = (next, old, compared) }
        pruneMap.undo()
        counters.rollback()
    }

    /// The next place in the order. Blocks of numbers are reserved on disk, so that none is given out twice, whatever is deleted.
    func takeSequence() throws(QueueError) -> Int64 {
        if nextSequence > state.sequenceCeiling { try reserveSequences() }
        defer { nextSequence += 1 }
        return nextSequence
    }

    /// Sequence numbers up to this one were given out elsewhere.
    func giveOut(through sequence: Int64) {
        nextSequence = max(nextSequence, sequence.addingClamped(1))
        state.sequenceCeiling = max(state.sequenceCeiling, sequence)
    }

    private func reserveSequences() throws(QueueError) {
        let ceiling = nextSequence + Self.sequenceBlock - 1
        guard ceiling <= MessageID.sequenceCeiling else { throw QueueError(.full, "the store's numbers are used up") }
        state.sequenceCeiling = ceiling
    }

    // MARK: The log

    /// The side record, made durable with both names before anything is in the log that could be lost.
    private func openSideFile() throws(QueueError) {
        guard !side.isOpen else { return }
        try side.open()
        try side.write(record(frames: Int64(database.logFrames)), durable: true)
        try database.watchFiles()
    }

    private func record(frames: Int64) -> SideRecord {
        SideRecord(
            generation: state.generation, base: state.logBase, salts: database.logSalts, frames: frames, lastSequence: nextSequence - 1)
    }

    /// The log is durable as far as it goes: the side record says how far.
    private func noteFlushed() {
        guard !isReadOnly, !database.isPoisoned, !database.isLogFresh else { return }
        write(record(frames: Int64(database.logFrames)), durable: false)
    }

    private func write(_ record: SideRecord, durable: Bool) {
        do throws(QueueError) { try side.write(record, durable: durable) } catch {
            // Without it only the loss of the log's end would pass unnoticed.
            Log.warning(error.detail)
        }
    }

    /// Copies the log into the database; true when nothing of it is needed any more. What fails costs nothing but the log's size.
    @discardableResult
    func checkpoint() -> Bool {
        guard !database.isLogFresh else { return true }
        let isOversized = database.isLogOversized
        guard copyLog() else { return false }
        // After a large batch its room is given back at once; otherwise it would be with the next commit.
        if isOversized, !database.truncateLog() { Log.warning("\(path): the log could not be made smaller") }
        database.restoreRoom(keeping: keptRoom)
        return true
    }

    /// The same, and makes the log empty; false also when that failed.
    private func emptyLog() -> Bool {
        guard database.isLogFresh || copyLog(), database.truncateLog() else { return false }
        database.restoreRoom(keeping: keptRoom)
        return true
    }

    private func copyLog() -> Bool {
        guard database.checkpoint() else { return false }
        write(record(frames: 0), durable: true)
        return true
    }

    /// Whether a commit of this store is not durable yet.
    package var needsFlush: Bool { database.needsFlush }

    /// Flushes that succeeded: what was committed before the last of them is durable.
    package var flushes: Int { database.flushes }

    /// Makes durable what is not.
    package func flush() throws(QueueError) {
        guard needsFlush, !isInTransaction else { return }
        try database.flush()
        noteFlushed()
    }

    /// Removes what was deleted from the log and the file, not only from the tables.
    package func scrub() {
        if !emptyLog() { Log.warning("\(path): text that was deleted is still in the log") }
    }

    // MARK: Room

    /// Bytes that what is accepted may still need: an outcome and a line in the ledger for each unsent message, the indexes of those that
    /// the fold has not seen, the pages of a body that is deleted, and what closing writes.
    private var keptRoom: Int64 {
        let unsent = min(max(0, counters.totals.queued.addingClamped(counters.totals.failed)), 1 << 40)
        let bodies = min(max(0, counters.totals.unsentBytes), Self.roomForBodies)
        return Self.leastRoom + bodies + bodies / 8 + unsent * Self.roomPerUnsent + roomOfFold
    }
    private static let (leastRoom, roomForBodies): (Int64, Int64) = (192 << 10, 4 << 20)
    private static let roomPerUnsent: Int64 = 256

    /// What the fold writes: four times the conversation's name for each row, in pages that are half empty at worst, and numbers.
    private var roomOfFold: Int64 {
        counters.unfolded.reduce(0) { sum, entry in
            let rows = min(max(0, entry.value.queued &+ entry.value.failed &+ entry.value.history), 1 << 40)
            return sum.addingClamped(rows * (200 + 8 * Int64(min(entry.key.text.utf8.count, 1 << 10))))
        }
    }

    /// What a new message takes: its row, its place in the index of ids, what the fold writes, and what is kept for it.
    private static func room(of draft: borrowing BorrowedDraft) -> Int64 {
        let text = draft.metadata.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
        let names = 3 * (draft.id?.utf8.count ?? 0) + 9 * draft.conversation.text.utf8.count
        let content = Int64(draft.body.count) + Int64(text)
        return content + content / 4 + Int64(names) + 600 + roomPerUnsent
    }

    /// Throws when the disk has no room for these messages, with what is kept for sending them.
    package func takeRoom(for drafts: some Sequence<BorrowedDraft>) throws(QueueError) {
        guard !isReadOnly else { return }
        let wanted = drafts.reduce(Int64(0)) { $0.addingClamped(Self.room(of: $1)) }
        do throws(QueueError) { try database.takeRoom(for: wanted, keeping: keptRoom) } catch {
            guard error.isFull, !isInTransaction, checkpoint() else { throw error }
            try database.takeRoom(for: wanted, keeping: keptRoom)
        }
    }

    /// After the disk was found full: makes some room, `ofKept`: with what is kept for sending and deleting. False when nothing can be done.
    package func makeRoom(ofKept mayRelease: Bool = true) -> Bool {
        guard !isInTransaction, !database.isPoisoned else { return false }
        let hadLog = !database.isLogFresh
        if hadLog, checkpoint() { return true }
        guard mayRelease, database.releaseRoom() else { return false }
        Log.warning("\(path): the disk is full; the room that is kept for sending and deleting is used now")
        return true
    }

    // MARK: The end

    /// Closes the file; `clean` also writes down what the next open would else have to count.
    package func close(clean: Bool) {
        let isClosed = clean && !isReadOnly && finish()
        if clean, !isClosed { flushLast() }
        database.close()
        if isClosed {
            unlink(StorePath.log(of: path))
            side.remove()
        }
        lock.release()
    }

    /// The store could not be closed in order: the log keeps what was committed, so it must be durable.
    private func flushLast() {
        do throws(QueueError) { try flush() } catch { Log.error("\(path): \(error.detail)") }
    }

    /// True when the database holds everything.
    private func finish() -> Bool {
        guard !database.isPoisoned else { return false }
        guard isMarked || unfoldedRows > 0 || state.mark != .closed || side.isOpen else { return true }
        let isShrunk = database.shrink()
        for _ in 0..<3 {
            do throws(QueueError) {
                try begin()
                try fold()
                // It made the indexes anew from the messages; what is counted of damaged ones must fit them.
                if isShrunk { try countConversations() }
                state.mark = .closed
                state.sequenceCeiling = nextSequence - 1
                state.totals = counters.totals
                isMarked = true
                try commit(durable: true)
                guard emptyLog() else {
                    Log.warning("\(path): not closed in order: the log could not be copied into the database; the next open copies it")
                    return false
                }
                return true
            } catch {
                // The next open counts for itself; nothing is lost but time.
                rollback()
                guard error.isFull, makeRoom() else {
                    Log.warning("\(path): not closed in order: \(error.detail)")
                    return false
                }
            }
        }
        return false
    }

    // MARK: Waits

    /// A wait that a receiver asked the whole queue for; nil: none.
    package var hold: (until: Int64, delay: Int64, boot: Int64, uptime: Int64)? {
        state.hold == StoreState.Hold() ? nil : (state.hold.until, state.hold.delay, state.hold.boot, state.hold.uptime)
    }

    /// In the transaction under way.
    package func setHold(_ hold: (until: Int64, delay: Int64, boot: Int64, uptime: Int64)?) {
        state.hold = hold.map { StoreState.Hold(until: $0.until, delay: $0.delay, boot: $0.boot, uptime: $0.uptime) } ?? StoreState.Hold()
    }

    /// As it is kept on disk, for a copy that is closed and of its own.
    var stateOfCopy: StoreState {
        var copy = stateOnDisk
        copy.mark = .copied
        copy.bootID = ""
        copy.totals = Counts()
        copy.logBase = 0
        copy.generation = Int64.random(in: 1...Int64.max)
        return copy
    }

    /// What is read next comes from the files.
    package func forgetPages() { database.forgetPages() }

    package var path: String { lock.path }
    package var isPoisoned: Bool { database.isPoisoned }
}
