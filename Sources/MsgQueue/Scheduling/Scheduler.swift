/// The pure state machine that decides which message is sent when.
///
/// It holds an index of what could be sent, not the messages: a lane for each conversation found so far by reading the store's queued
/// messages in order, only as far as they may be sent. Inputs are functions that take the current time; `next` returns one step at a time.
/// The engine performs a step, commits, and only then reports it, so that a failed commit leaves this value unchanged.
package struct Scheduler {
    static let scanChunk = 256
    /// Slots for manual attempts, in addition to `maxInFlight`.
    static let manualSlots = 4
    /// The pause of automatic sending after an outcome `offline`, unless the network changes before its end.
    static let offlineHold: Int64 = 5_000
    /// The longest sleep before a wait for a wall time is computed again, because that clock may be set.
    package static let longestSleep: Int64 = 60_000

    package internal(set) var gate: Gate
    package internal(set) var lanes: LaneIndex
    package internal(set) var chooser: Chooser
    package internal(set) var requests = ManualRequests()
    /// At the last `next` an attempt would have started, but for the rate.
    var startWaitsForRate = false
    package internal(set) var linger = Linger()
    /// The messages that a `retryAll` put back.
    package internal(set) var round: Round?
    package internal(set) var prompt: PromptState

    package init(_ options: Options, _ opening: Opening) {
        gate = Gate(options, opening)
        lanes = LaneIndex(options)
        chooser = Chooser(options)
        prompt = PromptState(options)
    }

    // MARK: The gate

    package var flights: Flights { gate.flights }
    package var session: DrainQueue.Session? { gate.drains.session }

    /// What may change what a yes to a prompt sends. `commits`: the number of changes of the store.
    package func promptVersion(commits: Int) -> PromptState.Version { prompt.version(changes: lanes.changes, commits: commits) }

    // MARK: Messages

    /// The attempt in flight of this message, if it has no outcome yet.
    package func flight(of sequence: Int64, in conversation: Name) -> Flight? {
        lanes[conversation].flatMap { gate.flights.flight(of: sequence, in: $0) }
    }

    /// Whether the message starts in every mode, without a drain or an answer: it is sent directly or approved.
    func startsUnasked(_ head: Head, _ conversation: Name) -> Bool {
        lanes[conversation]?.startsUnasked(head.sequence) ?? false
    }

    /// Whether the index contains the message. Without a budget no other is read from the store.
    func isLoaded(_ sequence: Int64, _ conversation: Name) -> Bool { lanes[conversation]?.contains(sequence) ?? false }
}
