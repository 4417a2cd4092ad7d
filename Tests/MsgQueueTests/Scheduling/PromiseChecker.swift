@testable import MsgQueue

/// Checks the promises independently of the scheduler's algorithm. It reads only inputs of the scheduler (paused, in the background,
/// delayed by a receiver) and the attempts in progress.
struct PromiseChecker {
    let options: Options
    /// True for tests with checks of their own.
    var isDisabled = false
    var network = Network()
    var hasTransport = false
    var isClosing = false
    /// Automatic sending begins after both.
    var settledAt: Int64 = 0
    var pausedUntil: Int64 = 0
    /// Messages enqueued as direct ones and not attempted since.
    var direct: Set<Int64> = []
    /// Messages attempted since the connection, whose retries run by timer in mode ask.
    var asked: Set<Int64> = []
    /// Messages that a drain left behind one that is queued for a retry; they may follow it.
    var following: Set<Int64> = []
    /// Requests on demand.
    var forced: [Int64: Hand] = [:]
    var session: Session?
    var pending: [Session] = []
    /// Messages that retry_all put back, not attempted since.
    var putBack: Set<Int64> = []
    var promptUntil: Int64?
    /// Whether a prompt was raised since the connection.
    var hasPrompted = false
    /// When the prompt was raised or changed last.
    var promptChangedAt = Int64.min / 2
    var wallJumpedAt = Int64.min / 2
    /// Messages that are queued for a retry, with times of the monotonic clock.
    var retries: [Int64: Retry] = [:]

    /// What a start changed, which a skip undoes; by sequence.
    var begun: [Int64: Begun] = [:]
    /// Skipped messages are not sent before this (monotonic), unless the scheduler read them again.
    var skips: [Int64: Int64] = [:]
    /// Attempts that have ended.
    var outcomes = 0

    var pace: PaceJudge
    var turns = Turns()

    /// When the network last returned and lasted.
    var returnedAt = Int64.min

    struct Retry {
        let since: Int64
        let delay: Int64
        /// The delay ends when the network returns.
        let isForNetwork: Bool
    }

    struct Begun {
        var wasDirect = false
        var wasPutBack = false
        /// It was counted against the batch of the drain.
        var isCounted = false
        var outcomes = 0
    }

    struct Session {
        var conversation: Name?
        let batch: Int
        var deadline: Int64?
        var started = 0
        var isStopped = false
        var tally = Report()

        var hasBatchLeft: Bool { batch == 0 || started < batch }

        func serves(_ name: Name) -> Bool { conversation == nil || conversation == name }
    }

    init(_ options: Options) { (self.options, pace) = (options, PaceJudge(options)) }

    var isOnline: Bool { network.connectivity != .offline }

    // MARK: Inputs

    mutating func enqueued(_ message: SimulatedMessage, isDirect: Bool, _ simulation: Simulation) {
        if isDirect { direct.insert(message.sequence) }
    }

    /// A queued message was replaced or dropped.
    mutating func removed(_ sequence: Int64) {
        forced[sequence] = nil
        putBack.remove(sequence)
        retries[sequence] = nil
    }

    mutating func networkChanged(_ new: Network, _ simulation: Simulation) {
        let wasOnline = isOnline
        if wasOnline { look(simulation.now) }
        network = new
        guard isOnline else {
            direct = []
            for sequence in Array(begun.keys) {
                begun[sequence]?.wasDirect = false
                begun[sequence]?.wasPutBack = false
            }
            (asked, following) = ([], [])
            putBack = []
            settledAt = 0
            return
        }
        pausedUntil = 0
        guard !wasOnline else { return }
        settledAt = simulation.now.mono + options.onlineDebounce
        pace.interrupted()
        hasPrompted = promptUntil != nil
    }

    /// Records that the network that returned has lasted.
    mutating func look(_ now: Moment) {
        guard settledAt != 0, settledAt <= now.mono, isOnline else { return }
        returnedAt = max(returnedAt, settledAt)
    }

