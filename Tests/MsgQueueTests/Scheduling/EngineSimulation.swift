@testable import MsgQueue

/// The engine itself over a store in memory, in virtual time. A test makes each input and answers each attempt; nothing else happens.
///
/// Its messages have the ids `m1`, `m2` and so on, by their sequences.
final class EngineSimulation {
    let options: Options
    /// The limits of a batch transport; nil: a transport for single messages.
    private let limits: BatchLimits?
    private var clock: SimulatedClock
    private let disk = SimulatedDisk()
    private var process: SimulatedProcess
    private var ended: [SimulatedProcess] = []
    private var hasTransport: Bool
    /// The calls of the transport hang until `answer` or `returnCall`. Otherwise they return and leave their attempts pending.
    var answersInCall = false
    private var hangingCalls: [CallQueue.Call] = []
    private var network: Network?
    private let journal: Journal
    /// An unexpected error of a call, which the next `settle` throws.
    private var failure: (any Error)?
    /// The ids of the messages by their sequences.
    private var ids: [Int64: String] = [:]
    /// The number of messages enqueued with a key.
    private var keyed = 0

    init(_ options: Options = Options(), hasTransport: Bool = true, batches: BatchLimits? = nil) throws {
        self.options = options
        self.hasTransport = hasTransport
        limits = batches
        let clock = SimulatedClock(start: 1_700_000_000_000, seed: 1)
        self.clock = clock
        journal = Journal(options, clock)
        process = try SimulatedProcess(options, clock, disk)
        try begin()
    }

    convenience init(
        _ mode: Mode, direct: Bool = true, backoff: Backoff = .automatic, maxInFlight: Int = 1, _ change: (inout Options) -> Void = { _ in }
    ) throws {
        var options = Options(mode: mode, backoff: backoff, maxInFlight: maxInFlight)
        options.direct = direct
        change(&options)
        try self.init(options)
    }

    deinit { for process in ended + [process] { process.dispose() } }

    // MARK: The process

    private func begin() throws(QueueError) {
        process.observe(journal)
        journal.judge.opened(now)
        if hasTransport { try register() }
        if let network { try engine.setNetwork(network) }
    }

    /// Ends the process as SIGKILL does, and opens the store in another one.
    func restart(hasTransport: Bool = true) {
        process.kill()
        ended.append(process)
        self.hasTransport = hasTransport
        perform { () throws(QueueError) in
            process = try SimulatedProcess(options, clock, disk)
            try begin()
        }
    }

    /// Switches the machine off for a number of milliseconds of the wall clock, which may have been set meanwhile.
    func reboot(after milliseconds: Int64) {
        clock = SimulatedClock(start: now.wall + milliseconds, mono: 1_000, seed: 1)
        journal.clock = clock
        restart()
    }

    /// Makes a call that is expected to succeed.
    private func perform(_ call: () throws(QueueError) -> Void) {
        do throws(QueueError) { try call() } catch { if failure == nil { failure = error } }
    }

    /// Adds messages that an earlier process left.
    func preload(_ conversations: [Name], _ change: (inout SimulatedMessage) -> Void = { _ in }) {
        let (network, hadTransport) = (network, hasTransport)
        self.network = Network(connectivity: .offline)
        restart(hasTransport: false)
        enqueue(conversations, change)
        self.network = network
        restart(hasTransport: hadTransport)
    }

    var engine: Engine { process.engine }
    private var context: EngineContext { engine.context }
    var now: Moment { clock.now }

    func advance(_ milliseconds: Int64) { clock.move(to: now.mono + milliseconds) }

    /// Sets the wall clock. The kernel may report that or not (the clock of a host, in a virtual machine).
    func jumpWallClock(_ milliseconds: Int64, isReported: Bool = false) {
        clock.set(wall: now.wall + milliseconds)
        if isReported { scheduler.clockSet(now) }
    }

