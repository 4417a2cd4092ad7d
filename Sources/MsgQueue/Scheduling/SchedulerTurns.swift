/// The choice of the message that is sent next, among those that may start now.
///
/// `TurnRule` divides the attempts between the backlog and live messages, `Rank` orders the messages of each. While all that differs is
/// their age, the store is read in that order only as far as needed (`scan`). Otherwise the first message of each conversation must be
/// known, so the conversations are read first (`survey`, `load`), once.
extension Scheduler {
    /// A message that `next` has chosen.
    struct Choice {
        let sequence: Int64
        let side: TurnRule.Side
        /// The other side had a message, too.
        let isContested: Bool
        /// It is the oldest of its side.
        let isOldest: Bool
    }

    /// The number of reads before an attempt, after which those that are known are sent although others are not known yet.
    static let readsInARow = 2_048
    /// The number of retryable failures in a row that count as an outage.
    static let outage = 3

    /// Whether another queued message may start before this one, when both may start.
    func mayPrecede(_ other: Int64, _ head: Head) -> Bool {
        isRanked || other < head.sequence || (side(of: head.sequence) == .backlog && side(of: other) == .live)
    }

    // MARK: The backlog

    /// Takes what the store contains when the queue is opened: the highest sequence, and whether queued messages have priorities.
    package mutating func opened(through sequence: Int64, hasPriorities: Bool, _ now: Moment) {
        newest = max(newest, sequence)
        beginBacklog()
        if hasPriorities { rank(now) }
    }

    /// Sending begins again: what is queued now is the backlog.
    mutating func beginBacklog() {
        backlogThrough = newest
        backlogReady.take(from: &liveReady)
    }

    /// Notes the outcome of an attempt. The first success after an outage begins a backlog.
    mutating func noteOutcome(sent: Bool, isQueuedAgain: Bool) {
        if isQueuedAgain { failures += 1 }
        guard sent else { return }
        if failures >= Self.outage { beginBacklog() }
        failures = 0
    }

    /// Notes an attempt that has begun.
    mutating func noteTurn(_ flight: Flight) {
        reads = 0
        guard flight.hand == .none, let choice, choice.sequence == flight.sequence else { return }
        turns.started(choice.side, isContested: choice.isContested, isOldest: choice.isOldest)
        self.choice = nil
    }

    /// Drops stale entries, so that `ahead` finds what is first although the next choice is not due yet.
    mutating func dropStale(_ now: Moment) {
        guard isRanked || turns.isExclusive else { return }
        for side in [TurnRule.Side.backlog, .live] { _ = first(side, now) }
    }

    // MARK: Messages that may start

    private func side(of sequence: Int64) -> TurnRule.Side { sequence > backlogThrough ? .live : .backlog }

    /// The messages of one side that may start. (Not a computed property of the value: that would copy the heaps.)
    private subscript(side: TurnRule.Side) -> ReadyList {
        get { side == .live ? liveReady : backlogReady }
        _modify {
            switch side {
            case .backlog: yield &backlogReady
            case .live: yield &liveReady
            }
        }
    }

    mutating func makeReady(_ rank: Rank, _ conversation: Name) {
        let side = side(of: rank.sequence)
        self[side].insert(rank, conversation, isRanked: isRanked)
        guard self[side].count > 2 * lanes.count + 64 else { return }
        // Stale entries that are not among the first accumulate. The new one may belong to a lane that is not stored yet.
        let (lanes, batch) = (lanes, gate.gathering?.batch)
        self[side].compact { name, sequence in
            if name == conversation { return sequence == rank.sequence }
            guard let lane = lanes[name], lane.isFree(for: batch) else { return false }
            return lane.upcoming.first?.sequence == sequence
        }
    }

    /// Plans to read more messages of a lane of which none is known.
    mutating func awaitRead(_ lane: inout Lane, _ conversation: Name) {
        guard !lane.awaitsRead else { return }
        lane.awaitsRead = true
        unread.append(conversation)
    }

    // MARK: Ranks

    /// From the first message with a priority on, every conversation must be known before one is chosen.
    mutating func noteRank(_ head: Head, _ now: Moment) { if head.priority != 0, !isRanked { rank(now) } }

    private mutating func rank(_ now: Moment) {
        guard !isRanked else { return }
        isRanked = true
        if !scanComplete {
            restartScan()
            // The scan would have found the rest of these conversations.
            for name in Array(lanes.keys) { lanes[name]?.more = true }
        }
        scheduleAll(now)
    }

    /// Begins to read the store again.
    mutating func restartScan() {
        scannedThrough = 0
        scanComplete = false
        surveyedThrough = nil
    }

    /// The survey has passed some conversations and not all.
    var isSurveying: Bool { isRanked && !scanComplete && surveyedThrough != nil }

    /// Takes conversations with queued messages, in the order of their names. `complete`: there are no more.
    package mutating func surveyed(_ names: [Name], through last: Name?, complete: Bool, _ now: Moment) {
        reads += 1
        if let last { surveyedThrough = last }
        if complete { scanComplete = true }
        for name in names where lanes[name]?.more != true { withLane(name, now) { $0.more = true } }
    }

    /// The next read of the store that the choice needs; nil: none.
    private mutating func nextRead(_ now: Moment, sendsBacklog: Bool) -> Step? {
        while let name = unread.last {
            if let lane = lanes[name], gate.isFree(lane), lane.upcoming.isEmpty, !pausedConversations.contains(name),
                gate.canLoad(lane, name, now)
            {
                // For the choice the first one of each conversation is enough.
                return .load(
                    conversation: name, after: max(lane.last, gate.pauses.clearedThrough(name)),
                    limit: isRanked && lane.last == 0 ? 1 : Lane.window)
            }
            unread.removeLast()
            lanes[name]?.awaitsRead = false
        }
        return isRanked && sendsBacklog && !scanComplete ? .survey(after: surveyedThrough, limit: Self.scanChunk) : nil
    }