    /// Computes the rest of each delay after a start: exactly in the same boot, otherwise by the wall clock.
    mutating func opened(_ simulation: Simulation) {
        pace.opened(simulation.now)
        if !simulation.store.queued.isEmpty { pace.interrupted() }
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

    /// After a return to the foreground a prompt may be raised again.
    mutating func broughtToForeground() {
        pausedUntil = 0
        hasPrompted = promptUntil != nil
    }

    /// A drain of `conversation` joins one that includes it, and that goes on for as long as it waits.
    mutating func drainJoined(_ conversation: Name?, deadline: Int64?) {
        func extended(_ old: Session) -> Session {
            var new = old
            new.deadline = old.deadline.flatMap { old in deadline.map { max(old, $0) } }
            return new
        }
        func includes(_ other: Session) -> Bool { other.conversation == nil || other.conversation == conversation }
        if let current = session, includes(current) {
            session = extended(current)
        } else if let place = pending.firstIndex(where: includes) {
            pending[place] = extended(pending[place])
        }
    }

    mutating func drainStarted(_ new: Session, _ simulation: Simulation) {
        session = new
        guard new.conversation == nil else { return }
        // A drain also answers a prompt that was not raised yet.
        if isOnline { hasPrompted = true }
        pausedUntil = 0
    }

    mutating func nextDrainStarted(_ simulation: Simulation) {
        if !pending.isEmpty { drainStarted(pending.removeFirst(), simulation) }
    }

    /// The transport skipped a message: as if its attempt had not begun. It waits a second if no attempt has ended meanwhile.
    mutating func skipped(_ sequence: Int64, _ simulation: Simulation) {
        guard let start = begun.removeValue(forKey: sequence) else { return }
        if start.wasDirect { direct.insert(sequence) }
        if start.wasPutBack { putBack.insert(sequence) }
        if start.isCounted { session?.started -= 1 }
        if start.outcomes == outcomes { skips[sequence] = simulation.now.mono + 1_000 }
        // The scheduler's count of turns includes the attempt.
        turns.isUncertain = true
    }

    mutating func ended(_ message: SimulatedMessage, _ resolution: Resolution, _ simulation: Simulation) {
        outcomes += 1
        begun[message.sequence] = nil
        if resolution.isOffline {
            pausedUntil = simulation.now.mono + Scheduler.offlineHold
            pace.interrupted()
            if session?.serves(message.conversation) == true { session?.isStopped = true }
            putBack = []
            asked.remove(message.sequence)
        } else if resolution.fate == .queued {
            asked.insert(message.sequence)
        } else {
            // A retry by hand is not one by timer.
            asked.remove(message.sequence)
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

    // MARK: Permissions

    /// Whether any attempt may start.
    func mayStart(_ simulation: Simulation) -> Bool {
        isOnline && hasTransport && !isClosing && !simulation.scheduler.gate.pauses.isPaused
            && simulation.now.mono >= simulation.storageUntil
    }

    /// Whether automatic sending is allowed in the current lifecycle.
    func isAwake(_ simulation: Simulation) -> Bool { !simulation.scheduler.gate.isInBackground || options.sendInBackground }

    /// Whether a receiver delays the whole queue.
    func isLimited(_ simulation: Simulation) -> Bool { simulation.scheduler.gate.isHeldByReceiver(simulation.now) }

    /// Whether the backlog of a conversation may be sent.
    func maySendBacklog(_ conversation: Name, _ simulation: Simulation) -> Bool { backlogPermission(simulation)(conversation) }

    /// The same, for many conversations at one moment.
    func backlogPermission(_ simulation: Simulation) -> (Name) -> Bool {
        guard !isLimited(simulation) else { return { _ in false } }
        let sendsAll = sendsAutomatically(simulation)
        guard let session, !session.isStopped, session.hasBatchLeft else { return { _ in sendsAll } }
        return { sendsAll || session.serves($0) }
    }

    /// Whether the engine sends automatically, within the batch.
    func sendsAutomatically(_ simulation: Simulation) -> Bool {
        let now = simulation.now.mono
        guard !isLimited(simulation) else { return false }
        return options.mode == .auto && isAwake(simulation) && now >= settledAt && now >= pausedUntil
    }

    /// Whether more attempts may certainly start: automatic ones may be limited to a batch until the next trigger.
    func hasBudget(_ message: SimulatedMessage, _ simulation: Simulation) -> Bool {
        if options.drainBatch == 0 || session?.isStopped == false && session?.serves(message.conversation) == true { return true }
        // Due retries do not count against the batch. Those in the unread part of the store wait for the next trigger, as `explain` says.
        return options.mode == .auto && message.progress.dueAt != 0
            && simulation.scheduler.isLoaded(message.sequence, message.conversation)
    }

    /// Whether the retry of a message runs by timer in mode ask.
    func retriesByTimer(_ message: SimulatedMessage, _ simulation: Simulation) -> Bool {
        options.mode == .ask && asked.contains(message.sequence) && simulation.now.mono >= pausedUntil && isAwake(simulation)
    }

    // MARK: Messages

    /// Whether the retry delay of a message has ended, by the monotonic clock, and its not_before has passed.
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

    /// Whether a condition of its own holds a message back (not_before, a metered link). It blocks no other message.
    func isHeldBack(_ message: SimulatedMessage, _ now: Moment) -> Bool {
        guard !hasExpired(message, now) else { return false }
        if message.notBefore > now.wall || isMetered(message) { return true }
        return !options.strictOrder && isDelayed(message, now)
    }

    func isReady(_ message: SimulatedMessage, _ now: Moment) -> Bool {
        now.mono >= skips[message.sequence] ?? 0 && isDue(message, now) && !hasExpired(message, now) && !isMetered(message)
    }

    /// Whether a final failure before the message blocks it, with finalFailure = .block.
    func isBlocked(_ message: SimulatedMessage, _ store: StoredMessages) -> Bool {
        guard options.finalFailure == .block, let failed = store.firstFailed(in: message.conversation) else { return false }
        return failed < message.sequence
    }

    /// Returns the next message of a conversation.
    func head(of conversation: Name, _ simulation: Simulation) -> SimulatedMessage? {
        let store = simulation.store
        return head(of: store.lanes[conversation] ?? [], store, sending(simulation.scheduler), simulation.now)
    }

    private func head(
        of sequences: [Int64], _ store: StoredMessages, _ sending: Set<Int64>, _ now: Moment
    ) -> SimulatedMessage? {
        for sequence in sequences where !sending.contains(sequence) {
            if let message = store[sequence], !isHeldBack(message, now) { return message }
        }
        return nil
    }

    private func sending(_ scheduler: Scheduler) -> Set<Int64> {
        Set(scheduler.flights.values.filter { !$0.isEnded }.map(\.sequence))
    }

    /// Returns the conversations that are paused, or have an attempt in progress or a call that has not returned.
    func closed(_ simulation: Simulation) -> Set<Name> {
        let batch = simulation.scheduler.gate.gathering?.batch
        let flights = simulation.scheduler.flights.values.filter { $0.batch != batch }
        return simulation.scheduler.gate.pauses.conversations.union(flights.map(\.conversation))
    }

    /// Returns the next messages of the other conversations, if they are not blocked; in no order.
    func heads(_ simulation: Simulation) -> [SimulatedMessage] {
        let (store, scheduler, now) = (simulation.store, simulation.scheduler, simulation.now)
        let closed = closed(simulation)
        let sending = sending(scheduler)
        var heads: [SimulatedMessage] = []
        for (conversation, sequences) in store.lanes where !closed.contains(conversation) {
            guard let head = head(of: sequences, store, sending, now) else { continue }
            // A `clear` goes on that removes the message.
            let isBeingRemoved = head.sequence <= scheduler.gate.pauses.clearedThrough(conversation)
            if !isBeingRemoved, !isBlocked(head, store), !isOvertaken(head, scheduler) { heads.append(head) }
        }
        return heads
    }

    /// Whether the batch that is being chosen has a later message of the conversation, so that this one cannot be in it.
    private func isOvertaken(_ head: SimulatedMessage, _ scheduler: Scheduler) -> Bool {
        guard options.strictOrder, let batch = scheduler.gate.gathering?.batch else { return false }
        return scheduler.flights.values.contains {
            $0.batch == batch && $0.conversation == head.conversation && $0.sequence > head.sequence
        }
    }

    // MARK: Slots

    /// Counts attempts in progress, and hung calls of timed-out attempts, which use no slot up to a limit.
    func slots(_ simulation: Simulation) -> (open: Int, hung: Int) {
        let flights = simulation.scheduler.flights.values
        let hung = flights.count { $0.timedOut && $0.isRunning }
        return (flights.count - hung, hung)
    }

    /// The calls of up to `hungCeiling` hung ones use no slot, with all their messages. With `maxBatches` each call uses one slot.
    func slotsTaken(_ simulation: Simulation) -> Int {
        let calls = Dictionary(grouping: simulation.scheduler.flights.values.filter { $0.timedOut && $0.isRunning }, by: \.batch)
        let counted = calls.sorted { $0.key < $1.key }.dropFirst(Flights.hungCeiling)
        guard maxBatches(simulation) > 0 else { return slots(simulation).open + counted.reduce(0) { $0 + $1.value.count } }
        let open = simulation.scheduler.flights.values.filter { !($0.timedOut && $0.isRunning) }
        return Set(open.map(\.batch) + counted.map(\.key)).count
    }

    private func maxBatches(_ simulation: Simulation) -> Int { simulation.scheduler.flights.limits?.maxBatches ?? 0 }

    /// The most attempts in flight, or with `maxBatches` batches.
    func mostSlots(_ simulation: Simulation) -> Int { maxBatches(simulation) > 0 ? maxBatches(simulation) : options.maxInFlight }

    /// The scheduler notices a jump of the wall clock after at most a minute.
    func isAfterJump(_ now: Moment) -> Bool { now.mono - wallJumpedAt < 2 * Scheduler.longestSleep }
}