    /// Performs what is due, until nothing is or `most` attempts have started. Returns the number of starts.
    @discardableResult
    func settle(starts most: Int = .max) throws -> Int {
        if let failure = failure ?? journal.violation { throw failure }
        let before = starts.count
        context.lock.withLock {
            while starts.count - before < most { guard answersInCall ? beginHangingCall() : engine.driver.runCallback() else { return } }
            engine.driver.runDueSteps()
        }
        return starts.count - before
    }

    /// Begins a call that hangs. Returns false if none is due.
    private func beginHangingCall() -> Bool {
        engine.driver.runDueSteps()
        guard context.hasStart, let call = engine.driver.nextCall() else {
            engine.driver.runDueSteps()
            return context.hasStart
        }
        hangingCalls.append(call)
        journal.called(call.attempts.map(\.flight))
        return true
    }

    /// Performs what is due and answers, until no attempt is in progress.
    func run(_ answer: (Int64) -> Outcome = { _ in .sent }) throws {
        for _ in 0..<100_000 {
            try settle()
            guard let sequence = inFlight.first else { return }
            try self.answer(sequence, answer(sequence))
        }
        throw Violation("the simulation does not end")
    }

    // MARK: Messages

    /// Enqueues in one commit. Returns the sequences.
    @discardableResult
    func enqueue(
        _ conversations: [Name], key: String? = nil, _ change: (inout SimulatedMessage) -> Void = { _ in }
    ) -> [Int64] {
        let first = context.lock.withLock { context.store.state.lastSequence } + 1
        let drafts = conversations.enumerated().map { place, conversation in
            var message = SimulatedMessage(sequence: first + Int64(place), id: "m\(first + Int64(place))", conversation: conversation)
            change(&message)
            // A message has an id of its own also in the place of another.
            keyed += key == nil ? 0 : 1
            return draft(message, id: key == nil ? message.id : "\(message.id)-\(keyed)", key)
        }
        perform { () throws(QueueError) in
            _ = try MessageQueue.Draft.withBorrowed(drafts) { batch throws(QueueError) in try engine.enqueue(batch) }
        }
        // With a key the next one may have taken its place.
        let messages = drafts.compactMap { draft in draft.id.flatMap { try? engine.message(id: $0) } }
        for message in messages { ids[message.sequence] = message.id }
        return messages.map(\.sequence)
    }

    private func draft(_ message: SimulatedMessage, id: String, _ key: String?) -> MessageQueue.Draft {
        func time(_ wall: Int64) -> MessageQueue.Timestamp? { wall == 0 ? nil : .init(millisecondsSince1970: wall) }
        return MessageQueue.Draft(
            message.body, conversation: message.conversation.text, id: id, notBefore: time(message.notBefore),
            expiresAt: time(message.expiresAt), unmeteredOnly: message.unmeteredOnly, replaceKey: key, priority: Int(message.priority))
    }

    @discardableResult
    func enqueue(
        _ conversation: Name, count: Int = 1, key: String? = nil, _ change: (inout SimulatedMessage) -> Void = { _ in }
    ) -> [Int64] {
        enqueue(Array(repeating: conversation, count: count), key: key, change)
    }

    private func id(_ sequence: Int64) -> String { ids[sequence] ?? "m\(sequence)" }

    /// Returns the error; nil: the call succeeded.
    private func code(_ call: () throws(QueueError) -> Void) -> QueueError.Code? {
        do throws(QueueError) { try call() } catch { return error.code }
        return nil
    }

    @discardableResult
    func sendNow(_ sequence: Int64) -> QueueError.Code? { code { () throws(QueueError) in try engine.sendNow(id(sequence)) } }

    @discardableResult
    func retry(_ sequence: Int64) -> QueueError.Code? { code { () throws(QueueError) in try engine.retry(id(sequence)) } }

    @discardableResult
    func delete(_ sequence: Int64) -> QueueError.Code? { code { () throws(QueueError) in try engine.delete(id(sequence)) } }

    func clear(_ conversation: Name? = nil) { perform { () throws(QueueError) in try engine.clear(conversation?.text) } }

