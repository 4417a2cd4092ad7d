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
    /// Begins to choose the messages of a batch. Its first attempt gets the token `batch`.
    mutating func openBatch(_ batch: UInt64) {
        guard let limits = flights.limits, let room = flights.room else { return }
        gate.gathering = Gathering(batch: batch, limits: limits, room: room)
    }

    /// Adds a message to the batch, after its attempt was reserved.
    mutating func addToBatch(_ conversation: Name, bytes: Int) { gate.gathering?.add(conversation, bytes: bytes) }

    /// Ends the choice, after the beginning of the attempts was committed at `now` (monotonic).
    mutating func closeBatch(_ now: Int64) {
        guard let batch = gate.gathering else { return }
        gate.gathering = nil
        // Messages that found no room have waited, too: the next batch begins without a wait.
        if lingerUntil != 0 { lingerUntil = leavesMessages(batch.batch) ? min(lingerUntil, now) : 0 }
    }

    /// Whether messages that could start, or that follow those of the batch, are not in it.
    private func leavesMessages(_ batch: UInt64) -> Bool {
        func hasMore(_ conversation: Name) -> Bool { lanes[conversation].map { $0.more || !$0.upcoming.isEmpty } ?? false }
        return lanes.ready.conversations.contains(where: hasMore)
            || flights.values.contains { $0.batch == batch && hasMore($0.conversation) }
    }

    /// Ends the choice, after the attempts were withdrawn.
    mutating func dropBatch() { gate.gathering = nil }

    /// Whether a body of this size still fits into the batch.
    package func fitsBatch(bytes: Int) -> Bool { gate.gathering?.accepts(bytes: bytes) ?? false }

    /// The start of the next message of the batch, or a step that must precede it: a read of the store, or an expiry. nil: the batch is
    /// complete.
    package mutating func nextInBatch(_ now: Moment, queued: Int64) -> Step? {
        guard let batch = gate.gathering, !batch.isFull, lanes.isScheduled, gate.mayStart, !gate.isStoreRefusing(now),
            session?.hasBatchLeft ?? true,
            flights.pace?.isOpen(at: now.mono) ?? true
        else { return nil }
        lanes.wake(gate, now)
        if let conversation = batch.conversation { return nextInBatch(of: conversation, now) }
        return nextOfRound(now) ?? chooser.next(&lanes, gate, flights, queued: queued, isOpen: true, now)
    }

    private mutating func nextInBatch(of conversation: Name, _ now: Moment) -> Step? {
        chooser.reset()
        if case .start(conversation, let sequence, let hand)? = nextOfRound(now) {
            return .start(conversation: conversation, sequence: sequence, hand: hand)
        }
        guard let lane = lanes[conversation] else { return nil }
        if lane.upcoming.isEmpty { return lanes.load(lane, conversation, gate, now) }
        return lanes.step(of: conversation, gate, flights, now)
    }

    // MARK: Waiting for more messages

    /// A batch that waits for more messages.
    struct Lingering {
        /// Monotonic.
        let until: Int64
        /// The conversation of its messages; nil: they may have several.
        let conversation: Name?
    }

    /// Whether the start of a batch waits, because more messages may be enqueued soon; nil: it does not.
    mutating func linger(_ step: Step, queued: Int64, _ now: Moment) -> Lingering? {
        guard let limits = flights.limits, limits.linger > 0, session == nil, let room = flights.room,
            case .start(let conversation, _, _) = step
        else { return nil }
        if lingerUntil == 0 { lingerUntil = now.mono.addingClamped(limits.linger) }
        let scope = limits.singleConversation ? conversation : nil
        guard now.mono < lingerUntil, !hasReady(room, in: scope, queued: queued, now) else { return nil }
        return Lingering(until: lingerUntil, conversation: scope)
    }

    /// Until when a batch waits for more messages (monotonic); `conversation`: only if it may have messages of this one. nil: none waits.
    func lingerEnd(of conversation: Name? = nil, _ now: Moment) -> Int64? {
        guard let lingering, lingering.until > now.mono else { return nil }
        if let conversation, let own = lingering.conversation, own != conversation { return nil }
        return lingering.until
    }

    /// Whether at least so many messages can start now, as far as the index shows; of one conversation or (nil) of all.
    private func hasReady(_ count: Int, in conversation: Name?, queued: Int64, _ now: Moment) -> Bool {
        guard queued - Int64(flights.inFlight) >= Int64(count) else { return false }
        if let conversation { return lanes[conversation].map { $0.more || $0.upcoming.count >= count } ?? false }
        guard lanes.scanComplete || !gate.maySend(now) else { return true }
        var ready = 0
        var counted = Set<Name>()
        for name in lanes.ready.conversations where counted.insert(name).inserted {
            guard let lane = lanes[name], lanes.step(of: name, gate, flights, now)?.isStart == true else { continue }
            ready += lane.upcoming.count
            if lane.more || ready >= count { return true }
        }
        return false
    }
}
