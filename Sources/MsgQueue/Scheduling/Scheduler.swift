/// The pure state machine that decides which message is sent when.
///
/// It holds an index of what could be sent, not the messages: a lane for each conversation found so far by reading the store's queued
/// messages in order, only as far as they may be sent. Inputs are functions that take the current time; `next` returns one step at a time.
/// The engine performs a step, commits, and only then reports it, so that a failed commit leaves this value unchanged.
package struct Scheduler {
    let promptTimeout: Int64
    package let promptsForFailed: Bool
    let soonestExpiryFirst: Bool

    static let scanChunk = 256
    /// Slots for manual attempts, in addition to `maxInFlight`.
    static let manualSlots = 4
    /// The pause of automatic sending after an outcome `offline`, unless the network changes before its end.
    static let offlineHold: Int64 = 5_000
    /// The longest sleep before a wait for a wall time is computed again, because that clock may be set.
    package static let longestSleep: Int64 = 60_000

    package internal(set) var gate: Gate
    var lanes: [Name: Lane] = [:]
    /// The conversations whose lanes must be scheduled again before anything else.
    var unscheduled: [Name] = []
    /// How many lanes one step schedules again: about two milliseconds.
    package var lanesPerStep = 2_000
    package internal(set) var flights: Flights
    /// Until when the next batch waits for more messages (monotonic); 0: it does not wait yet.
    var lingerUntil: Int64 = 0
    /// Messages with a manual request, in the order of the requests.
    var forced: [Forced] = []
    /// The conversations of which a message of the backlog, or a live one, may start now.
    var backlogReady = ReadyList()
    var liveReady = ReadyList()
    /// The division of the attempts between the two, and the message that it chose last.
    var turns: TurnRule
    var choice: Choice?
    /// Queued messages up to this sequence are the backlog; later ones are live.
    package internal(set) var backlogThrough: Int64 = 0
    /// The highest sequence that was assigned.
    var newest: Int64 = 0
    /// The order depends on more than the age: the head of every conversation must be known before one is chosen.
    package internal(set) var isRanked: Bool
    /// Conversations of which no message is known.
    var unread: [Name] = []
    /// With `isRanked`: conversations up to this name have been found in the store; nil: none.
    var surveyedThrough: Name?
    /// Reads of the store since the last attempt began.
    var reads = 0
    /// Retryable failures in a row.
    var failures = 0
    var waiting = Heap<Ticket>()
    /// Lanes by the time at which their next message is due, without the limit `longestSleep`.
    var dueTimes = Heap<Ticket>()
    /// Queued messages up to this sequence have been scanned.
    var scannedThrough: Int64 = 0
    /// The store has no queued message after `scannedThrough`.
    var scanComplete = false

    /// At the last `next` an attempt would have started, but for the rate.
    var startWaitsForRate = false
    /// At the last `next` a batch would have begun, but it waited for more messages.
    var lingering: Lingering?
    /// The messages that a `retryAll` put back.
    var round: Round?
    var prompt = PromptState.armed
    var promptUntil: Int64 = 0
    /// The same as wall time, unless the clock was set since.
    var promptEnd: Int64 = 0
    /// What of the queue may have changed since the messages of a prompt were counted.
    var promptWatch: PromptWatch

    struct Forced: Equatable {
        let conversation: Name
        let sequence: Int64
        let hand: Hand
    }

    enum PromptState { case disarmed, armed, raised }

    /// An entry of a heap: a conversation with its sort key, a sequence or a monotonic time.
    struct Ticket: Comparable {
        let key: Int64
        let conversation: Name
        static func < (left: Ticket, right: Ticket) -> Bool { left.key < right.key }
    }

    package init(_ options: Options, _ opening: Opening) {
        gate = Gate(options, opening)
        flights = Flights(options, openedAt: opening.moment.mono)
        promptTimeout = options.promptTimeout
        promptsForFailed = options.promptForFailed
        promptWatch = PromptWatch(options)
        soonestExpiryFirst = options.soonestExpiryFirst
        isRanked = options.soonestExpiryFirst
        turns = TurnRule(liveShare: options.liveShare)
    }

    // MARK: The gate

    package var network: Network { gate.network }
    package var hasTransport: Bool { gate.hasTransport }
    package var isInBackground: Bool { gate.isInBackground }
    /// The whole queue.
    package var isPaused: Bool { gate.pauses.isPaused }
    package var pausedConversations: Set<Name> { gate.pauses.conversations }
    package var session: DrainQueue.Session? { gate.drains.session }
    package var storageRetryAt: Int64 { gate.storageRetryAt }
    package var offlineReason: String { gate.offlineReason }

    // MARK: Messages

    /// The attempt in flight of this message, if it has no outcome yet.
    package func flight(of sequence: Int64, in conversation: Name) -> Flight? {
        lanes[conversation].flatMap { flights.flight(of: sequence, in: $0) }
    }

    package func isForced(_ sequence: Int64) -> Bool { forced.contains { $0.sequence == sequence } }

    /// Whether the message starts in every mode, without a drain or an answer: it is sent directly or approved.
    func startsUnasked(_ head: Head, _ conversation: Name) -> Bool {
        guard let lane = lanes[conversation] else { return false }
        return lane.isDirect(head.sequence) || lane.approved.contains(head.sequence)
    }

    /// Whether the index contains the message. Without a budget no other is read from the store.
    func isLoaded(_ sequence: Int64, _ conversation: Name) -> Bool { lanes[conversation]?.contains(sequence) ?? false }
}
