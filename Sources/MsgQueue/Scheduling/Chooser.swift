/// The choice of the message that is sent next, among those that may start now.
///
/// `TurnRule` divides the attempts between the backlog and live messages, `Rank` orders the messages of each. While all that differs is
/// their age, the store is read in that order only as far as needed (`scan`). If some have priorities, their conversations are read before
/// (`findPriorities`, `load`). With many of them, or if expiries matter, the first message of each conversation must be known, so all
/// conversations are read first (`survey`, `load`), once.
package struct Chooser {
    /// The division of the attempts between the backlog and live messages.
    package internal(set) var turns: TurnRule
    /// The message that was chosen last.
    private var choice: Choice?
    /// Retryable failures in a row.
    private var failures = 0

    /// The number of reads before an attempt, after which those that are known are sent although others are not known yet.
    private static let readsInARow = 2_048
    /// The number of retryable failures in a row that count as an outage.
    private static let outage = 3

    init(_ options: Options) { turns = TurnRule(liveShare: options.liveShare) }

    private struct Choice {
        let sequence: Int64
        let side: TurnRule.Side
        /// The other side had a message, too.
        let isContested: Bool
        /// It is the oldest of its side.
        let isOldest: Bool
    }

    // MARK: Attempts

    /// Forgets the message that was chosen last.
    mutating func reset() { choice = nil }

    /// Notes an attempt that has begun.
    mutating func began(_ flight: Flight) {
        guard flight.hand == .none, let choice, choice.sequence == flight.sequence else { return }
        turns.started(choice.side, isContested: choice.isContested, isOldest: choice.isOldest)
        self.choice = nil
    }

    /// Notes the outcome of an attempt. Returns whether it is the first success after an outage, which begins a backlog.
    mutating func ended(sent: Bool, isQueuedAgain: Bool) -> Bool {
        if isQueuedAgain { failures += 1 }
        guard sent else { return false }
        defer { failures = 0 }
        return failures >= Self.outage
    }

    // MARK: The choice

    /// A message that may start, or a read of the store in its place.
    private typealias Candidate = (sequence: Int64, priority: Int32, step: Step)

    /// The start of the message that is next, or a step that must precede it: a read of the store, or an expiry. `isOpen`: the rate permits
    /// an attempt; while it does not, reads delay none.
    mutating func next(_ lanes: inout LaneIndex, _ gate: Gate, queued: Int64, isOpen: Bool, _ now: Moment) -> Step? {
        choice = nil
        // When a drain's batch is used up, the drain ends before anything else starts.
        if let session = gate.drains.session, !session.hasBatchLeft { return nil }
        let sendsBacklog = gate.maySend(now)
        if sendsBacklog, queued == 0 { lanes.reading.isComplete = true }
        let read = lanes.nextRead(gate, sendsBacklog: sendsBacklog, now)
        if let read, lanes.reads < Self.readsInARow || !isOpen { return read }
        let (backlog, live) = (first(.backlog, &lanes, gate, now), first(.live, &lanes, gate, now))
        let oldest = lanes.isRanked ? oldest(.backlog, &lanes, gate, now) : backlog
        if sendsBacklog, lanes.reading.needsScan(before: backlog?.sequence, backlog?.priority ?? 0, oldest: oldest?.sequence) {
            return lanes.reading.scan(clearedThrough: gate.pauses.clearedThrough)
        }
        if let backlog, !backlog.step.isStart { return backlog.step }
        if let live, !live.step.isStart { return live.step }
        guard let side = turns.side(hasBacklog: backlog != nil, hasLive: live != nil),
            var chosen = side == .live ? live : backlog
        else {
            if read == nil { lanes.reads = 0 }
            return read
        }
        var isOldest = true
        if lanes.isRanked, let oldest = side == .backlog ? oldest : self.oldest(side, &lanes, gate, now) {
            // One that has expired takes no turn.
            guard oldest.step.isStart else { return oldest.step }
            if turns.takesOldest(side) { chosen = oldest }
            isOldest = chosen.sequence <= oldest.sequence
        }
        choice = Choice(sequence: chosen.sequence, side: side, isContested: backlog != nil && live != nil, isOldest: isOldest)
        return chosen.step
    }

    /// The message of a side with the first rank.
    private func first(_ side: TurnRule.Side, _ lanes: inout LaneIndex, _ gate: Gate, _ now: Moment) -> Candidate? {
        while let entry = lanes.ready[side].byRank.first {
            if let step = lanes.step(for: entry, gate, now) { return (entry.rank.sequence, entry.rank.priority, step) }
            lanes.ready[side].removeFirst()
        }
        return nil
    }

    /// The oldest message of a side.
    private func oldest(_ side: TurnRule.Side, _ lanes: inout LaneIndex, _ gate: Gate, _ now: Moment) -> Candidate? {
        while let ticket = lanes.ready[side].byAge.first {
            if let step = lanes.step(of: ticket.conversation, gate, now, isExpected: { $0.sequence == ticket.key }) {
                return (ticket.key, lanes[ticket.conversation]?.upcoming.first?.priority ?? 0, step)
            }
            lanes.ready[side].removeOldest()
        }
        return nil
    }

    /// Drops stale entries, so that `ahead` finds what is first although the next choice is not due yet.
    func dropStale(_ lanes: inout LaneIndex, _ gate: Gate, _ now: Moment) {
        guard lanes.isRanked || turns.isExclusive else { return }
        for side in [TurnRule.Side.backlog, .live] { _ = first(side, &lanes, gate, now) }
    }

    // MARK: Explanations

    /// The messages of other conversations that go before one that may start now, and the first of them; nil: none do, or only older ones.
    func ahead(
        of head: Head, _ conversation: Name, _ lanes: LaneIndex, _ gate: Gate, _ now: Moment
    ) -> (ahead: Wait.Ahead, sequence: Int64)? {
        /// The first entry of a side, if its message can start.
        func firstStart(_ side: TurnRule.Side) -> ReadyList.Entry? {
            lanes.ready[side].byRank.first.flatMap { lanes.step(for: $0, gate, now)?.isStart == true ? $0 : nil }
        }
        let own = lanes.ready.side(of: head.sequence)
        let other: TurnRule.Side = own == .live ? .backlog : .live
        if turns.isExclusive, turns.side(hasBacklog: true, hasLive: true) == other, let entry = firstStart(other) {
            return (other == .backlog ? .backlog : .live, entry.rank.sequence)
        }
        let rank = lanes.rank(of: head)
        guard lanes.isRanked, !turns.takesOldest(own), let entry = firstStart(own), entry.conversation != conversation else { return nil }
        if entry.rank.priority > rank.priority { return (.priority, entry.rank.sequence) }
        guard entry.rank.priority == rank.priority, entry.rank.expiresAt < rank.expiresAt else { return nil }
        return (.expiry, entry.rank.sequence)
    }
}
