/// Messages that are stored, changed and removed, and those that are read from the store.
extension Scheduler {
    // MARK: Messages

    /// Whether a message enqueued now is sent directly; nil: if the store has no other queued message of its conversation.
    package func goesDirect(_ conversation: Name) -> Bool? {
        guard gate.isDirectAllowed(conversation) else { return false }
        guard let lane = lanes[conversation] else { return scanComplete ? true : nil }
        if let head = lane.upcoming.first { return lane.isDirectRangeOpen && lane.isDirect(head.sequence) }
        if lane.more { return lane.isDirectRangeOpen && lane.directThrough > lane.last ? true : nil }
        if lane.isDirectRangeOpen, lane.hasDeferredDirect { return true }
        return scanComplete ? true : nil
    }

    /// Whether a message enqueued now can start although the scan has not reached it, if it is the first queued one of its conversation.
    package func startsBeforeScan(_ conversation: Name, _ now: Moment) -> Bool {
        !scanComplete && gate.maySend(now) && lanes[conversation] == nil
    }

    /// Adds an enqueued message. `goesDirect`: it is sent directly; `isFirst`: no other message of its conversation is queued.
    package mutating func enqueued(_ head: Head, _ conversation: Name, goesDirect: Bool, isFirst: Bool = false, _ now: Moment) {
        newest = max(newest, head.sequence)
        noteRank(head, now)
        if scanComplete { scannedThrough = max(scannedThrough, head.sequence) }
        guard goesDirect || scanComplete || isFirst else {
            // The scan finds messages of unknown conversations, except those that it has passed. A drain of one conversation does not scan.
            var isMissed = session?.conversation == conversation || isSurveying
            if let place = lanes.index(forKey: conversation) {
                // Later messages must not overtake it.
                lanes.values[place].isDirectRangeOpen = false
                isMissed = isMissed || !lanes.values[place].more
            }
            if isMissed { withLane(conversation, now) { $0.more = true } }
            return
        }
        var lane = lanes[conversation] ?? Lane()
        let hadHead = !lane.upcoming.isEmpty
        if !goesDirect, !scanComplete { lane.last = head.sequence - 1 }
        if goesDirect {
            if !lane.isDirectRangeOpen || !(hadHead || lane.directThrough > lane.last || lane.hasDeferredDirect) {
                // No message waits before it, so there is nothing to read.
                lane.more = false
                lane.last = head.sequence - 1
                // The direct messages in flight keep their permission: they may be put back.
                if lane.flight == nil || !lane.isDirectRangeOpen { lane.directFrom = head.sequence }
            }
            lane.directThrough = head.sequence
        }
        lane.isDirectRangeOpen = goesDirect
        lane.append(head)
        lanes[conversation] = lane
        if !hadHead { schedule(conversation, now) }
    }

    /// Whether the message can be put into the lane without leaving unread messages before it.
    func canInsert(_ sequence: Int64, _ lane: Lane) -> Bool {
        sequence <= lane.last || lane.more || scanComplete || sequence <= scannedThrough
    }

    /// Ends the delays of messages that failed for lack of a network, once the connection is stable.
    mutating func networkReturned(at time: Int64) {
        gate.returnedAt = time
        forEachLane { lane in
            for place in lane.upcoming.indices { lane.upcoming[place].endDelay(networkReturnedAt: time) }
            for place in lane.deferred.indices { lane.deferred[place].endDelay(networkReturnedAt: time) }
        }
    }

    /// Adds a manual request for this message.
    package mutating func force(_ sequence: Int64, _ conversation: Name, _ hand: Hand) {
        forced.removeAll { $0.sequence == sequence }
        forced.append(Forced(conversation: conversation, sequence: sequence, hand: hand))
    }

    /// Removes a manual request that ends without an attempt.
    package mutating func requestEnded(_ sequence: Int64) { forced.removeAll { $0.sequence == sequence } }

