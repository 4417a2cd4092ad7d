@testable import MsgQueue

/// Knows the promises, and nothing of how the scheduler keeps them.
struct Judge {
    let options: Options
    /// For tests of what it knows nothing of: pauses, blocks, the background.
    var isAsleep = false
    var network = Network()
    var hasTransport = false
    var isClosing = false
    /// Automatic sending waits for these.
    var settledAt: Int64 = 0
    var pausedUntil: Int64 = 0
    /// Enqueued to go at once, and not attempted since.
    var direct: Set<Int64> = []
    /// Attempted in this run, and back by its timer.
    var asked: Set<Int64> = []
    /// Asked for by a person.
    var forced: [Int64: Hand] = [:]
    var session: Session?
    var promptUntil: Int64?
    /// A prompt was raised since there was a connection.
    var hasPrompted = false
    var wallJumpedAt = Int64.min / 2
    /// Messages that failed and will be tried again, by the monotonic clock.
    var retries: [Int64: Retry] = [:]

    struct Retry {
        let since: Int64
        let delay: Int64
    }

    struct Session {
        let batch: Int
        let deadline: Int64?
        var started = 0
        var isStopped = false
        var tally = Report()
    }

    init(_ options: Options) { self.options = options }

    private var isOnline: Bool { network.connectivity != .offline }

    // MARK: What is told

    mutating func enqueued(_ message: FakeMessage, isDirect: Bool, _ simulation: Simulation) {
        if isDirect { direct.insert(message.sequence) }
    }

    mutating func networkChanged(_ new: Network, _ simulation: Simulation) {
        let wasOnline = isOnline
        network = new
        guard isOnline else {
            direct = []
            asked = []
            return
        }
        pausedUntil = 0
        guard !wasOnline else { return }
        settledAt = simulation.now.mono + options.settle
        hasPrompted = promptUntil != nil
    }

    /// After a start: what is left of the delays, as the clock on the wall has it.
    mutating func opened(_ simulation: Simulation) {
        for message in simulation.store.all where message.progress.dueAt != 0 {
            let left = min(max(message.progress.dueAt - simulation.now.wall, 0), message.progress.dueDelay)
            retries[message.sequence] = Retry(since: simulation.now.mono, delay: left)
        }
    }

    mutating func drainStarted(batch: Int, timeout: Int64?, _ simulation: Simulation) {
        // It is the answer to a question that was not asked yet, too.
        if isOnline { hasPrompted = true }
        session = Session(batch: batch, deadline: timeout.map { simulation.now.mono + $0 })
        pausedUntil = 0
    }

    mutating func ended(_ message: FakeMessage, _ resolution: Resolution, _ simulation: Simulation) {
        if resolution.isOffline {
            pausedUntil = simulation.now.mono + Scheduler.offlinePause
            session?.isStopped = true
        } else if resolution.fate == .queued {
            asked.insert(message.sequence)
        }
        let delay = resolution.fate == .queued ? resolution.progress.dueDelay : 0
        retries[message.sequence] = delay > 0 ? Retry(since: simulation.now.mono, delay: delay) : nil
        switch resolution.fate {
        case .sent: session?.tally.sent += 1
        case .failed: session?.tally.failed += 1
        case .discarded: session?.tally.discarded += 1
        case .queued, .deleted: break
        }
    }

    // MARK: Leave

    /// The backlog may go.
    private func hasLeave(_ now: Moment) -> Bool {
        if let session, !session.isStopped, session.batch == 0 || session.started < session.batch { return true }
        return options.mode == .auto && now.mono >= settledAt && now.mono >= pausedUntil
    }

    /// Whether it is known that more may start: what goes by itself may be limited to a batch until the next trigger.
    private var hasBudget: Bool { options.drainBatch == 0 || session?.isStopped == false }

    /// It may be attempted: its retry's delay is over, by either clock.
    private func isDue(_ message: FakeMessage, _ now: Moment) -> Bool { !isDelayed(message, now) && message.notBefore <= now.wall }

    private func isDelayed(_ message: FakeMessage, _ now: Moment) -> Bool {
        // A time in the future beyond its own delay is none: the clock was set back.
        let left = message.progress.dueAt - now.wall
        guard let retry = retries[message.sequence], left > 0, left <= message.progress.dueDelay else { return false }
        return now.mono < retry.since + retry.delay
    }

    /// It must be attempted: a wall clock that jumps back never makes a message wait longer than its own delay.
    private func isOverdue(_ message: FakeMessage, _ now: Moment) -> Bool {
        guard isDue(message, now), let retry = retries[message.sequence], wallJumpedAt >= retry.since else { return isDue(message, now) }
        return now.mono >= retry.since + retry.delay
    }

    private func hasExpired(_ message: FakeMessage, _ now: Moment) -> Bool {
        message.expiresAt != 0 && message.expiresAt <= now.wall
    }

    /// Its own condition keeps a message: a time to come, a metered link. It holds nobody up.
    private func isKept(_ message: FakeMessage, _ now: Moment) -> Bool {
        guard !hasExpired(message, now) else { return false }
        if message.notBefore > now.wall || (message.unmeteredOnly && network.metered) { return true }
        return !options.strictOrder && isDelayed(message, now)
    }

