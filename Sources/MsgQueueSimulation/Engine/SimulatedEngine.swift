import MsgQueue

/// What the engine does around its core, in memory and in virtual time: performs the steps and writes the changes over a simulated store.
/// Every decision is the core's.
package final class SimulatedEngine {
    package let options: Options
    package var store = SimulatedStore()
    package var core: Core
    package var scheduler: Scheduler {
        get { core.scheduler }
        set { core.scheduler = newValue }
        _modify { yield &core.scheduler }
    }
    package var now: Moment
    package private(set) var boot: Int64 = 1
    package weak var observer: (any SimulationObserver)?
    /// Called once an attempt is on disk; the answer comes by `answer`.
    var transport: ((Core.Start, SimulatedMessage) -> Void)?
    /// In 0..<1, for the jitter.
    var random: () -> Double = { 0.5 }
    /// The transport answers in its call (false: later).
    package var answersInCall = false
    /// When something may happen by itself, by the monotonic clock; nil: after the next input.
    package internal(set) var deadline: Int64?
    /// It has something to start.
    package internal(set) var hasStart = false
    /// Steps between two waits, at most.
    package var stepLimit = 10_000

    /// Attempts that timed out, and were not answered since.
    package internal(set) var late: Set<UInt64> = []
    var rounds: UInt32 = 0
    /// When a queued message expires next, in wall time, or earlier.
    package internal(set) var nextExpiry = Int64.max

    // MARK: Writing

    /// Transactions that ended, those that a crash cut included.
    private(set) var writes = 0
    /// Which of them ends the process, and whether it is on disk then.
    var crashes: [Int: Bool] = [:]
    /// The process ended: nothing goes on before `restart`.
    private(set) var isDown = false
    /// In the transaction under way; their notices follow the commit.
    private var staged: [Fact] = []

    // MARK: A store in trouble

    package var storeIsBroken = false
    package private(set) var unsaved: [Fact] = []
    package private(set) var storageUntil: Int64 = 0
    private var storageDelay: Int64 = 0

    package init(_ options: Options, at now: Moment) {
        self.options = options
        self.now = now
        core = Core(options, Opening(boot: 1, moment: now), firstToken: 1, openedAt: now.wall)
    }

    /// A copy of the engine, its store and its clock, without observer and transport: to try what would happen.
    package func copy() -> SimulatedEngine {
        let other = SimulatedEngine(options, at: now)
        (other.store, other.core, other.boot) = (store, core, boot)
        (other.random, other.answersInCall, other.stepLimit) = (random, answersInCall, stepLimit)
        (other.deadline, other.hasStart) = (deadline, hasStart)
        (other.late, other.rounds, other.nextExpiry) = (late, rounds, nextExpiry)
        (other.writes, other.crashes, other.isDown, other.staged) = (writes, crashes, isDown, staged)
        (other.storeIsBroken, other.unsaved) = (storeIsBroken, unsaved)
        (other.storageUntil, other.storageDelay) = (storageUntil, storageDelay)
        return other
    }

    /// Attempts that wait for an answer, oldest first.
    package var flights: [Flight] {
        scheduler.flights.values.filter { !$0.isEnded }.sorted { $0.token < $1.token }
    }

    /// Messages that count as being sent.
    package var sendingSequences: Set<Int64> {
        Set(scheduler.flights.values.filter { !$0.isEnded }.map(\.sequence)).union(unsaved.filter(\.isOutcome).map(\.sequence))
    }

    // MARK: Effects

    func perform(_ effects: [Effect]) throws {
        for effect in effects {
            switch effect {
            case .record(let fact):
                for change in fact.changes { try show(change) }
                record(fact)
            case .notice(let notice): follow(notice)
            }
        }
    }

    private func show(_ change: Change) throws {
        switch change {
        case .endAttempt(let row, let resolution):
            guard let message = store[row.sequence] else { throw Violation("message \(row.sequence) ended and is not there") }
            try observer?.ends(message, resolution)
        case .expire(let sequence, _, _):
            guard let message = store[sequence] else { throw Violation("message \(sequence) expired and is not there") }
            try observer?.expires(message)
        case .endUnreachable(let row, let resolution): observer?.endedUnreachable(row.sequence, resolution)
        case .markDamaged(let sequence): throw Violation("message \(sequence) is damaged")
        case .requeue, .beginAttempt, .recover, .hold: break
        }
    }

    func follow(_ notice: Notice) {
        switch notice {
        case .failuresChanged(let conversation): refreshBlock(conversation)
        case .event(.paused(_, true, _)): observer?.pauses()
        case .endedUnreachable(let row, let resolution, let moment): follow(core.endedUnreachable(row, resolution, moment))
        case .expires(let time): expect(expiry: time)
        case .event, .countsChanged, .progress, .historyGrew, .damaged, .log: break
        }
    }

    /// A queued message expires then (wall time; 0: never).
    func expect(expiry: Int64) {
        if expiry != 0 { nextExpiry = min(nextExpiry, expiry) }
    }

    /// Of effects that nothing is written for.
    func follow(_ effects: [Effect]) {
        for effect in effects { if case .notice(let notice) = effect { follow(notice) } }
    }

    /// Where a message that failed for good blocks its conversation.
    func refreshBlock(_ conversation: Name) {
        guard options.finalFailure == .block else { return }
        scheduler.block(conversation, at: store.firstFailed(in: conversation), now)
    }

    // MARK: Transactions

    /// In the transaction under way; `commit` ends it.
    private func record(_ fact: Fact) {
        for change in fact.changes { store.apply(change) }
        staged.append(fact)
        if storeIsBroken { giveUp() }
    }

    /// False when the store does not take it, or the process ends with it.
    @discardableResult
    package func commit() -> Bool {
        guard !isDown else { return false }
        guard store.isInTransaction else { return true }
        guard !storeIsBroken else {
            giveUp()
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
        for fact in facts { for notice in fact.notices { follow(notice) } }
        return true
    }

    /// Rolls back; the facts are kept and written later.
    private func giveUp() {
        store.rollback()
        unsaved += staged
        staged = []
        storageTrouble()
    }

    func storageTrouble() {
        storageDelay = min(max(storageDelay * 2, 250), 60_000)
        storageUntil = now.mono + storageDelay
        scheduler.storageFailed(until: storageUntil)
    }

    func saveUnsaved() {
        guard storageDelay > 0, now.mono >= storageUntil else { return }
        guard !storeIsBroken else {
            if !unsaved.isEmpty { storageTrouble() }
            return
        }
        let facts = unsaved
        unsaved = []
        (storageDelay, storageUntil) = (0, 0)
        for fact in facts { record(fact) }
        guard commit() else { return }
        observer?.storeRecovered()
        scheduler.storageRecovered(now)
    }

    // MARK: The process ends

    /// At once: what is not committed is lost.
    func crash() {
        store.rollback()
        isDown = true
    }

    /// The machine is switched off for so many milliseconds by the wall clock, which may have been set meanwhile.
    package func reboot(after milliseconds: Int64) {
        crash()
        now = Moment(wall: now.wall + milliseconds, mono: 1_000)
        boot += 1
    }

    /// Another process opens the store. False: it ends while it recovers what the last one left.
    @discardableResult
    package func restart() -> Bool {
        store.rollback()
        isDown = false
        (late, unsaved, staged, storageUntil, storageDelay) = ([], [], [], 0, 0)
        storeIsBroken = false
        for message in store.all.filter({ $0.cut != nil }) {
            guard let cut = message.cut else { continue }
            store.end(
                message.sequence,
                OutcomeRule.recover(
                    number: cut.number, startedAt: cut.startedAt, of: message.progress, holdInterrupted: options.holdInterrupted,
                    maxRetries: options.maxRetries))
        }
        guard commit() else { return false }
        nextExpiry = 0
        let opening = Opening(boot: boot, moment: now)
        core = Core(options, opening, firstToken: core.nextToken, openedAt: now.wall)
        if let hold = store.hold { scheduler.hold(until: hold.end(opening), now) }
        if options.finalFailure == .block { for conversation in Set(store.all.map(\.conversation)) { refreshBlock(conversation) } }
        return true
    }
}
