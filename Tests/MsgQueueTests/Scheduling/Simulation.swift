@testable import MsgQueue

/// The engine in virtual time, with a checker of its attempts, its waits and what it reports.
final class Simulation: EngineSimulation {
    var checker: PromiseChecker
    /// The number of drains that a restart ended without a report.
    private(set) var lostDrains = 0
    /// Attempts that timed out and were not answered since.
    private(set) var late: Set<UInt64> = []
    /// The last attempt of each message.
    private var tokens: [Int64: UInt64] = [:]
    /// The boot to which the times of `checker.pace` belong.
    private var pacedBoot: Int64?
    /// A violation that the next `settle` throws.
    private var violation: (any Error)?
    private var stored = StoredMessages()
    /// Messages that were written since they were read into `stored`.
    private var written: Set<Int64> = []
    /// A drain that is being requested and has not begun.
    private var requested: PromiseChecker.Session?
    private var insertion: InsertionChecker?

    override init(_ options: Options = Options(), hasTransport: Bool = true, batches: BatchLimits? = nil) throws {
        checker = PromiseChecker(options)
        try super.init(options, hasTransport: hasTransport, batches: batches)
    }

    convenience init(
        _ mode: Mode, direct: Bool = true, backoff: Backoff = .automatic, maxInFlight: Int = 1, _ change: (inout Options) -> Void = { _ in }
    ) throws {
        try self.init(Self.options(mode, direct, backoff, maxInFlight, change))
    }

    /// The messages in the store, with those of its open transaction.
    var store: StoredMessages {
        for sequence in written { stored.set(sequence, locked { stored(at: sequence) }) }
        written = []
        return stored
    }

    private func stored(at sequence: Int64) -> SimulatedMessage? {
        do throws(QueueError) { return try context.store.messages.row(at: sequence, .whole).map { SimulatedMessage($0) } } catch {
            violation = violation ?? error
            return nil
        }
    }

    /// Notes the first violation.
    private func check(_ body: () throws -> Void) {
        checker.look(now)
        do {
            try body()
        } catch { violation = violation ?? error }
    }

    @discardableResult
    override func settle(starts most: Int = .max) throws -> Int {
        checker.look(now)
        let count = violation == nil ? try super.settle(starts: most) : 0
        check {
            try checkRequests()
            // The engine asserts the invariants itself, but not after each input.
            if let broken = core.brokenInvariant { throw Violation(broken) }
        }
        if !hasStart {
            note(.waiting(until: deadline))
            check { try checker.waits(until: deadline, self) }
        }
        if let violation { throw violation }
        return count
    }

    /// Requests that ended without an attempt and without a change.
    private func checkRequests() throws {
        guard !checker.isDisabled, !checker.forced.isEmpty else { return }
        let scheduler = scheduler
        for (sequence, hand) in checker.forced where !scheduler.requests.contains(sequence) {
            let conversation = store[sequence]?.conversation
            let isPaused = scheduler.gate.pauses.isPaused || conversation.map(scheduler.gate.pauses.conversations.contains) ?? true
            // The round of a later `retryAll` replaces the request.
            let isInRound = checker.putBack.contains(sequence)
            guard isInRound || !checker.isOnline || isPaused else {
                throw Violation("the request for message \(sequence) ended, by \(hand)")
            }
            checker.forced[sequence] = nil
        }
    }

    // MARK: What the engine does

    override func opened() {
        disk.watcher = { [unowned self] in written.insert($0) }
        // The process before may have ended in a transaction, whose changes were read.
        written.formUnion(stored.all.map(\.sequence))
        (late, tokens) = ([], [:])
        let (pace, isDisabled) = (checker.pace, checker.isDisabled)
        checker = PromiseChecker(options)
        checker.isDisabled = isDisabled
        // Its times count from the boot.
        if boot == pacedBoot { checker.pace = pace }
        pacedBoot = boot
        checker.opened(self)
    }

    override func begins(_ start: Core.Start) {
        // The attempt does not begin if the store refuses it.
        guard !storeIsBroken else { return }
        let flight = start.flight
        tokens[flight.sequence] = flight.token
        check {
            guard let message = store[flight.sequence] else { throw Violation("an attempt of no message began: \(flight)") }
            try checker.starts(message, flight.conversation, flight.hand, self)
        }
    }

    override func called(_ flights: [Flight]) {
        check { try checker.calls(flights.compactMap { store[$0.sequence] }, self) }
    }

    override func records(_ fact: Fact) {
        check {
            for change in fact.changes {
                guard let message = store[fact.sequence] else { throw Violation("the missing message \(fact.sequence) is changed") }
                try records(change, message)
            }
        }
    }