    /// The message whose turn it is in a conversation.
    private func head(of conversation: Name, _ simulation: Simulation) -> FakeMessage? {
        for sequence in simulation.store.lanes[conversation] ?? [] {
            if let message = simulation.store[sequence], !isKept(message, simulation.now) { return message }
        }
        return nil
    }

    /// The heads of conversations that nothing of is under way, or waits for its call to return.
    private func heads(_ simulation: Simulation) -> [FakeMessage] {
        let taken = Set(simulation.scheduler.flights.values.map(\.conversation))
        let heads = simulation.store.lanes.keys.compactMap { taken.contains($0) ? nil : head(of: $0, simulation) }
        return heads.sorted { $0.sequence < $1.sequence }
    }

    private func mayGo(_ message: FakeMessage, _ now: Moment) -> Bool {
        isDue(message, now) && !hasExpired(message, now) && !(message.unmeteredOnly && network.metered)
    }

    /// Attempts under way, and those that timed out and whose calls hang: up to a ceiling, these take no slot.
    private func slots(_ simulation: Simulation) -> (open: Int, hung: Int) {
        let flights = simulation.scheduler.flights.values
        let hung = flights.count { $0.timedOut && $0.isRunning }
        return (flights.count - hung, hung)
    }

    private func slotsTaken(_ simulation: Simulation) -> Int {
        let (open, hung) = slots(simulation)
        return open + max(0, hung - Scheduler.hungCeiling)
    }

    // MARK: Attempts

    mutating func starts(_ message: FakeMessage, _ conversation: Name, _ hand: Hand, _ simulation: Simulation) throws {
        guard !isAsleep else { return }
        let now = simulation.now
        let what = "message \(message.sequence) of \(message.conversation.text)"
        func fail(_ why: String) -> Violation { Violation("\(what) was started \(why)") }
        guard conversation == message.conversation else { throw fail("in conversation \(conversation.text)") }
        guard isOnline else { throw fail("while offline") }
        guard hasTransport else { throw fail("without a transport") }
        guard !isClosing else { throw fail("while closing") }
        guard now.mono >= simulation.storageUntil else { throw fail("while the store was in trouble") }
        guard !simulation.sendingPlaces.contains(message.sequence) else { throw fail("while it was being sent") }
        for flight in simulation.scheduler.flights.values where flight.conversation == message.conversation {
            throw fail("beside message \(flight.sequence) of its conversation")
        }
        // What a person asks for does not wait for what the engine does by itself.
        let most = options.maxInFlight + (hand == .none ? 0 : Scheduler.slotsByHand)
        guard slotsTaken(simulation) < most else { throw fail("as number \(slotsTaken(simulation) + 1) of \(most)") }
        if hand == .none {
            try startsByItself(message, simulation, fail)
            session?.started += 1
        } else {
            guard forced[message.sequence] == hand else { throw fail("by \(hand), which nobody asked for") }
        }
        forced[message.sequence] = nil
        direct.remove(message.sequence)
    }

    private func startsByItself(_ message: FakeMessage, _ simulation: Simulation, _ fail: (String) -> Violation) throws {
        let now = simulation.now
        let leave = hasLeave(now)
        let returns = options.mode == .ask && asked.contains(message.sequence) && now.mono >= pausedUntil
        guard leave || direct.contains(message.sequence) || returns else { throw fail("without leave") }
        let head = head(of: message.conversation, simulation)?.sequence
        guard head == message.sequence || isAfterJump(now) else { throw fail("although \(head ?? 0) stands before it") }
        guard !hasExpired(message, now) else { throw fail("although it has expired") }
        guard !(message.unmeteredOnly && network.metered) else { throw fail("over a metered link") }
        guard isDue(message, now) || isAfterJump(now) else { throw fail("before its time") }
        guard leave, hasBudget else { return }
        // Oldest first, of all that may go.
        for head in heads(simulation) where head.sequence < message.sequence {
            guard !mayGo(head, now) || !isOverdue(head, now) || isAfterJump(now) else {
                throw fail("although \(head.sequence) of \(head.conversation.text) could go")
            }
        }
    }

    mutating func expires(_ message: FakeMessage, _ simulation: Simulation) throws {
        guard !isAsleep else { return }
        guard hasExpired(message, simulation.now) else { throw Violation("message \(message.sequence) expired too early") }
        session?.tally.failed += 1
        forced[message.sequence] = nil
    }

    /// A wall clock that jumped is noticed after a minute at the latest.
    private func isAfterJump(_ now: Moment) -> Bool { now.mono - wallJumpedAt < 2 * Scheduler.longestSleep }

    // MARK: The drain