    /// Returns the number of messages that were put back.
    @discardableResult
    func retryAll(_ conversation: Name? = nil) -> Int { (try? engine.retryAll(conversation?.text)).map { Int($0) } ?? 0 }

    /// Answers the attempt of this message, which is in flight.
    func answer(_ sequence: Int64, _ outcome: Outcome) throws {
        guard let flight = flights.first(where: { $0.sequence == sequence }) else {
            throw Violation("message \(sequence) is not in flight")
        }
        guard returnCall(flight.token, outcome) else { return try engine.complete(flight.token, outcome) }
    }

    /// Returns a hanging call with an outcome for this attempt, and none for the others. Returns false if there is no such call.
    @discardableResult
    func returnCall(_ token: UInt64, _ outcome: Outcome?) -> Bool {
        guard let place = hangingCalls.firstIndex(where: { $0.contains(token) }) else { return false }
        let call = hangingCalls.remove(at: place)
        for attempt in call.attempts { journal.returns[attempt.flight.token] = .pending }
        journal.returns[token] = outcome ?? .pending
        context.lock.withLock { engine.attempts.make(call) { engine.writes.commit() } }
        return true
    }

    /// Answers after the time-out.
    func answerLate(_ token: UInt64, _ outcome: Outcome) { try? engine.complete(token, outcome) }

    /// Attempts that have ended but whose calls have not returned.
    var hanging: [Flight] { scheduler.flights.values.filter { $0.isEnded && $0.isRunning }.sorted { $0.token < $1.token } }

    // MARK: The environment

    func setTransport(_ isPresent: Bool) {
        hasTransport = isPresent
        perform { () throws(QueueError) in if isPresent { try register() } else { try engine.setTransport(nil) } }
    }

    private func register() throws(QueueError) {
        let (context, journal) = (context, journal)
        let call: BatchTransportFunction = { deliveries in
            context.lock.withLock {
                let tokens = deliveries.map(\.token).filter { journal.returns[$0] == nil }
                journal.called(tokens.compactMap { context.core.scheduler.flights[$0] })
            }
            return deliveries.map { journal.returns[$0.token] ?? .pending }
        }
        guard let limits else {
            let single: TransportFunction = { call([$0]).first ?? .pending }
            return try engine.setTransport(Registration(single))
        }
        try engine.setTransport(Registration(batches: limits, call))
    }

    func setNetwork(_ connectivity: Connectivity, metered: Bool = false) {
        let new = Network(connectivity: connectivity, link: .other, metered: metered)
        network = new
        perform { () throws(QueueError) in try engine.setNetwork(new) }
    }

    func goOffline() { setNetwork(.offline) }
    func goOnline(metered: Bool = false) { setNetwork(.online, metered: metered) }

    func setBackground(_ isInBackground: Bool) {
        perform { () throws(QueueError) in try engine.setLifecycle(isInBackground: isInBackground) }
    }

    func pause(_ conversation: Name? = nil) { perform { () throws(QueueError) in try engine.pause(conversation?.text) } }
    func resume(_ conversation: Name? = nil) { perform { () throws(QueueError) in try engine.resume(conversation?.text) } }
    func close() { scheduler.closing() }
    func breakStore() { disk.fate = { _, _ in .refused } }
    func mendStore() { disk.fate = { _, _ in .stored } }

    /// Returns false when it joined another drain, or there is no transport.
    @discardableResult
    func drain(_ conversation: Name? = nil, batch: Int = 0, timeout: Int64? = nil) -> Bool {
        guard hasTransport else { return false }
        let before = scheduler.gate.drains.count
        perform { () throws(QueueError) in try engine.drain(conversation?.text, batch: batch, timeout: timeout) { _ in } }
        return scheduler.gate.drains.count > before
    }

    // MARK: Results