    private func records(_ change: StoreChange, _ message: SimulatedMessage) throws {
        let sequence = message.sequence
        switch change {
        case .endAttempt(_, let resolution):
            if let token = tokens[sequence], core.lateFlight(token) != nil { late.insert(token) }
            note(.ended(sequence, resolution.fate))
            checker.ended(message, resolution, self)
        case .expire:
            try checker.expires(message, self)
            note(.expired(sequence))
        case .endUnreachable(_, let resolution):
            try checkRequests()
            endedUnreachable(sequence, resolution)
        case .revokeAttempt:
            note(.skipped(sequence))
            checker.skipped(sequence, self)
        case .markDamaged, .recover: throw Violation("message \(sequence) is damaged")
        case .requeue, .hold: break
        }
    }

    private func endedUnreachable(_ sequence: Int64, _ resolution: Resolution) {
        note(.unreachable(sequence, resolution.progress.status))
        checker.forced[sequence] = nil
        checker.retries[sequence] = nil
    }

    override func received(_ event: Event) {
        switch event {
        case .status(let change): received(change)
        case .drainStarted: drainStarted()
        case .drainFinished(let report): check { try checker.finishes(report, self) }
        case .prompt: check { try checker.raisesPrompt(self) }
        case .promptChanged: check { try checker.changesPrompt(self) }
        case .promptWithdrawn: check { try checker.withdrawsPrompt(self) }
        case .replaced(let id, let by, _): check { try removed(id) { .replaced($0, by: store[by]?.sequence ?? 0) } }
        case .discarded(let id, _, let failure) where failure.kind == .dropped: check { try removed(id) { .dropped($0) } }
        case .storage(nil): note(.storageWell)
        default: break
        }
    }

    private func drainStarted() {
        if checker.pending.isEmpty, let requested {
            checker.drainStarted(requested, self)
            self.requested = nil
        } else {
            checker.nextDrainStarted(self)
        }
    }

    private func received(_ change: StatusChange) {
        guard let message = store[change.id] else { return }
        if change.from == nil {
            let isDirect = scheduler.lanes[message.conversation]?.isDirect(message.sequence) ?? false
            note(.enqueued(message.sequence, message.conversation, direct: isDirect))
            checker.enqueued(message, isDirect: isDirect, self)
        } else if change.to == .sent {
            checker.forced[message.sequence] = nil
        }
    }

    /// A queued message was replaced or dropped.
    private func removed(_ id: String, _ entry: (Int64) -> JournalEntry) throws {
        guard let sequence = insertion?.removed(id) else { return }
        note(entry(sequence))
        checker.removed(sequence)
    }

    /// Performs what is overdue, as each call does before anything else.
    private func catchUp() { locked { engine.catchUp() } }

    // MARK: The process

    var boot: Int64 { locked { context.core.opening.boot } }

    override func restart(hasTransport: Bool = true) {
        note(.restarted)
        lostDrains += (scheduler.session == nil ? 0 : 1) + scheduler.gate.drains.pending.count
        mendStore()
        super.restart(hasTransport: hasTransport)
    }

    override func reboot(after milliseconds: Int64) {
        note(.rebooted(milliseconds))
        super.reboot(after: milliseconds)
    }

    override func jumpWallClock(_ milliseconds: Int64, isReported: Bool = false) {
        note(.jumped(milliseconds))
        checker.wallJumpedAt = now.mono
        super.jumpWallClock(milliseconds, isReported: isReported)
    }

    override func close() {
        note(.closing)
        checker.isClosing = true
        super.close()
    }

    // MARK: Messages

    @discardableResult
    override func enqueue(
        _ conversations: [Name], key: String? = nil, _ change: (inout SimulatedMessage) -> Void = { _ in }
    ) -> [Int64] {
        catchUp()
        insertion = InsertionChecker(self, conversations, key)
        var error: QueueError?
        let sequences = insert(conversations, key: key, refused: { error = $0 }, change)
        check { try insertion?.check(error, self) }
        insertion = nil
        return sequences
    }

    @discardableResult
    override func sendNow(_ sequence: Int64) -> QueueError.Code? { force(sequence, .sendNow) { super.sendNow(sequence) } }

    @discardableResult
    override func retry(_ sequence: Int64) -> QueueError.Code? { force(sequence, .retry) { super.retry(sequence) } }

    private func force(_ sequence: Int64, _ hand: Hand, _ call: () -> QueueError.Code?) -> QueueError.Code? {
        catchUp()
        let before = checker.forced[sequence]
        // What the call will do; its steps follow at once.
        let resolution = resolution(of: sequence, hand)
        if resolution == nil { checker.forced[sequence] = hand }
        let code = call()
        guard code == nil else {
            checker.forced[sequence] = before
            return code
        }
        note(.forced(sequence, hand))
        if let resolution { endedUnreachable(sequence, resolution) }
        return nil
    }

