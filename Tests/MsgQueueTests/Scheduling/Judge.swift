import MsgQueueSimulation

@testable import MsgQueue

/// Knows the promises, and nothing of how the scheduler keeps them. Of the scheduler it reads only what it was told (paused, in the
/// background, asked to wait) and what is under way.
struct Judge {
    let options: Options
    /// For tests that judge for themselves.
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
    /// Left by a drain behind one that comes back: they may follow it.
    var following: Set<Int64> = []
    /// Asked for by a person.
    var forced: [Int64: Hand] = [:]
    var session: Session?
    var pending: [Session] = []
    /// Retried together, and not attempted since.
    var putBack: Set<Int64> = []
    var promptUntil: Int64?
    /// A prompt was raised since there was a connection.
    var hasPrompted = false
    var wallJumpedAt = Int64.min / 2
    /// Messages that failed and will be tried again, by the monotonic clock.
    var retries: [Int64: Retry] = [:]

    /// When the network last came back and stayed.
    var returnedAt = Int64.min

    struct Retry {
        let since: Int64
        let delay: Int64
        /// It ends when the network returns.
        let isForNetwork: Bool
    }

    struct Session {
        var conversation: Name?
        let batch: Int
        let deadline: Int64?
        var started = 0
        var isStopped = false
        var tally = Report()

        var hasBatchLeft: Bool { batch == 0 || started < batch }

        func serves(_ name: Name) -> Bool { conversation == nil || conversation == name }
    }

    init(_ options: Options) { self.options = options }

    var isOnline: Bool { network.connectivity != .offline }

    // MARK: What is told

    mutating func enqueued(_ message: SimulatedMessage, isDirect: Bool, _ simulation: Simulation) {
        if isDirect { direct.insert(message.sequence) }
    }

    mutating func networkChanged(_ new: Network, _ simulation: Simulation) {
        let wasOnline = isOnline
        if wasOnline { look(simulation.now) }
        network = new
        guard isOnline else {
            direct = []
            (asked, following) = ([], [])
            putBack = []
            settledAt = 0
            return
        }
        pausedUntil = 0
        guard !wasOnline else { return }
        settledAt = simulation.now.mono + options.onlineDebounce
        hasPrompted = promptUntil != nil
    }

    /// The network that came back has stayed.
    mutating func look(_ now: Moment) {
        guard settledAt != 0, settledAt <= now.mono, isOnline else { return }
        returnedAt = max(returnedAt, settledAt)
    }

    /// After a start: what is left of the delays, exactly in the same boot, and else as the clock on the wall has it.
    mutating func opened(_ simulation: Simulation) {
        for message in simulation.store.all where message.progress.dueAt != 0 {
            let progress = message.progress
            let left =
                progress.dueBoot == simulation.boot
                ? max(progress.dueUptime - simulation.now.mono, 0)
                : min(max(progress.dueAt - simulation.now.wall, 0), progress.dueDelay)
            retries[message.sequence] = Retry(
                since: simulation.now.mono, delay: left, isForNetwork: progress.waitsForNetwork)
        }
    }

    /// The person is back: what was asked before may be asked again.
    mutating func broughtToForeground() {
        pausedUntil = 0
        hasPrompted = promptUntil != nil
    }

    mutating func drainStarted(_ new: Session, _ simulation: Simulation) {
        session = new
        guard new.conversation == nil else { return }
        // It is the answer to a question that was not asked yet, too.
        if isOnline { hasPrompted = true }
        pausedUntil = 0
    }

    mutating func nextDrainStarted(_ simulation: Simulation) {
        if !pending.isEmpty { drainStarted(pending.removeFirst(), simulation) }
    }

    mutating func ended(_ message: SimulatedMessage, _ resolution: Resolution, _ simulation: Simulation) {
        if resolution.isOffline {
            pausedUntil = simulation.now.mono + Scheduler.offlineHold
            if session?.serves(message.conversation) == true { session?.isStopped = true }
            putBack = []
            asked.remove(message.sequence)
        } else if resolution.fate == .queued {
            asked.insert(message.sequence)
        }
        let delay = resolution.fate == .queued ? resolution.progress.dueDelay : 0
        retries[message.sequence] =
            delay > 0
            ? Retry(since: simulation.now.mono, delay: delay, isForNetwork: resolution.progress.waitsForNetwork) : nil
        guard session?.serves(message.conversation) == true else { return }
        switch resolution.fate {
        case .sent: session?.tally.sent += 1
        case .failed: session?.tally.failed += 1
        case .discarded: session?.tally.discarded += 1
        case .queued, .deleted: break
        }
    }

    // MARK: Leave

    /// Whether anything may start at all.
    func mayStart(_ simulation: Simulation) -> Bool {
        isOnline && hasTransport && !isClosing && !simulation.scheduler.isPaused && simulation.now.mono >= simulation.storageUntil
    }

