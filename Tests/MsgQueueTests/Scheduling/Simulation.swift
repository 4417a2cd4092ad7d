@testable import MsgQueue

/// The simulation kit's engine with a checker of each step, and a journal. (The kit's public `Simulation` has its own tests.)
final class Simulation: SimulationObserver {
    let options: Options
    let engine: SimulatedEngine
    var checker: PromiseChecker
    var journal: [(at: Int64, entry: JournalEntry)] = []
    /// The boot to which the times of `checker.pace` belong.
    var pacedBoot: Int64
    /// The number of drains that a restart ended without a report.
    var lostDrains = 0
    /// A violation that an input showed.
    var violation: Violation?

    /// The limits of a batch transport; nil: a transport for single messages.
    var limits: BatchLimits?

    init(_ options: Options = Options(), hasTransport: Bool = true, batches: BatchLimits? = nil) {
        self.options = options
        limits = batches
        engine = SimulatedEngine(options, at: Moment(wall: 1_700_000_000_000, mono: 5_000_000))
        checker = PromiseChecker(options)
        checker.pace.opened(engine.now)
        pacedBoot = engine.boot
        engine.observer = self
        if hasTransport {
            scheduler.transportChanged(present: true, batches: limits, now)
            checker.hasTransport = true
        }
    }

    convenience init(
        _ mode: Mode, direct: Bool = true, backoff: Backoff = .automatic, maxInFlight: Int = 1, _ change: (inout Options) -> Void = { _ in }
    ) {
        var options = Options(mode: mode, backoff: backoff, maxInFlight: maxInFlight)
        options.direct = direct
        change(&options)
        self.init(options)
    }

    func note(_ entry: JournalEntry) { journal.append((now.mono, entry)) }

    // MARK: Access to the engine

    var store: SimulatedStore {
        get { engine.store }
        _modify { yield &engine.store }
    }
    var core: Core {
        get { engine.core }
        _modify { yield &engine.core }
    }
    var scheduler: Scheduler {
        get { engine.scheduler }
        _modify { yield &engine.scheduler }
    }
    var now: Moment {
        get { engine.now }
        set { engine.now = newValue }
    }
    var boot: Int64 { engine.boot }
    var answersInCall: Bool {
        get { engine.answersInCall }
        set { engine.answersInCall = newValue }
    }
    var stepLimit: Int {
        get { engine.stepLimit }
        set { engine.stepLimit = newValue }
    }
    var storeIsBroken: Bool { engine.storeIsBroken }
    var storageUntil: Int64 { engine.storageRetryAt }
    var deadline: Int64? { engine.deadline }
    var hasStart: Bool { engine.hasStart }
    var late: Set<UInt64> { engine.late }
    var flights: [Flight] { engine.flights }
    var sendingSequences: Set<Int64> { engine.sendingSequences }

    /// Performs steps until nothing is due, or more than `starts` attempts would start. Returns the number of starts.
    @discardableResult
    func settle(starts most: Int = .max) throws -> Int {
        if let violation { throw violation }
        return try engine.runDueSteps(starts: most)
    }

    // MARK: Results

    /// The sequences in the order in which their attempts were started.
    var starts: [Int64] {
        journal.compactMap { if case .started(let sequence, _, _) = $0.entry { sequence } else { nil } }
    }

    var reports: [Report] {
        journal.compactMap { if case .drainFinished(let report) = $0.entry { report } else { nil } }
    }

    func count(_ entry: JournalEntry) -> Int { journal.count { $0.entry == entry } }

    var inFlight: [Int64] { flights.map(\.sequence) }

    /// Why a message is not sent yet, as the engine explains it.
    func explain(_ sequence: Int64) -> Explainer<SimulatedStore>.Answer? {
        guard let row = store[sequence]?.row else { return nil }
        return try? Explainer(scheduler, store, sending: sendingSequences, now).explain(row)
    }

    func wait(of sequence: Int64) -> Wait? { explain(sequence)?.wait }

    /// The text of the explanation.
    func text(of sequence: Int64) -> String? {
        explain(sequence).map {
            Words.explanation($0.wait, connected: $0.connected, now: now.wall, isAsking: scheduler.prompt.isAsking(now))
        }
    }

    func status(_ sequence: Int64) -> MessageStatus? {
        if inFlight.contains(sequence) { return .sending }
        return store[sequence]?.progress.status
    }

    /// Returns the last entries of the journal as text.
    func tail(_ lines: Int = 40) -> String {
        journal.suffix(lines).map { "  \($0.at) \($0.entry)" }.joined(separator: "\n")
    }

    // MARK: SimulationObserver

    func willStep() { checker.look(now) }

    func starts(_ message: SimulatedMessage, _ conversation: Name, _ hand: Hand) throws {
        try checker.starts(message, conversation, hand, self)
        note(.started(message.sequence, conversation, hand))
    }

    func calls(_ messages: [SimulatedMessage]) throws {
        note(.called(messages.map(\.sequence)))
        try checker.calls(messages, self)
    }

    func timesOut(_ flight: Flight) { note(.timedOut(flight.sequence)) }

    func skips(_ sequence: Int64) {
        note(.skipped(sequence))
        checker.skipped(sequence, self)
    }

    func ends(_ message: SimulatedMessage, _ resolution: Resolution) {
        note(.ended(message.sequence, resolution.fate))
        checker.ended(message, resolution, self)
    }

    func expires(_ message: SimulatedMessage) throws {
        try checker.expires(message, self)
        note(.expired(message.sequence))
    }

    func endsUnreachable(_ sequence: Int64, _ hand: Hand) throws {
        let conversation = store[sequence]?.conversation
        let isPaused = scheduler.isPaused || conversation.map(scheduler.pausedConversations.contains) ?? false
        guard checker.forced[sequence] == hand, !checker.isOnline || isPaused else {
            throw Violation("the request for message \(sequence) ended, by \(hand)")
        }
        checker.forced[sequence] = nil
    }

    func endedUnreachable(_ sequence: Int64, _ resolution: Resolution) {
        note(.unreachable(sequence, resolution.progress.status))
        checker.forced[sequence] = nil
        checker.retries[sequence] = nil
    }

    func finishes(_ report: Report) throws {
        try checker.finishes(report, self)
        note(.drainFinished(report))
    }

    func beginsNextDrain() { checker.nextDrainStarted(self) }

    func raisesPrompt() throws {
        try checker.raisesPrompt(self)
        note(.prompt)
    }

    func changesPrompt(_ prompt: Prompt) throws {
        try checker.changesPrompt(self)
        note(.promptChanged(prompt.messages))
    }

    func withdrawsPrompt() throws {
        try checker.withdrawsPrompt(self)
        note(.promptWithdrawn)
    }

    func reads(_ conversation: Name?, after sequence: Int64, rows: Int) { note(.read(conversation, after: sequence, rows: rows)) }

    func waits(until: Int64?) throws {
        if case .waiting = journal.last?.entry {} else { note(.waiting(until: until)) }
        try checker.waits(until: until, self)
    }

    func storeRecovered() { note(.storageWell) }

    func pauses() { note(.paused(nil, true)) }
}
