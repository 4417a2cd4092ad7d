/// The wait of a batch for more messages.
package struct Linger {
    /// Until when the next batch waits (monotonic); nil: it does not wait yet.
    private(set) var until: Int64?
    /// At the last step a batch would have begun, but waited.
    private(set) var waiting: Waiting?

    struct Waiting {
        /// Monotonic.
        let until: Int64
        /// The conversation of its messages; nil: they may have several.
        let conversation: Name?
    }

    /// Another step is chosen.
    mutating func step() { waiting = nil }

    /// No batch waits any more.
    mutating func end() { until = nil }

    /// A batch began at `now` (monotonic). Messages that found no room have waited, too: the next batch begins without a wait.
    mutating func began(leavesMessages: Bool, _ now: Int64) { until = leavesMessages ? until.map { min($0, now) } : nil }

    /// Whether the start of a batch waits, because more messages may be enqueued soon.
    mutating func waits(_ step: Step, _ lanes: LaneIndex, _ gate: Gate, queued: Int64, _ now: Moment) -> Bool {
        guard let limits = gate.flights.limits, limits.linger > 0, gate.drains.session == nil, let room = gate.flights.room,
            case .start(let conversation, _, _) = step
        else { return false }
        let end = until ?? now.mono.addingClamped(limits.linger)
        until = end
        let scope = limits.singleConversation ? conversation : nil
        guard now.mono < end, !lanes.hasReady(room, in: scope, gate, queued: queued, now) else { return false }
        waiting = Waiting(until: end, conversation: scope)
        return true
    }

    /// When a batch that waits begins (monotonic), if that is not over.
    func wakeTime(_ now: Moment) -> Int64? { until.flatMap { $0 > now.mono ? $0 : nil } }

    /// Until when a batch waits (monotonic); `conversation`: only if it may have messages of this one. nil: none waits.
    func end(of conversation: Name? = nil, _ now: Moment) -> Int64? {
        guard let waiting, waiting.until > now.mono else { return nil }
        if let conversation, let own = waiting.conversation, own != conversation { return nil }
        return waiting.until
    }
}
