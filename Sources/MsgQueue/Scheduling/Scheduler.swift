/// The pure state machine that decides what is sent when.
///
/// It holds an index of what could be sent, not the messages: a lane for each conversation that it has come across, found by reading the
/// store's queued messages in order, only as far as there is leave to send them. Inputs are functions that take the moment; `next` says
/// what to do, one step at a time. Nothing here does anything: the engine performs a step, commits, and only then reports it, so that a
/// failed commit leaves this unchanged.
package struct Scheduler {
    let mode: Mode
    let direct: Bool
    let maxInFlight: Int
    let settle: Int64
    let promptTimeout: Int64
    let defaultBatch: Int
    let isStrict: Bool
    let blocksOnFailure: Bool
    let sendsInBackground: Bool
    let unmeteredOnly: Bool
    let timer: Int64

    /// Attempts that hang after their time-out may keep so many threads beside those in flight.
    static let hungCeiling = 16
    static let scanChunk = 256
    /// Attempts by hand beside those that the engine makes.
    static let slotsByHand = 4
    /// After a transport said "offline", automatic sending pauses this long unless the world changes first.
    static let offlinePause: Int64 = 5_000
    /// A wait for a wall-clock time is looked at again at least this often, because that clock may jump.
    static let longestSleep: Int64 = 60_000

    var lanes: [Name: Lane] = [:]
    package internal(set) var flights: [UInt64: Flight] = [:]
    let opening: Opening
    /// When the network last returned (monotonic): retries that waited for it then wait no longer.
    package internal(set) var returnedAt = Int64.min
    /// Messages that a person sends now, in the order of asking.
    var forced: [Forced] = []
    var ready = Heap<Ticket>()
    var waiting = Heap<Ticket>()
    /// The same by the times at which messages are due, however far away.
    var dues = Heap<Ticket>()
    /// Queued messages up to this sequence have been looked at.
    var scannedThrough: Int64 = 0
    /// ... and there are none behind it.
    var scanComplete = false

    package internal(set) var network = Network()
    package internal(set) var hasTransport = false
    package internal(set) var isClosing = false
    package internal(set) var session: Session?
    /// Drains of another scope, asked for while one was under way: they begin after it, in this order.
    var pending: [Session] = []
    var drains = 0
    /// What a person retries together.
    var round: Round?
    /// Monotonic times; automatic sending starts after both.
    var settledAt: Int64 = 0
    var pausedUntil: Int64 = 0
    /// A receiver asked the whole queue to wait.
    var limitedUntil: Int64 = 0
    /// The next trigger by the clock; 0: none.
    var timerAt: Int64 = 0
    /// What may start by itself before the next trigger.
    var budget: Int
    package internal(set) var isPaused = false
    package internal(set) var pausedConversations: Set<Name> = []
    package internal(set) var isInBackground = false
    /// By conversation: the message that failed for good and holds those behind it, where that is the rule.
    var blocks: [Name: Int64] = [:]
    /// The store refuses to write: nothing starts before this.
    var storageUntil: Int64 = 0
    var prompt = PromptState.armed
    var promptUntil: Int64 = 0

    struct Forced: Equatable {
        let conversation: Name
        let sequence: Int64
        let hand: Hand
    }

    enum PromptState { case disarmed, armed, raised }

    /// An entry of a heap: a conversation, and the sequence or monotonic time that it is sorted by.
    struct Ticket: Comparable {
        let key: Int64
        let conversation: Name
        static func < (left: Ticket, right: Ticket) -> Bool { left.key < right.key }
    }

    /// One drain, from its request to its report.
    package struct Session: Sendable {
        package let number: Int
        /// Only messages of this conversation; nil: of all.
        package let conversation: Name?
        package let deadline: Int64?
        package let batch: Int
        package internal(set) var started = 0
        package internal(set) var report = Report()
        var stop: Report.Stop?
        var hasBatchLeft: Bool { batch == 0 || started < batch }
        var isOpen: Bool { stop == nil && hasBatchLeft }

        package func serves(_ conversation: Name) -> Bool { self.conversation == nil || self.conversation == conversation }

        /// Whether it does what a drain of that scope would do.
        func covers(_ scope: Name?) -> Bool { conversation == nil || conversation == scope }
    }

    package init(_ options: Options, _ opening: Opening) {
        self.opening = opening
        mode = options.mode
        direct = options.direct
        maxInFlight = options.maxInFlight
        settle = options.onlineDebounce
        promptTimeout = options.promptTimeout
        defaultBatch = options.drainBatch
        isStrict = options.strictOrder
        blocksOnFailure = options.finalFailure == .block
        sendsInBackground = options.sendInBackground
        unmeteredOnly = options.unmeteredOnly
        timer = options.triggerInterval
        budget = options.drainBatch == 0 ? Int.max : options.drainBatch
    }

    // MARK: Leave to send

    /// Whether anything may start at all.
    var mayStart: Bool { network.isOnline && hasTransport && !isClosing && !isPaused }

    /// Whether the engine may come back to messages by itself, by timer.
    var mayWake: Bool { !isInBackground || sendsInBackground }

    /// Whether messages that wait for their time are looked at when it has come: in the background only for a drain.
    var wakesLanes: Bool { mayWake || (session != nil && session?.stop == nil) }

    /// Whether the backlog may go: by itself, or because a drain was asked for.
    func hasLeave(_ now: Moment) -> Bool {
        guard mayStart, now.mono >= limitedUntil else { return false }
        if let session, session.conversation == nil, session.isOpen { return true }
        return budget > 0 && goesByItself(now)
    }

    /// The same for one conversation, for which alone a drain may have been asked.
    func hasLeave(_ now: Moment, in conversation: Name) -> Bool {
        if hasLeave(now) { return true }
        guard mayStart, now.mono >= limitedUntil, let session else { return false }
        return session.conversation == conversation && session.isOpen
    }

    /// Whether the engine sends by itself now. Retries that are due then go without a budget.
    func goesByItself(_ now: Moment) -> Bool { mode == .auto && mayWake && now.mono >= settledAt && now.mono >= pausedUntil }

    /// Attempts that count against the limit: those that timed out only keep their conversation and a thread.
    var slotsTaken: Int {
        flights.count - min(hung, Self.hungCeiling)
    }

    /// Calls that did not come back in their time.
    var hung: Int { flights.values.count(where: \.isHung) }

    package var inFlight: Int { flights.values.count { !$0.isEnded } }

    /// Attempts that a drain waits for: one that was answered keeps its conversation until its call returns, and that is soon.
    var underWay: Int { flights.values.count { !$0.isHung } }

    func underWay(in session: Session) -> Int { flights.values.count { !$0.isHung && session.serves($0.conversation) } }

    /// The attempt that a message is in, unless that has ended.
    package func flight(of sequence: Int64, in conversation: Name) -> Flight? {
        guard let token = lanes[conversation]?.flight, let flight = flights[token], flight.sequence == sequence, !flight.isEnded
        else { return nil }
        return flight
    }

    /// Whether a pause keeps the conversation: its own, or that of the whole queue.
    func isPaused(_ conversation: Name) -> Bool { isPaused || pausedConversations.contains(conversation) }

    package func isForced(_ sequence: Int64) -> Bool { forced.contains { $0.sequence == sequence } }

    // MARK: Lanes

    /// Puts a lane where it belongs: among the ready, the waiting, or nowhere.
    mutating func place(_ conversation: Name, _ now: Moment) {
        guard var lane = lanes[conversation] else { return }
        let isDrained = session?.serves(conversation) ?? false
        let isForgotten = mode != .auto && !isDrained && lane.flight == nil && !lane.hasOwnLeave
        if lane.isIdle || isForgotten {
            // Without leave the backlog stays on disk and the scan has not begun: nothing is lost by not knowing.
            lanes[conversation] = nil
            return
        }
        guard lane.flight == nil, mayStart, !pausedConversations.contains(conversation) else { return }
        lane.sort { isKept($0, now) }
        var wake = lane.deferred.lazy.map { $0.wait(now) }.filter { $0 > 0 }.min()
        if let head = lane.upcoming.first {
            let wait = head.hasExpired(now) ? 0 : head.wait(now)
            if wait > 0 {
                wake = min(wake ?? wait, wait)
            } else if mayGo(head, lane, conversation, now) {
                ready.insert(Ticket(key: head.sequence, conversation: conversation))
            }
        } else if mayLoad(lane, conversation, now) {
            ready.insert(Ticket(key: lane.last + 1, conversation: conversation))
        }
        note(due: wake == nil ? nil : soonest(lane, conversation, now)?.wait(now), &lane, conversation, now)
        if let wake {
            let key = now.mono + min(wake, Self.longestSleep)
            if lane.wakeAt <= now.mono || key < lane.wakeAt {
                lane.wakeAt = key
                waiting.insert(Ticket(key: key, conversation: conversation))
            }
        }
        lanes[conversation] = lane
    }

    /// The first message of a lane that goes when its time has come, whatever failed before it.
    func soonest(_ lane: Lane, _ conversation: Name, _ now: Moment) -> Head? {
        let block = blocks[conversation] ?? Int64.max
        let waiting = (lane.upcoming.prefix(1) + lane.deferred).filter { $0.sequence < block && $0.wait(now) > 0 }
        return waiting.min { $0.wait(now) < $1.wait(now) }
    }

    private mutating func note(due wait: Int64?, _ lane: inout Lane, _ conversation: Name, _ now: Moment) {
        let due = wait.map { now.mono.addingClamped($0) } ?? 0
        // Times by two clocks that are cut to milliseconds may differ by one each.
        guard due == 0 || lane.dueAt == 0 || due.subtractingClamped(lane.dueAt).magnitude > 2 else { return }
        lane.dueAt = due
        guard due != 0 else { return }
        // Stale tickets for times far away would pile up.
        if dues.count > 2 * lanes.count + 64 {
            dues.removeAll()
            for (other, lane) in lanes where lane.dueAt != 0 && other != conversation {
                dues.insert(Ticket(key: lane.dueAt, conversation: other))
            }
        }
        dues.insert(Ticket(key: due, conversation: conversation))
    }

    /// Whether a message's own condition keeps it for now, so that others may pass: a time to come, a metered link; in relaxed order its
    /// retry's delay, too.
    func isKept(_ head: Head, _ now: Moment) -> Bool {
        if head.hasExpired(now) { return false }
        if head.scheduledWait(now) > 0 || isMetered(head) { return true }
        return !isStrict && head.retryWait(now) > 0
    }

    func isMetered(_ head: Head) -> Bool { network.metered && (head.unmeteredOnly || unmeteredOnly) }

    /// Whether the head may start once it is due.
    func mayGo(_ head: Head, _ lane: Lane, _ conversation: Name, _ now: Moment) -> Bool {
        if head.hasExpired(now) { return true }
        guard !isMetered(head), now.mono >= limitedUntil else { return false }
        if let block = blocks[conversation], block < head.sequence { return false }
        let isAsked = lane.asked.contains(head.sequence) && now.mono >= pausedUntil && mayWake
        return hasLeave(now, in: conversation) || lane.isDirect(head.sequence) || isAsked || (head.isRetry && goesByItself(now))
    }

    /// Whether there is a reason to read on in the lane.
    func mayLoad(_ lane: Lane, _ conversation: Name, _ now: Moment) -> Bool {
        // What comes back by its timer is read again, too.
        lane.more
            && (hasLeave(now, in: conversation) || lane.directThrough > lane.last || lane.askedThrough > lane.last
                || lane.asked.contains { $0 > lane.last })
    }

    /// After a change that concerns every lane.
    mutating func placeAll(_ now: Moment) {
        ready.removeAll()
        waiting.removeAll()
        dues.removeAll()
        for conversation in Array(lanes.keys) {
            lanes[conversation]?.wakeAt = 0
            lanes[conversation]?.dueAt = 0
            place(conversation, now)
        }
    }

    /// Changes one lane, and puts it where it then belongs.
    mutating func withLane(_ conversation: Name, _ now: Moment, _ change: (inout Lane) -> Void) {
        var lane = lanes[conversation] ?? Lane()
        change(&lane)
        lanes[conversation] = lane
        place(conversation, now)
    }
}