    // MARK: The choice

    /// A message that may start, or a read of the store in its place.
    private typealias Candidate = (sequence: Int64, step: Step)

    /// The start of the message that is next, or a step that must precede it: a read of the store, or an expiry. `isOpen`: the rate permits
    /// an attempt; while it does not, reads delay none.
    mutating func nextInOrder(_ now: Moment, queued: Int64, isOpen: Bool) -> Step? {
        choice = nil
        // When a drain's batch is used up, the drain ends before anything else starts.
        if let session, !session.hasBatchLeft { return nil }
        let sendsBacklog = gate.maySend(now)
        if sendsBacklog, !scanComplete, queued == 0 { scanComplete = true }
        let read = nextRead(now, sendsBacklog: sendsBacklog)
        if let read, reads < Self.readsInARow || !isOpen { return read }
        let (backlog, live) = (first(.backlog, now), first(.live, now))
        if !isRanked, sendsBacklog, !scanComplete, (backlog?.sequence ?? Int64.max) > scannedThrough {
            return .scan(after: max(scannedThrough, gate.pauses.clearedThrough), limit: Self.scanChunk)
        }
        if let backlog, !backlog.step.isStart { return backlog.step }
        if let live, !live.step.isStart { return live.step }
        guard let side = turns.side(hasBacklog: backlog != nil, hasLive: live != nil),
            var chosen = side == .live ? live : backlog
        else {
            if read == nil { reads = 0 }
            return read
        }
        var isOldest = true
        if isRanked, let oldest = oldest(side, now) {
            // One that has expired takes no turn.
            guard oldest.step.isStart else { return oldest.step }
            if turns.takesOldest(side) { chosen = oldest }
            isOldest = chosen.sequence <= oldest.sequence
        }
        choice = Choice(sequence: chosen.sequence, side: side, isContested: backlog != nil && live != nil, isOldest: isOldest)
        return chosen.step
    }

    /// The message of a side with the first rank.
    private mutating func first(_ side: TurnRule.Side, _ now: Moment) -> Candidate? {
        while let entry = self[side].byRank.first {
            if let step = step(for: entry.rank, entry.conversation, now) { return (entry.rank.sequence, step) }
            self[side].removeFirst()
        }
        return nil
    }

    /// The oldest message of a side.
    private mutating func oldest(_ side: TurnRule.Side, _ now: Moment) -> Candidate? {
        while let ticket = self[side].byAge.first {
            if let step = step(for: ticket, now) { return (ticket.key, step) }
            self[side].removeOldest()
        }
        return nil
    }

    // MARK: Explanations

    /// The messages of other conversations that go before one that may start now, and the first of them; nil: none do, or only older ones.
    package func ahead(of head: Head, _ conversation: Name, _ now: Moment) -> (ahead: Wait.Ahead, sequence: Int64)? {
        let own = side(of: head.sequence)
        let other: TurnRule.Side = own == .live ? .backlog : .live
        if turns.isExclusive, turns.side(hasBacklog: true, hasLive: true) == other, let entry = firstStart(other, now) {
            return (other == .backlog ? .backlog : .live, entry.rank.sequence)
        }
        let rank = Rank(head, byExpiry: soonestExpiryFirst)
        guard isRanked, !turns.takesOldest(own), let entry = firstStart(own, now), entry.conversation != conversation else { return nil }
        if entry.rank.priority > rank.priority { return (.priority, entry.rank.sequence) }
        guard entry.rank.priority == rank.priority, entry.rank.expiresAt < rank.expiresAt else { return nil }
        return (.expiry, entry.rank.sequence)
    }

    /// The first entry of a side, if its message can start.
    private func firstStart(_ side: TurnRule.Side, _ now: Moment) -> ReadyList.Entry? {
        guard let entry = self[side].byRank.first, step(for: entry.rank, entry.conversation, now)?.isStart == true else { return nil }
        return entry
    }

    /// The step for an entry; nil: the entry is stale.
    private func step(for rank: Rank, _ conversation: Name, _ now: Moment) -> Step? {
        // A closure that uses `self` would copy all of it.
        let byExpiry = soonestExpiryFirst
        return step(of: conversation, now) { Rank($0, byExpiry: byExpiry) == rank }
    }

    /// The step for a ticket; nil: the ticket is stale.
    func step(for ticket: Ticket, _ now: Moment) -> Step? { step(of: ticket.conversation, now) { $0.sequence == ticket.key } }

    /// The step for the first message of a conversation, if it is the expected one.
    private func step(of conversation: Name, _ now: Moment, isExpected: (Head) -> Bool) -> Step? {
        guard let lane = lanes[conversation], gate.isFree(lane), let head = lane.upcoming.first, isExpected(head),
            !gate.isPaused(conversation), !isOvertaken(head, lane)
        else { return nil }
        if head.hasExpired(now) { return .expire(conversation: conversation, sequence: head.sequence) }
        guard gate.eligibility(of: head, conversation, lane, now).isStart else { return nil }
        return .start(conversation: conversation, sequence: head.sequence, hand: .none)
    }

    /// Whether the batch that is being chosen has a later message of the conversation, which `retryAll` sends before those that were queued.
    private func isOvertaken(_ head: Head, _ lane: Lane) -> Bool {
        guard gate.isStrict, gate.gathering != nil, let last = lane.flight.flatMap({ flights[$0] }) else { return false }
        return last.sequence > head.sequence
    }
}
