@testable import MsgQueue

/// The engine around the core, in memory and in virtual time: it performs the steps and writes the changes to a simulated store. All
/// decisions are made by the core.
final class SimulatedEngine {
    let options: Options
    var store = SimulatedStore()
    var core: Core
    var scheduler: Scheduler {
        get { core.scheduler }
        set { core.scheduler = newValue }
        _modify { yield &core.scheduler }
    }
    var now: Moment
    private(set) var boot: Int64 = 1
    weak var observer: (any SimulationObserver)?
    /// Called after the beginning of an attempt was committed; the outcome arrives by `end`.
    var transport: ((Core.Start, SimulatedMessage) -> Void)?
    /// The same for a batch, if the scheduler has limits for batches: the messages in the order in which the transport gets them.
    var batchTransport: (([(start: Core.Start, message: SimulatedMessage)]) -> Void)?
    /// Returns numbers in 0..<1 for the jitter.
    var random: () -> Double = { 0.5 }
    /// The call of the transport returns the outcome (true) or leaves the attempt pending (false).
    var answersInCall = false
    /// When a step may be due without an input (monotonic); nil: never.
    var deadline: Int64?
    /// An attempt is about to start.
    var hasStart = false
    /// How long the next read of a message for a batch, or the hand-over of a call to a thread, takes, in milliseconds.
    var workTime: () -> Int64 = { 0 }
    /// The maximum number of steps between two waits.
    var stepLimit = 10_000

    /// Tokens of attempts that timed out and have no outcome since.
    var late: Set<UInt64> = []
    var rounds: UInt32 = 0
    /// The number of messages enqueued with a key.
    var keyed = 0
    /// The ids of the messages that the last `enqueue` replaced or dropped.
    var removing: [String] = []
    /// When the next queued message expires (wall time), or an earlier time.
    var nextExpiry = Int64.max

    // MARK: Writing

    /// The number of transactions that ended, including those interrupted by a crash.
    private(set) var writes = 0
    /// The transactions at which the process ends; the value says whether the transaction is on disk then.
    var crashes: [Int: Bool] = [:]
    /// The process has ended; nothing happens before `restart`.
    private(set) var isDown = false
    /// The facts of the open transaction; their notices follow its commit.
    private var staged: [Fact] = []

    // MARK: A store in trouble

    var storeIsBroken = false
    private(set) var unsaved: [Fact] = []
    private(set) var storageRetryAt: Int64 = 0
    private var storageDelay: Int64 = 0

    init(_ options: Options, at now: Moment) {
        self.options = options
        self.now = now
        core = Core(options, Opening(boot: 1, moment: now), firstToken: 1, openedAt: now.wall)
    }

    /// Returns a copy of the engine, its store and its clock, without observer and transport, to try what happens next.
    func copy() -> SimulatedEngine {
        let other = SimulatedEngine(options, at: now)
        (other.store, other.core, other.boot) = (store, core, boot)
        (other.random, other.answersInCall, other.stepLimit) = (random, answersInCall, stepLimit)
        (other.deadline, other.hasStart) = (deadline, hasStart)
        (other.late, other.rounds, other.keyed, other.nextExpiry) = (late, rounds, keyed, nextExpiry)
        (other.writes, other.crashes, other.isDown, other.staged) = (writes, crashes, isDown, staged)
        (other.storeIsBroken, other.unsaved) = (storeIsBroken, unsaved)
        (other.storageRetryAt, other.storageDelay) = (storageRetryAt, storageDelay)
        return other
    }

    /// The attempts without an outcome, oldest first.
    var flights: [Flight] {
        scheduler.flights.values.filter { !$0.isEnded }.sorted { $0.token < $1.token }
    }

    /// The sequences of messages that count as `sending`.
    var sendingSequences: Set<Int64> {
        Set(scheduler.flights.values.filter { !$0.isEnded }.map(\.sequence)).union(unsaved.filter(\.isOutcome).map(\.sequence))
    }

    // MARK: Effects

    func perform(_ effects: [Effect]) throws {
        for effect in effects {
            switch effect {
            case .record(let fact):
                for change in fact.changes { try notifyObserver(change) }
                record(fact)
            case .notice(let notice): handle(notice)
            }
        }
    }

    private func notifyObserver(_ change: StoreChange) throws {
        switch change {
        case .endAttempt(let row, let resolution):
            guard let message = store[row.sequence] else { throw Violation("the attempt of the missing message \(row.sequence) ended") }
            try observer?.ends(message, resolution)
        case .expire(let sequence, _, _):
            guard let message = store[sequence] else { throw Violation("the missing message \(sequence) expired") }
            try observer?.expires(message)
        case .endUnreachable(let row, let resolution): observer?.endedUnreachable(row.sequence, resolution)
        case .markDamaged(let sequence): throw Violation("message \(sequence) is damaged")
        case .revokeAttempt(let sequence): observer?.skips(sequence)
        case .requeue, .beginAttempt, .recover, .hold: break
        }
    }