    /// In the background the engine does nothing by itself, unless it is told to.
    private func isAwake(_ simulation: Simulation) -> Bool { !simulation.scheduler.isInBackground || options.sendInBackground }

    /// A receiver asked the whole queue to wait.
    func isLimited(_ simulation: Simulation) -> Bool { simulation.now.mono < simulation.scheduler.receiverHoldUntil }

    /// The backlog may go.
    func hasLeave(_ conversation: Name, _ simulation: Simulation) -> Bool {
        guard !isLimited(simulation) else { return false }
        if let session, session.serves(conversation), !session.isStopped, session.hasBatchLeft { return true }
        return goesByItself(simulation)
    }

    /// The engine sends by itself, as far as the batch goes.
    func goesByItself(_ simulation: Simulation) -> Bool {
        let now = simulation.now.mono
        guard !isLimited(simulation) else { return false }
        return options.mode == .auto && isAwake(simulation) && now >= settledAt && now >= pausedUntil
    }

    /// Whether it is known that more may start: what goes by itself may be limited to a batch until the next trigger.
    func hasBudget(_ message: SimulatedMessage) -> Bool {
        if options.drainBatch == 0 || session?.isStopped == false && session?.serves(message.conversation) == true { return true }
        // What the ladder has led to is limited by no batch.
        return options.mode == .auto && message.progress.dueAt != 0
    }

    /// It comes back by its own timer.
    func returns(_ message: SimulatedMessage, _ simulation: Simulation) -> Bool {
        options.mode == .ask && asked.contains(message.sequence) && simulation.now.mono >= pausedUntil && isAwake(simulation)
    }

    // MARK: Messages

    /// It may be attempted: its retry's delay is over, whatever was done to the wall clock.
    func isDue(_ message: SimulatedMessage, _ now: Moment) -> Bool { !isDelayed(message, now) && message.notBefore <= now.wall }

    func isDelayed(_ message: SimulatedMessage, _ now: Moment) -> Bool {
        guard message.progress.dueAt != 0, let retry = retries[message.sequence] else { return false }
        if retry.isForNetwork, retry.since <= returnedAt { return false }
        return now.mono < retry.since + retry.delay
    }

    func hasExpired(_ message: SimulatedMessage, _ now: Moment) -> Bool {
        message.expiresAt != 0 && !message.progress.ignoresExpiry && message.expiresAt <= now.wall
    }

    func isMetered(_ message: SimulatedMessage) -> Bool { network.metered && (message.unmeteredOnly || options.unmeteredOnly) }

    /// Its own condition keeps a message: a time to come, a metered link. It holds nobody up.
    func isKept(_ message: SimulatedMessage, _ now: Moment) -> Bool {
        guard !hasExpired(message, now) else { return false }
        if message.notBefore > now.wall || isMetered(message) { return true }
        return !options.strictOrder && isDelayed(message, now)
    }

    func mayGo(_ message: SimulatedMessage, _ now: Moment) -> Bool {
        isDue(message, now) && !hasExpired(message, now) && !isMetered(message)
    }

    /// A failure for good before it holds it, where that is the rule.
    func isBlocked(_ message: SimulatedMessage, _ simulation: Simulation) -> Bool {
        guard options.finalFailure == .block, let failed = simulation.store.firstFailed(in: message.conversation) else { return false }
        return failed < message.sequence
    }

    /// The message whose turn it is in a conversation.
    func head(of conversation: Name, _ simulation: Simulation) -> SimulatedMessage? {
        for sequence in simulation.store.lanes[conversation] ?? [] {
            if let message = simulation.store[sequence], !isKept(message, simulation.now) { return message }
        }
        return nil
    }

    /// Conversations in which something is under way, or a call has not come back, or that are paused.
    func closed(_ simulation: Simulation) -> Set<Name> {
        simulation.scheduler.pausedConversations.union(simulation.scheduler.flights.values.map(\.conversation))
    }

    /// The heads of the others that nothing blocks, oldest first.
    func heads(_ simulation: Simulation) -> [SimulatedMessage] {
        let closed = closed(simulation)
        let heads = simulation.store.lanes.keys.compactMap { closed.contains($0) ? nil : head(of: $0, simulation) }
        return heads.filter { !isBlocked($0, simulation) }.sorted { $0.sequence < $1.sequence }
    }

    // MARK: Slots

    /// Attempts under way, and those that timed out and whose calls hang: up to a ceiling, these take no slot.
    func slots(_ simulation: Simulation) -> (open: Int, hung: Int) {
        let flights = simulation.scheduler.flights.values
        let hung = flights.count { $0.timedOut && $0.isRunning }
        return (flights.count - hung, hung)
    }

    func slotsTaken(_ simulation: Simulation) -> Int {
        let (open, hung) = slots(simulation)
        return open + max(0, hung - Scheduler.hungCeiling)
    }

    /// A wall clock that jumped is noticed after a minute at the latest.
    func isAfterJump(_ now: Moment) -> Bool { now.mono - wallJumpedAt < 2 * Scheduler.longestSleep }
}