    /// Puts a queued message back into its place, or updates its times.
    package mutating func returned(_ head: Head, _ conversation: Name, _ now: Moment) {
        // The scan will find a message that it has not reached; it would miss one that it has passed.
        noteRank(head, now)
        guard isSurveying || canInsert(head.sequence, lanes[conversation] ?? Lane()) else { return }
        let known = gate.withMonotonicDue(head)
        let isUnread = isSurveying && lanes[conversation] == nil
        withLane(conversation, now) { lane in
            if isUnread { lane.more = true }
            lane.insert(known)
        }
    }

    /// Removes a message that is no longer queued: deleted, failed or sent.
    package mutating func removed(_ sequence: Int64, _ conversation: Name, _ now: Moment) {
        forced.removeAll { $0.sequence == sequence }
        round?.remove(sequence, of: conversation)
        if lanes[conversation]?.approved.contains(sequence) == true { round?.retryEnded(conversation) }
        guard lanes[conversation] != nil else {
            // What was behind it may be live.
            if !scanComplete, sequence > scannedThrough, gate.maySend(now) { withLane(conversation, now) { $0.more = true } }
            return
        }
        withLane(conversation, now) { $0.remove(sequence) }
    }

    /// Removes all unsent messages of one conversation or of all, except those in flight.
    package mutating func cleared(_ conversation: Name?, _ now: Moment) {
        forced.removeAll { conversation == nil || $0.conversation == conversation }
        round?.cleared(conversation)
        for name in conversation.map({ [$0] }) ?? Array(lanes.keys) where lanes[name] != nil {
            withLane(name, now) { lane in
                lane.upcoming = []
                lane.deferred = []
                lane.more = false
            }
        }
    }

    // MARK: Reading the store

    /// Takes the queued messages after `scannedThrough`, in order. `complete`: there are no more.
    package mutating func scanned(_ rows: [(conversation: Name, head: Head)], complete: Bool, _ now: Moment) {
        var touched = Set<Name>()
        for (_, head) in rows { noteRank(head, now) }
        guard !isRanked else { return }
        for (conversation, head) in rows {
            scannedThrough = max(scannedThrough, head.sequence)
            if head.sequence <= gate.pauses.clearedThrough(conversation) { continue }
            let known = gate.withMonotonicDue(head)
            guard let place = lanes.index(forKey: conversation) else {
                var lane = Lane()
                lane.append(known)
                lanes[conversation] = lane
                touched.insert(conversation)
                continue
            }
            if lanes.values[place].flight != nil, flight(of: head.sequence, in: conversation) != nil { continue }
            if lanes.values[place].upcoming.isEmpty { touched.insert(conversation) }
            lanes.values[place].append(known)
        }
        if complete { scanComplete = true }
        for conversation in touched { schedule(conversation, now) }
    }

    /// The messages after `Lane.last` whose attempts have no outcome. The conversation is read while it has any if they are in the batch that
    /// is being chosen.
    private func sending(in conversation: Name) -> Set<Int64> {
        guard let lane = lanes[conversation], let last = lane.flight else { return [] }
        let open = (lane.otherFlights + [last]).lazy.compactMap { flights[$0] }.filter { !$0.isEnded && $0.sequence > lane.last }
        return Set(open.map(\.sequence))
    }

    /// Takes the queued messages of one conversation after `Lane.last`. `complete`: there are no more.
    package mutating func loaded(_ conversation: Name, _ heads: [Head], complete: Bool, _ now: Moment) {
        reads += 1
        for head in heads { noteRank(head, now) }
        guard lanes[conversation] != nil else { return }
        let sending = sending(in: conversation)
        var known = heads.filter { !sending.contains($0.sequence) }.map(gate.withMonotonicDue)
        if round?.delay(of: conversation) != nil {
            for place in known.indices { known[place].skippedUntil = round?.delay(of: known[place].sequence, in: conversation) }
        }
        let free = known.filter { !gate.isDeferred($0, now) }
        withLane(conversation, now) { lane in
            lane.upcoming = known
            lane.awaitsRead = false
            lane.more = !complete
            lane.last = heads.last?.sequence ?? lane.last
            if complete { lane.approvedThrough = min(lane.approvedThrough, lane.last) }
            lane.approve(free)
        }
    }
}