    func handle(_ notice: Notice) {
        switch notice {
        case .failuresChanged(let conversation): refreshBlock(conversation)
        case .event(.paused(_, true, _)): observer?.pauses()
        case .endedUnreachable(let row, let resolution, let moment): handle(core.endedUnreachable(row, resolution, moment))
        case .expires(let time): expect(expiry: time)
        case .event, .countsChanged, .progress, .historyGrew, .damaged, .log: break
        }
    }

    /// Notes that a queued message expires at this wall time; 0: never.
    func expect(expiry: Int64) {
        if expiry != 0 { nextExpiry = min(nextExpiry, expiry) }
    }

    /// Handles effects that contain only notices.
    func handle(_ effects: [Effect]) {
        for effect in effects { if case .notice(let notice) = effect { handle(notice) } }
    }

    /// Updates the message that blocks the conversation, with the option `final_failure = block`.
    func refreshBlock(_ conversation: Name) {
        guard options.finalFailure == .block else { return }
        scheduler.block(conversation, at: store.firstFailed(in: conversation), now)
    }

    // MARK: Transactions

    /// Writes a fact into the open transaction; `commit` ends it.
    private func record(_ fact: Fact) {
        for change in fact.changes { store.apply(change) }
        staged.append(fact)
        if storeIsBroken { rollBack() }
    }

    /// Commits. Returns false if the store rejects the transaction or the process ends at it.
    @discardableResult
    func commit() -> Bool {
        guard !isDown else { return false }
        guard store.isInTransaction else { return true }
        guard !storeIsBroken else {
            rollBack()
            return false
        }
        writes += 1
        if let isOnDisk = crashes.removeValue(forKey: writes) {
            if isOnDisk { store.commit() }
            crash()
            return false
        }
        store.commit()
        let facts = staged
        staged = []
        for fact in facts { for notice in fact.notices { handle(notice) } }
        return true
    }

    /// Rolls back. The facts are kept and written later.
    private func rollBack() {
        store.rollback()
        unsaved += staged
        staged = []
        storageTrouble()
    }

    func storageTrouble() {
        storageDelay = min(max(storageDelay * 2, 250), 60_000)
        storageRetryAt = now.mono + storageDelay
        scheduler.storageFailed(until: storageRetryAt)
    }

    func saveUnsaved() {
        guard storageDelay > 0, now.mono >= storageRetryAt else { return }
        guard !storeIsBroken else {
            if !unsaved.isEmpty { storageTrouble() }
            return
        }
        let facts = unsaved
        unsaved = []
        (storageDelay, storageRetryAt) = (0, 0)
        for fact in facts { record(fact) }
        guard commit() else { return }
        observer?.storeRecovered()
        scheduler.storageRecovered(now)
    }

    // MARK: Crashes

    /// Ends the process at once; the open transaction is lost.
    func crash() {
        store.rollback()
        isDown = true
    }

    /// Switches the machine off for a number of milliseconds of the wall clock, which may have been set meanwhile.
    func reboot(after milliseconds: Int64) {
        crash()
        now = Moment(wall: now.wall + milliseconds, mono: 1_000)
        boot += 1
    }

    /// Opens the store in another process. Returns false if that ends while it recovers.
    @discardableResult
    func restart() -> Bool {
        store.rollback()
        isDown = false
        (late, unsaved, staged, storageRetryAt, storageDelay) = ([], [], [], 0, 0)
        storeIsBroken = false
        for message in store.all {
            guard let interrupted = message.interrupted else { continue }
            store.end(
                message.sequence,
                OutcomeRule.recover(
                    number: interrupted.number, startedAt: interrupted.startedAt, of: message.progress,
                    holdInterrupted: options.holdInterrupted, maxRetries: options.maxRetries))
        }
        guard commit() else { return false }
        nextExpiry = 0
        let opening = Opening(boot: boot, moment: now)
        core = Core(options, opening, firstToken: core.nextToken, openedAt: now.wall)
        scheduler.opened(through: store.lastSequence, hasPriorities: store.hasPriorities, now)
        if !store.queued.isEmpty { scheduler.openedWithBacklog(now) }
        if let hold = store.hold { scheduler.hold(until: hold.end(opening), now) }
        if options.finalFailure == .block { for conversation in Set(store.all.map(\.conversation)) { refreshBlock(conversation) } }
        return true
    }
}