    var scheduler: Scheduler {
        get { context.lock.withLock { context.core.scheduler } }
        set { context.lock.withLock { context.core.scheduler = newValue } }
    }
    var core: Core {
        get { context.lock.withLock { context.core } }
        set { context.lock.withLock { context.core = newValue } }
    }
    var hasStart: Bool { context.lock.withLock { context.hasStart } }
    /// When the scheduler waits for a time (monotonic); nil: it waits for an input.
    var deadline: Int64? { context.lock.withLock { engine.driver.stepAt == Int64.max ? nil : engine.driver.stepAt } }
    /// The attempts without an outcome, oldest first.
    var flights: [Flight] { scheduler.flights.values.filter { !$0.isEnded }.sorted { $0.token < $1.token } }
    var inFlight: [Int64] { flights.map(\.sequence) }
    /// The sequences in the order in which their attempts were started.
    var starts: [Int64] { journal.entries.compactMap { if case .started(let sequence, _, _) = $0.entry { sequence } else { nil } } }
    var reports: [Report] { journal.entries.compactMap { if case .drainFinished(let report) = $0.entry { report } else { nil } } }
    /// The queued messages, in order.
    var queued: [Int64] {
        queued(after: 0, limit: 1_000_000).map(\.head.sequence)
    }

    /// When the attempts started (monotonic).
    var startTimes: [Int64] { journal.entries.compactMap { if case .started = $0.entry { $0.at } else { nil } } }

    func count(_ entry: JournalEntry) -> Int { journal.entries.count { $0.entry == entry } }

    func status(_ sequence: Int64) -> MessageStatus? { try? engine.message(id: id(sequence)).status }

    func queued(after sequence: Int64, limit: Int) -> [(conversation: Name, head: Head)] {
        (try? context.lock.withLock { () throws(QueueError) in try context.store.queue.queued(after: sequence, limit: limit) }) ?? []
    }

    func row(_ sequence: Int64) -> Row? { context.lock.withLock { (try? context.store.messages.row(at: sequence, .none)) ?? nil } }

    /// Why a message is not sent yet.
    func explain(_ sequence: Int64) -> Explainer<QueueIndex>.Answer? {
        guard let row = row(sequence) else { return nil }
        return context.lock.withLock {
            try? Explainer(context.core.scheduler, context.store.queue, sending: engine.writes.sendingSequences, now).explain(row)
        }
    }

    func wait(of sequence: Int64) -> Wait? { explain(sequence)?.wait }

    /// The text of the explanation.
    func text(of sequence: Int64) -> String? { try? engine.explain(id(sequence)).text }
}

/// What an engine did.
private final class Journal: EventObserver, @unchecked Sendable {
    var entries: [(at: Int64, entry: JournalEntry)] = []
    var judge: PaceJudge
    /// What the transport must not have been called with.
    var violation: (any Error)?
    var clock: SimulatedClock

    /// Tokens of hanging calls, which were noted before, and how they return.
    var returns: [UInt64: Outcome] = [:]

    init(_ options: Options, _ clock: SimulatedClock) { (judge, self.clock) = (PaceJudge(options), clock) }

    func note(_ entry: JournalEntry) { entries.append((clock.now.mono, entry)) }

    /// The transport is called.
    func called(_ flights: [Flight]) {
        for flight in flights { note(.started(flight.sequence, flight.conversation, flight.hand)) }
        guard !judge.hasRamp else { return }
        do { try judge.calls(flights.count, clock.now) } catch { violation = error }
    }

    func receive(_ event: Event, at: Int64) {
        switch event {
        case .drainFinished(let report): note(.drainFinished(report))
        case .prompt: note(.prompt)
        case .promptChanged(let prompt): note(.promptChanged(prompt.messages))
        case .promptWithdrawn: note(.promptWithdrawn)
        case .paused(let conversation, let isPaused, _): note(.paused(conversation.map { Name($0) }, isPaused))
        case .status(let change) where change.failure?.kind == .timeout:
            if let sequence = Int64(change.id.dropFirst().prefix { $0 != "-" }) { note(.timedOut(sequence)) }
        default: break
        }
    }

    func countsChanged() {}
}