    /// How a request for this message ends at once; nil: it does not.
    private func resolution(of sequence: Int64, _ hand: Hand) -> Resolution? {
        guard let row = row(sequence) else { return nil }
        var core = core
        do throws(QueueError) { return try core.force(row, hand, now) } catch { return nil }
    }

    @discardableResult
    override func delete(_ sequence: Int64) -> QueueError.Code? {
        catchUp()
        let before = checker.forced.removeValue(forKey: sequence)
        let code = super.delete(sequence)
        if code == nil { note(.deleted(sequence)) } else { checker.forced[sequence] = before }
        return code
    }

    override func clear(_ conversation: Name? = nil) {
        catchUp()
        note(.cleared(conversation))
        let (forced, sending, store) = (checker.forced, sendingSequences, store)
        checker.forced = forced.filter { sequence, _ in
            conversation.map { store[sequence]?.conversation != $0 } ?? false || sending.contains(sequence)
        }
        super.clear(conversation)
        if storeIsBroken { checker.forced = forced }
    }

    @discardableResult
    override func retryAll(_ conversation: Name? = nil) -> Int {
        catchUp()
        let failed = store.all.filter { $0.progress.status == .failed && (conversation == nil || $0.conversation == conversation) }
        let (before, sequences) = (checker.putBack, failed.map(\.sequence).sorted())
        if checker.isOnline { checker.putBack.formUnion(sequences) }
        let count = super.retryAll(conversation)
        if count == 0 { checker.putBack = before } else { for sequence in sequences { note(.putBack(sequence)) } }
        return count
    }

    // MARK: Answers

    @discardableResult
    override func returnCall(_ token: UInt64, _ outcome: Outcome?) -> Bool {
        let flight = core.lateFlight(token)
        let isReturned = super.returnCall(token, outcome)
        if outcome != nil { late.remove(token) }
        if let flight, core.lateFlight(token) == nil { note(.late(flight.sequence)) }
        return isReturned
    }

    override func answerLate(_ token: UInt64, _ outcome: Outcome) {
        late.remove(token)
        guard let flight = core.lateFlight(token) else { return }
        super.answerLate(token, outcome)
        if core.lateFlight(token) == nil { note(.late(flight.sequence)) }
    }

    // MARK: The environment

    override func willSetNetwork(_ network: Network) {
        catchUp()
        guard network != scheduler.gate.network else { return }
        note(.network(network))
        checker.networkChanged(network, self)
    }

    override func willSetTransport(_ isPresent: Bool) {
        catchUp()
        note(.transport(isPresent))
        checker.hasTransport = isPresent
    }

    override func pause(_ conversation: Name? = nil) {
        catchUp()
        note(.paused(conversation, true))
        super.pause(conversation)
        check { try checkRequests() }
    }

    override func resume(_ conversation: Name? = nil) {
        catchUp()
        note(.paused(conversation, false))
        if conversation == nil, scheduler.gate.pauses.isPaused { checker.pace.interrupted() }
        super.resume(conversation)
    }

    override func setNetwork(_ connectivity: Connectivity, metered: Bool = false) {
        super.setNetwork(connectivity, metered: metered)
        check { try checkRequests() }
    }

    override func setBackground(_ isInBackground: Bool) {
        catchUp()
        note(.background(isInBackground))
        if scheduler.gate.isInBackground, !isInBackground { checker.broughtToForeground() }
        super.setBackground(isInBackground)
    }

    override func breakStore() {
        note(.storageBroken)
        super.breakStore()
    }

    @discardableResult
    override func drain(_ conversation: Name? = nil, batch: Int = 0, timeout: Int64? = nil) -> Bool {
        guard hasTransport else { return false }
        catchUp()
        // What the call will do; its steps follow at once.
        var after = scheduler
        let isNew = after.drain(conversation, batch: batch, timeout: timeout, now).number > scheduler.gate.drains.count
        let deadline = timeout.map { now.mono + $0 }
        if isNew {
            note(.drainStarted(batch: batch, timeout: timeout))
            requested = PromiseChecker.Session(
                conversation: conversation, batch: batch == 0 ? options.drainBatch : batch, deadline: deadline)
        } else {
            note(.drainJoined)
            checker.drainJoined(conversation, deadline: deadline)
        }
        super.drain(conversation, batch: batch, timeout: timeout)
        if let requested { checker.pending.append(requested) }
        requested = nil
        return isNew
    }
}
