/// A batch whose messages are being chosen, one after another, each as if those before it were sent.
package struct Gathering: Sendable, Equatable {
    /// The token of its first attempt.
    let batch: UInt64
    let limits: BatchLimits
    /// The most messages.
    let room: Int
    private(set) var count = 0
    private(set) var bytes = 0
    /// The conversation of all messages; nil: they may have several.
    private(set) var conversation: Name?
    /// The beginning of its first messages is committed.
    var hasParts = false

    init(batch: UInt64, limits: BatchLimits, room: Int) { (self.batch, self.limits, self.room) = (batch, limits, room) }

    var isFull: Bool { count >= room || bytes >= limits.maxBytes }

    /// Whether a message with a body of this size still fits. The first one always does.
    func accepts(bytes more: Int) -> Bool { count == 0 || (count < room && bytes + more <= limits.maxBytes) }

    mutating func add(_ name: Name, bytes more: Int) {
        count += 1
        bytes += more
        if limits.singleConversation { conversation = name }
    }
}

extension Scheduler {
    /// Ends the choice, after the beginning of the attempts was committed at `now` (monotonic).
    mutating func closeBatch(_ now: Int64) {
        guard let batch = gate.gathering else { return }
        gate.gathering = nil
        if linger.until != nil { linger.began(leavesMessages: lanes.hasMore(besides: batch.batch, gate), now) }
    }

    /// The start of the next message of the batch, or a step that must precede it: a read of the store, or an expiry. nil: the batch is
    /// complete.
    package mutating func nextInBatch(_ now: Moment, queued: Int64) -> Step? {
        // A time that passes while the batch is chosen may permit messages that go before the next one. The batch ends if all conversations
        // are to be scheduled again.
        wakeWaiting(now)
        guard let batch = gate.gathering, !batch.isFull, lanes.isScheduled, gate.mayStart, !gate.isStoreRefusing(now),
            session?.hasBatchLeft ?? true,
            gate.flights.pace?.isOpen(at: now.mono) ?? true
        else { return nil }
        if let conversation = batch.conversation { return nextInBatch(of: conversation, now) }
        return nextOfRound(now) ?? chooser.next(&lanes, gate, queued: queued, isOpen: true, now)
    }

    private mutating func nextInBatch(of conversation: Name, _ now: Moment) -> Step? {
        chooser.reset()
        if case .start(conversation, let sequence, let hand)? = nextOfRound(now) {
            return .start(conversation: conversation, sequence: sequence, hand: hand)
        }
        guard let lane = lanes[conversation] else { return nil }
        if lane.upcoming.isEmpty { return lanes.load(lane, conversation, gate, now) }
        return lanes.step(of: conversation, gate, now)
    }
}
