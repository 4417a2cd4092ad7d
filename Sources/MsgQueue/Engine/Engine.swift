import Glibc

/// The only room with locks, threads and callbacks. It holds the store (the truth) and the scheduler (who decides), performs what the
/// scheduler says, and calls the host with no lock held.
///
/// One lock guards everything below. Public functions take it, change store and scheduler in one transaction, and end with `settle()`,
/// which lets the scheduler's next steps happen and wakes whoever runs them.
package final class Engine: @unchecked Sendable {
    enum Phase { case open, closing, closed }

    let options: Options
    let ports: Ports
    let process: pid_t
    let lock = Mutex()
    let gate = WriteGate()

    // Under the lock:
    let store: Store
    /// What is decided; everything else here is done.
    var core: Core
    /// How long the machine had slept when that was looked at last.
    var asleepBefore: Int64
    var phase = Phase.open
    /// This is a forked child, in which a callback came back.
    var isOrphan = false
    var events = EventQueue()
    var isDelivering = false
    var transport: Registration<TransportFunction>?
    var handler: Registration<EventFunction>?
    var idBits: RandomBits
    /// Facts in the transaction under way, and those that the store would not take yet: nothing new starts before they are written.
    var staged: [Fact] = []
    var unsaved: [Fact] = []
    var storageTrouble: QueueError?
    /// What the last storage event said.
    var storageReport: QueueError.Code?
    var isMakingRoom = false
    var storageDelay: Int64 = 0
    /// When what was committed without a flush is flushed (monotonic).
    var flushAt = Int64.max
    /// Outcomes that were committed without a flush since the flush with this number.
    var unflushed = (outcomes: 0, since: 0)
    /// What happened before there was anybody to tell.
    var notices: [Event] = []
    /// Backups under way.
    var copies: [StoreCopy] = []
    var drainWaiters: [DrainWaiter] = []
    /// The scheduler has an attempt to start.
    var hasStart = false
    var timerDeadline: Int64? = Int64.max
    var poll: PollState?
    /// When the history is looked at next (monotonic), and when the next message expires (wall).
    var maintenanceAt: Int64 = 0
    /// After it failed: not before this (monotonic).
    var maintenanceRestsUntil: Int64 = 0
    var nextExpiry = Int64.max
    /// When the next step of the comparison of the indexes is made (monotonic).
    var comparisonAt: Int64 = 0

    // Threads, and what they wait on:
    var services: [EngineThread] = []
    let alarm: Alarm
    var monitor: NetworkMonitor?
    /// When the kernel is asked again after it did not answer (monotonic), and how long after the last time.
    var monitorDeadline = Int64.max
    var monitorDelay: Int64 = 0
    /// Those that call the transport, by number.
    var workers: [Int: EngineThread] = [:]
    var workersBegun = 0
    var workersIdle = 0
    var workersCalling = 0
    /// Since when (monotonic) attempts wait to be started, and none was.
    var startWaitsSince: Int64?
    /// Transport calls that have not returned, and threads inside `poll`.
    var callsRunning = 0
    var pollers = 0
    /// Threads that wait for a drain of a polled queue, and run its callbacks when nobody polls.
    var drainers = 0
    var closingSince: Int64 = 0
    /// Until when `closeAsync` waits for attempts (monotonic); nil: without end.
    var closingDeadline: Int64?
    /// `closeAsync` of a polled queue: `poll` makes the last call, which is there once the store is closed.
    var isClosedByPoll = false
    var lastCallback: (@Sendable () -> Void)?
    var lastPolledAt = Int64.min / 2
    var lastPoller: pthread_t?
    let workCondition = Condition()
    let eventCondition = Condition()
    /// An attempt ended, a callback returned: for `close`.
    let quietCondition = Condition()

    package init(path: String, options: Options, ports: Ports = .system) throws(QueueError) {
        try options.validate()
        Log.prepare()
        ThreadContext.prepare()
        self.options = options
        self.ports = ports
        process = getpid()
        idBits = RandomBits(seed: ports.random())
        core = Core(
            options, Opening(boot: ports.boot(), moment: ports.moment),
            firstToken: (UInt64(truncatingIfNeeded: ports.random()) & 0x7fff_ffff) << 32 | 1, openedAt: ports.wall())
        asleepBefore = ports.asleep()
        store = try Store(path: path, options: options)
        do throws(QueueError) { alarm = try Alarm() } catch {
            store.close(clean: false)
            throw error
        }
        do throws(QueueError) {
            noteOpening()
            try recover()
            if let hold = store.hold {
                let due = Due(at: hold.until, delay: hold.delay, boot: hold.boot, uptime: hold.uptime)
                core.scheduler.limit(until: due.end(core.opening), core.opening.moment)
            }
            nextExpiry = try store.nextExpiry(after: 0) ?? Int64.max
            if options.finalFailure == .block {
                for conversation in try store.conversationsWithFailures() { refreshBlock(conversation) }
            }
            if options.polled { poll = try PollState() }
            try startServices()
        } catch {
            stopServices()
            store.close(clean: false)
            throw error
        }
    }

    /// Opens the store. What looks like damage is looked at twice: SQLite answers some reads that failed as if they had shown damage.
    package static func open(path: String, options: Options) throws(QueueError) -> Engine {
        do throws(QueueError) { return try Engine(path: path, options: options) } catch {
            // Nothing was asked for but to open: what a flush that failed left open, the next opening finds.
            guard error.code != .unknown else { throw QueueError(.storage, error.detail, isFull: error.isFull) }
            guard error.code == .corrupt else { throw error }
            return try Engine(path: path, options: options)
        }
    }

    /// Runs `body` under the lock, unless the queue is closed, and lets the scheduler go on from there.
    func locked<T>(_ body: () throws(QueueError) -> T) throws(QueueError) -> T {
        try checkProcess()
        lock.lock()
        defer { lock.unlock() }
        guard phase == .open else { throw ending }
        defer { settle() }
        do throws(QueueError) { return try body() } catch {
            // A page that could not be read once is no damage. (What a call changes, it changes last.)
            guard error.code == .corrupt else { throw error }
            store.forgetPages()
            return try body()
        }
    }

    /// The same for what changes the store, or sends.
    func changing<T>(_ body: () throws(QueueError) -> T) throws(QueueError) -> T {
        try locked { () throws(QueueError) in
            try checkWritable()
            return try body()
        }
    }

    func checkWritable() throws(QueueError) {
        guard !options.readOnly else { throw QueueError(.permission, "\(store.path) was opened for reading only") }
    }

    /// In a forked child nothing may be touched: not the lock, which the parent's threads may hold, and not the file.
    func checkProcess() throws(QueueError) {
        guard getpid() == process else { throw forked }
    }

    var forked: QueueError { QueueError(.forked, "the queue belongs to process \(process)") }

    // MARK: Letting the scheduler go on

    /// Performs the scheduler's steps as far as they need no transport, and wakes who performs the others. Under the lock,
    /// as the last thing.
    func settle() {
        guard phase != .closed else { return }
        let step = advance()
        commitFacts()
        endDrainWaits(ports.mono())
        switch step {
        case .start:
            hasStart = true
            // It waits for whoever calls transports; the clock goes on for everything else.
            let deadline = core.scheduler.deadline(ports.moment)
            arm(poll == nil ? min(deadline ?? Int64.max, callWorker()) : deadline)
        case .wait(let deadline):
            hasStart = false
            startWaitsSince = nil
            arm(deadline)
        default: break
        }
        if !events.isEmpty || (events.summaryIsDue && handler != nil) {
            if poll == nil, !isDelivering { eventCondition.signal() }
        }
        if let poll {
            poll.update(hasWork: hasPollWork, ports.mono())
            if hasPollWork, pollers > 0 { workCondition.broadcast() }
            if hasPollWork, drainers > 0 { quietCondition.broadcast() }
        }
        if phase == .closing { quietCondition.broadcast() }
    }

    private func arm(_ deadline: Int64?) {
        if store.needsFlush, flushAt == Int64.max { flushAt = ports.mono() + Self.flushDelay }
        var deadline = min(deadline ?? Int64.max, maintenanceDeadline, monitorDeadline, drainDeadline, flushAt)
        if let poll, poll.quietUntil > ports.mono() { deadline = min(deadline, poll.quietUntil) }
        let soon = ports.mono().addingClamped(1)
        if deadline < soon {
            // The timer has its turn, but never in a busy loop; and it is not put off while it is about to have it.
            if let timerDeadline, timerDeadline <= soon { return }
            deadline = soon
        }
        guard deadline != timerDeadline else { return }
        timerDeadline = deadline
        alarm.arm(deadline)
    }

    // MARK: Telling

    func emit(_ event: Event) {
        if case .storage(let error) = event {
            storageReport = error?.code
            if handler == nil, error?.code == .corrupt, notices.count < Self.noticeCeiling { notices.append(event) }
        }
        guard handler != nil else { return }
        events.append(event, at: ports.wall())
    }

    /// So much damage that was found is told to the first handler, however late it comes.
    private static let noticeCeiling = 64

    func countsChanged() { events.summaryIsDue = true }

    /// All messages, with those being sent told apart.
    var counts: Counts {
        var counts = store.totals
        let sending = Int64(sendingPlaces.count)
        counts.sending += sending
        counts.queued -= sending
        return counts
    }

    /// Messages that are being sent, or were sent and are not written down yet.
    var sendingPlaces: Set<Int64> {
        var places = Set(unsaved.lazy.filter(\.isOutcome).map(\.sequence))
        for flight in core.scheduler.flights.values where !flight.isEnded { places.insert(flight.sequence) }
        return places
    }

    // MARK: Trouble with the store

    /// The store would not write what the engine must: nothing starts for a while, at growing distances, so that it never spins.
    func storagePause(_ error: QueueError) {
        storageDelay = min(max(storageDelay * 2, 250), 60_000)
        core.scheduler.storageFailed(until: ports.mono() + storageDelay)
        storageTrouble(error)
    }

    /// The store would not: said once. (A caller whose wish it refused is told by the error; sending goes on as long as it can.)
    func storageTrouble(_ error: QueueError) {
        guard storageTrouble?.code != error.code else { return }
        storageTrouble = error
        Log.error("\(store.path): \(error)")
        emit(.storage(error))
    }

    /// A commit went well; if there was anything in it, the store is well.
    func storageIsWell() {
        guard storageTrouble != nil, store.lastCommitWrote else { return }
        storageTrouble = nil
        storageDelay = 0
        core.scheduler.storageRecovered(ports.moment)
        Log.info("\(store.path): the store is well again")
        emit(.storage(nil))
    }

    /// What a transaction may use when the disk is full.
    enum Room {
        /// The log, after it was copied.
        case inLog
        /// The room that is kept for sending and deleting, too.
        case kept
    }

    /// Runs `body` and commits; after an error nothing is changed. `isTried`: it is tried in another way when the disk is full.
    func transaction<T>(
        durable: Bool, room: Room = .kept, isTried: Bool = false, _ body: () throws(QueueError) -> T
    ) throws(QueueError) -> T {
        var (mayMakeRoom, mayMakeIndexes) = (true, true)
        while true {
            do throws(QueueError) {
                try store.begin()
                let value = try body()
                try store.commit(durable: durable)
                storageIsWell()
                return value
            } catch {
                store.rollback()
                if error.isFull, mayMakeRoom, store.makeRoom(ofKept: room == .kept) { continue }
                mayMakeRoom = false
                if error.isIndex, mayMakeIndexes, mendIndexes(error) {
                    mayMakeIndexes = false
                    continue
                }
                if error.code == .storage || error.code == .unknown, !(error.isFull && isTried) { storageTrouble(error) }
                throw error
            }
        }
    }

    /// An index that does not fit the messages is made anew from them, and the host is told. False: it could not be.
    func mendIndexes(_ error: QueueError) -> Bool {
        guard store.remakeIndexes() else { return false }
        Log.error("\(store.path): an index was damaged and was made anew from the messages: \(error.detail)")
        emit(.storage(QueueError(.corrupt, "an index was damaged and was made anew from the messages")))
        countsChanged()
        pruneIfMany()
        return true
    }

    /// Between the steps of the comparison, so that callers wait for one of them at most.
    private static let comparisonPause: Int64 = 4

    var comparisonDeadline: Int64 { store.isQueuedCompared ? Int64.max : comparisonAt }

    /// Messages that an index does not know would wait for ever: looked for once, soon after the opening. Called by the timer, under the lock.
    func compareIndexes() {
        let now = ports.moment
        guard comparisonDeadline <= now.mono, mayMaintain, now.mono >= core.scheduler.storageUntil else { return }
        comparisonAt = now.mono + Self.comparisonPause
        guard !store.compareQueuedIndexes() else { return }
        guard mendIndexes(QueueError(.corrupt, "queued messages are missing from it")) else { return }
        core.scheduler.forgetBacklog(now)
    }

    // MARK: What is not durable yet

    /// What is committed without a flush survives a power cut a second later.
    private static let flushDelay: Int64 = 700

    /// Outcomes that were committed and are not durable.
    var undurableOutcomes: Int { unflushed.since == store.flushes ? unflushed.outcomes : 0 }

    /// Runs a commit with so many outcomes in it, and counts those that it does not make durable.
    func committing(_ outcomes: Int, _ commit: () throws(QueueError) -> Void) throws(QueueError) {
        let (before, since) = (undurableOutcomes, store.flushes)
        try commit()
        unflushed = (before + outcomes, since)
    }

    /// Called by the timer, under the lock.
    func flushWhatIsDue() {
        guard flushAt <= ports.mono() else { return }
        flushAt = Int64.max
        do throws(QueueError) { try store.flush() } catch { storageTrouble(error) }
    }

    /// What was found when the store was opened, for the first handler.
    private func noteOpening() {
        for text in [store.loss?.text, store.repair].compactMap({ $0 }) {
            Log.warning("\(store.path): \(text)")
            notices.append(.storage(QueueError(.corrupt, text)))
            storageReport = .corrupt
        }
    }
}