    mutating func finishes(_ report: Report, _ simulation: Simulation) throws {
        guard !isAsleep else { return }
        guard let session else { throw Violation("a drain finished that was not asked for") }
        let now = simulation.now
        let open = slots(simulation).open
        let isRight =
            switch report.stop {
            case .empty: open == 0 && simulation.store.queued.isEmpty
            case .waiting: open == 0 && !simulation.store.queued.isEmpty
            case .offline: !isOnline || (session.isStopped && open == 0)
            case .batch: session.batch > 0 && session.started >= session.batch && open == 0
            case .timeout: session.deadline.map { $0 <= now.mono } ?? false
            case .storage: now.mono < simulation.storageUntil
            case .closed: isClosing
            case .paused, .started: false
            }
        guard isRight else { throw Violation("the drain says it stopped for \(report.stop)") }
        let tally = session.tally
        guard report.sent == tally.sent, report.failed == tally.failed, report.discarded == tally.discarded else {
            throw Violation("the drain reports \(report), but it was \(tally)")
        }
        if report.stop == .waiting, let head = startable(simulation) {
            throw Violation("the drain ended although message \(head.sequence) of \(head.conversation.text) could go")
        }
        self.session = nil
    }

    // MARK: The prompt

    mutating func raisesPrompt(_ simulation: Simulation) throws {
        guard !isAsleep else { return }
        let isBacklog = simulation.store.queued.contains { !direct.contains($0) }
        guard mayPrompt(simulation), isBacklog else { throw Violation("a prompt that is none") }
        guard promptUntil == nil else { throw Violation("a second prompt") }
        promptUntil = simulation.now.mono + options.promptTimeout
        hasPrompted = true
    }

    mutating func withdrawsPrompt(_ simulation: Simulation) throws {
        guard !isAsleep else { return }
        guard let until = promptUntil else { throw Violation("a prompt withdrawn that was not raised") }
        guard !stands(simulation, until) else { throw Violation("a prompt withdrawn without reason") }
        promptUntil = nil
    }

    private func stands(_ simulation: Simulation, _ until: Int64) -> Bool {
        isOnline && !simulation.store.queued.isEmpty && session == nil && !isClosing && simulation.now.mono < until
    }

    private func mayPrompt(_ simulation: Simulation) -> Bool {
        options.mode == .ask && !hasPrompted && isOnline && hasTransport && !isClosing && session == nil
            && simulation.now.mono >= settledAt && simulation.scheduler.flights.isEmpty
    }

    /// There is a conversation with nothing that goes by itself.
    private func shouldPrompt(_ simulation: Simulation) -> Bool {
        guard mayPrompt(simulation), simulation.now.mono >= simulation.storageUntil else { return false }
        return simulation.store.lanes.values.contains { lane in !lane.contains { direct.contains($0) || asked.contains($0) } }
    }

    // MARK: Rest

    /// A message that could go now: the scheduler must not wait.
    private func startable(_ simulation: Simulation) -> FakeMessage? {
        let now = simulation.now
        guard isOnline, hasTransport, !isClosing, now.mono >= simulation.storageUntil else { return nil }
        guard slotsTaken(simulation) < options.maxInFlight + Scheduler.slotsByHand else { return nil }
        let heads = heads(simulation)
        let taken = Set(simulation.scheduler.flights.values.map(\.conversation))
        for sequence in forced.keys.sorted() {
            if let message = simulation.store[sequence], !taken.contains(message.conversation) { return message }
        }
        guard slotsTaken(simulation) < options.maxInFlight else { return nil }
        if let session, session.batch > 0, session.started >= session.batch { return nil }
        let leave = hasLeave(now) && hasBudget
        return heads.first { head in
            mayGo(head, now) && isOverdue(head, now) && (leave || (direct.contains(head.sequence) && head.isPlain))
        }
    }

    func waits(until: Int64?, _ simulation: Simulation) throws {
        guard !isAsleep else { return }
        let now = simulation.now
        if let until, until <= now.mono { throw Violation("it waits for a time that has passed") }
        for flight in simulation.scheduler.flights.values where !flight.isEnded && flight.deadline <= now.mono {
            throw Violation("the attempt of message \(flight.sequence) does not time out")
        }
        if let session {
            guard isOnline else { throw Violation("a drain goes on while offline") }
            guard slots(simulation).open > 0 else { throw Violation("a drain has nothing under way and no report") }
            if let deadline = session.deadline, deadline <= now.mono { throw Violation("a drain goes on beyond its time") }
        }
        if let until = promptUntil, !stands(simulation, until) { throw Violation("a prompt is not withdrawn") }
        if shouldPrompt(simulation) { throw Violation("no prompt is raised") }
        if let message = startable(simulation), !isAfterJump(now) || retries[message.sequence] != nil {
            throw Violation("message \(message.sequence) of \(message.conversation.text) could go, but nothing happens")
        }
        guard now.mono >= simulation.storageUntil, hasLeave(now), isOnline, hasTransport, !isClosing, !isAfterJump(now) else { return }
        guard slotsTaken(simulation) < options.maxInFlight else { return }
        if let session, session.batch > 0, session.started >= session.batch { return }
        guard hasBudget else { return }
        for head in heads(simulation) where hasExpired(head, now) && isOverdue(head, now) {
            throw Violation("message \(head.sequence) has expired, but nothing happens")
        }
    }
}
