/// What permits attempts or prevents them, apart from the messages: the connection, the transport, the store's health, pauses, drains, the
/// attempts in flight, and the budget of automatic sending. Its conditions are in `Eligibility.swift`.
package struct Gate {
    let options: Options
    let opening: Opening

    var network: Network
    /// Why the last attempt ended as offline, as the transport says; "": unknown, or it did not.
    var attemptOfflineReason = ""
    /// When the network last returned (monotonic): the delay of retries that waited for it ends then.
    var returnedAt = Int64.min
    var hasTransport = false
    var isClosing = false
    var isInBackground = false
    /// The store rejected a write: nothing starts before this time (monotonic).
    var storageRetryAt: Int64 = 0
    var holds = Holds()
    package internal(set) var flights: Flights
    package internal(set) var pauses = Pauses()
    package internal(set) var drains: DrainQueue
    /// By conversation: the failed message that blocks later ones, with the option `final_failure = block`.
    var blocks: [Name: Int64] = [:]
    /// How many messages may still start automatically before the next trigger.
    var budget: Int
    /// The next periodic trigger (monotonic); nil: none.
    var nextTriggerAt: Int64?
    /// The batch whose messages are being chosen.
    package internal(set) var gathering: Gathering?

    init(_ options: Options, _ opening: Opening) {
        (self.options, self.opening) = (options, opening)
        network = Network(connectivity: options.initialConnectivity)
        flights = Flights(options, openedAt: opening.moment.mono)
        drains = DrainQueue(options)
        budget = options.runLimit
    }

    var blocksOnFailure: Bool { options.finalFailure == .block }

    /// Why there is no connection, as the host or the last attempt says; "": unknown, or there is one.
    var offlineReason: String { network.offlineReason.isEmpty ? attemptOfflineReason : network.offlineReason }

    /// Returns the head with the end of its delay as a monotonic time.
    package func withMonotonicDue(_ head: Head) -> Head {
        var anchored = head
        anchored.dueMono = head.due.isNone ? nil : head.due.end(opening)
        anchored.endDelay(networkReturnedAt: returnedAt)
        return anchored
    }

    /// Whether an attempt may begin in the lane: none is in flight, or only those of the batch that is being chosen.
    func isFree(_ lane: Lane) -> Bool { lane.isFree(for: gathering?.batch) }

    // MARK: Budget

    /// Takes one from the budget of automatic sending. Returns false if there is no limit.
    mutating func charge() -> Bool {
        guard budget != Int.max else { return false }
        budget -= 1
        return true
    }

    /// Gives back what `charge` took, as far as there was no trigger since.
    mutating func refund() { if budget != Int.max { budget = min(budget + 1, options.runLimit) } }
}

extension Options {
    /// How many messages one run of the queue sends.
    var runLimit: Int { drainBatch == 0 ? Int.max : drainBatch }
}
