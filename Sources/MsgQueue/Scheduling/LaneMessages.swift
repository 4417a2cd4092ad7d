/// Messages that are stored, changed and removed, those that are read from the store, and attempts.
extension LaneIndex {
    /// Whether the message can be put into the lane without leaving unread messages before it.
    func canInsert(_ sequence: Int64, _ lane: Lane) -> Bool {
        sequence <= lane.last || lane.more || reading.hasPassed(sequence) && !reading.leavesOut
    }

    /// Whether the scan would find the message too late: after others that it precedes by its priority, or a live one after later ones of
    /// conversations that are known.
    private func comesBeforeScan(_ head: Head, _ gate: Gate, _ now: Moment) -> Bool {
        let isLive = ready.side(of: head.sequence) == .live && !reading.hasPassed(head.sequence)
        return reading.comesBeforeScan(head) || isLive && gate.maySend(now)
    }

    /// Whether a queued message is read too late unless its conversation is read again: the survey has passed it, or the scan finds it too
    /// late or leaves it out.
    private func isMissed(_ head: Head, _ conversation: Name, _ gate: Gate, _ now: Moment) -> Bool {
        let isLate = reading.leavesOut || comesBeforeScan(head, gate, now)
        guard let lane = byName[conversation] else { return reading.isSurveying || isLate }
        return isLate && !canInsert(head.sequence, lane)
    }

    /// Whether another queued message may start before this one, when both may start.
    func mayPrecede(_ other: Int64, _ head: Head) -> Bool {
        isRanked || other < head.sequence || (ready.side(of: head.sequence) == .backlog && ready.side(of: other) == .live)
    }

    // MARK: Direct messages

    /// Whether a message enqueued now is sent directly; nil: if the store has no other queued message of its conversation.
    func goesDirect(_ conversation: Name, _ gate: Gate) -> Bool? {
        guard gate.isDirectAllowed(conversation) else { return false }
        guard let lane = byName[conversation] else { return reading.isComplete ? true : nil }
        if let head = lane.upcoming.first { return lane.isDirectRangeOpen && lane.isDirect(head.sequence) }
        if lane.more { return lane.isDirectRangeOpen && lane.hasUnreadDirect ? true : nil }
        if lane.isDirectRangeOpen, lane.hasDeferredDirect { return true }
        // Outside mode auto those that wait for a time are sent by the next drain, and what follows them as well.
        let awaitsDrain = gate.options.mode != .auto && gate.drains.session == nil && !lane.deferred.isEmpty
        return reading.isComplete && !awaitsDrain ? true : nil
    }

    /// Whether a message in this place is sent directly; nil: if no queued message of its conversation is before it.
    func goesDirect(_ conversation: Name, inPlaceOf sequence: Int64, _ gate: Gate) -> Bool? {
        guard gate.isDirectAllowed(conversation) else { return false }
        guard let lane = byName[conversation] else { return nil }
        if lane.direct != nil { return lane.isDirect(sequence) }
        if lane.upcoming.contains(where: { $0.sequence < sequence }) { return false }
        return sequence <= lane.last ? true : nil
    }

    // MARK: Messages

    /// Adds an enqueued message. `goesDirect`: it is sent directly; `isFirst`: no other message of its conversation is queued.
    mutating func enqueued(_ head: Head, _ conversation: Name, goesDirect: Bool, isFirst: Bool, _ gate: Gate, _ now: Moment) {
        ready.noteNewest(head.sequence)
        noteRank(head, gate, now)
        if reading.isComplete { reading.scanned(through: head.sequence) }
        if gate.options.mode != .auto, gate.drains.session == nil, reading.hasBegun, count > Self.keptLanes { dropUnlessKept(gate, now) }
        guard goesDirect || reading.isComplete || isFirst else {
            // The scan finds messages of unknown conversations, except those that it has passed. A drain of one conversation does not scan.
            let isFound = reading.finds(head)
            var isMissed = gate.drains.session?.conversation == conversation || reading.isSurveying || comesBeforeScan(head, gate, now)
            if let place = byName.index(forKey: conversation) {
                // Later messages must not overtake it.
                byName[place].isDirectRangeOpen = false
                isMissed = isMissed || !byName[place].more && !reading.leavesOut
            }
            if isMissed || !isFound { markUnread(conversation, gate, now) }
            return
        }
        var lane = byName[conversation] ?? Lane()
        let hadHead = !lane.upcoming.isEmpty
        if !goesDirect, !reading.isComplete { lane.last = head.sequence - 1 }
        if goesDirect {
            if !lane.isDirectRangeOpen || !(hadHead || lane.hasUnreadDirect || lane.hasDeferredDirect) {
                // No message waits before it, so there is nothing to read.
                lane.more = false
                lane.last = head.sequence - 1
                // The direct messages in flight keep their permission: they may be put back.
                if lane.flight == nil || !lane.isDirectRangeOpen { lane.closeDirectRange() }
            }
            lane.direct = (lane.direct?.lowerBound ?? head.sequence)..<head.sequence + 1
        }
        lane.isDirectRangeOpen = goesDirect
        lane.append(head)
        byName[conversation] = lane
        if !hadHead { schedule(conversation, gate, now) }
    }

    /// Puts a message into the place of one that it replaced. A permission to be sent without a drain belongs to the place.
    mutating func replaced(by head: Head, _ conversation: Name, goesDirect: Bool, _ gate: Gate, _ now: Moment) {
        noteRank(head, gate, now)
        let lane = byName[conversation] ?? Lane()
        let becomesDirect = goesDirect && lane.direct == nil
        let isUnread = isMissed(head, conversation, gate, now)
        guard becomesDirect || isUnread || canInsert(head.sequence, lane) else { return }
        change(conversation, gate, now) { lane in
            if isUnread { lane.more = true }
            if becomesDirect, head.sequence > lane.last {
                // Nothing is before it; what is behind it is read later.
                (lane.upcoming, lane.last, lane.more) = ([head], head.sequence, true)
            } else {
                lane.insert(head)
            }
            guard becomesDirect else { return }
            lane.direct = head.sequence..<head.sequence + 1
            lane.isDirectRangeOpen = !lane.more && lane.deferred.isEmpty && lane.upcoming.last?.sequence == head.sequence
        }
    }

    /// Puts a queued message back into its place, or updates its times.
    mutating func returned(_ head: Head, _ conversation: Name, _ gate: Gate, _ now: Moment) {
        // The scan will find a message that it has not reached; it would miss one that it has passed.
        noteRank(head, gate, now)
        let isUnread = isMissed(head, conversation, gate, now)
        guard isUnread || reading.isSurveying || canInsert(head.sequence, byName[conversation] ?? Lane()) else { return }
        reading.searchScheduled()
        let known = gate.withMonotonicDue(head)
        change(conversation, gate, now) { lane in
            if isUnread { lane.more = true }
            lane.insert(known)
        }
    }

    /// Removes a message that is no longer queued.
    mutating func removed(_ sequence: Int64, _ conversation: Name, _ gate: Gate, _ now: Moment) {
        guard byName[conversation] != nil else {
            // What was behind it may be live.
            if !reading.hasPassed(sequence), gate.maySend(now) { markUnread(conversation, gate, now) }
            return
        }
        if byName[conversation]?.deferred.contains(where: { $0.sequence == sequence }) == true { reading.searchScheduled() }
        change(conversation, gate, now) { $0.remove(sequence) }
    }

    /// Removes all messages of one conversation or of all, except those in flight.
    mutating func cleared(_ conversation: Name?, _ gate: Gate, _ now: Moment) {
        guard let conversation else {
            byName.changeAll(LaneChanges(isCleared: true))
            return scheduleAll(gate, now)
        }
        if byName[conversation] != nil { change(conversation, gate, now) { $0.clear() } }
    }

    /// Reads the conversation again from `sequence` on.
    mutating func reload(_ conversation: Name, from sequence: Int64, _ gate: Gate, _ now: Moment) {
        // The scan will find messages that it has not reached, but some of them may have a priority.
        guard byName[conversation] != nil || reading.hasPassed(sequence) || reading.leavesOut || isRanked else { return }
        change(conversation, gate, now) { lane in
            lane.upcoming.removeAll { $0.sequence >= sequence }
            lane.deferred.removeAll { $0.sequence >= sequence }
            lane.last = min(lane.last, sequence - 1)
            lane.more = true
        }
    }

    /// Drops the messages, so that they are read again: an index of the store was rebuilt.
    mutating func forget(_ gate: Gate, _ now: Moment) {
        byName.replaceAll { lane in
            guard lane.flight != nil else { return nil }
            // Messages before the one in flight may be missing from the index, too.
            var unread = lane
            (unread.upcoming, unread.deferred, unread.last, unread.more) = ([], [], 0, true)
            return unread
        }
        reading.restart()
        scheduleAll(gate, now)
    }

    /// Approves the messages behind one that is retried by timer, up to `through`: the drain was requested for them, too.
    mutating func approveFollowing(through: Int64, of session: DrainQueue.Session, _ gate: Gate, _ now: Moment) {
        for (conversation, lane) in byName where session.serves(conversation) {
            guard let head = lane.upcoming.first, lane.approved.contains(head.sequence) else { continue }
            let free = lane.upcoming.filter { !gate.isDeferred($0, now) }
            byName[conversation]?.approvedThrough = through
            byName[conversation]?.approve(free)
        }
    }

    /// Ends the delays of messages that failed for lack of a network, once the connection is stable.
    mutating func networkReturned(at time: Int64) {
        byName.changeAll(LaneChanges(networkReturnedAt: time))
    }

    // MARK: What was read

    /// Takes conversations with queued messages, in the order of their names. `complete`: there are no more.
    mutating func surveyed(_ names: [Name], through last: Name?, complete: Bool, _ gate: Gate, _ now: Moment) {
        reads += 1
        reading.surveyed(through: last, complete: complete)
        for name in names { markUnread(name, gate, now) }
    }

    /// Takes the conversations of the queued messages with a priority; nil: there are too many.
    mutating func foundPriorities(_ names: Set<Name>?, _ gate: Gate, _ now: Moment) {
        reads += 1
        guard let names else {
            reading.beginSurvey()
            // The scan would have found the rest of these conversations.
            byName.changeAll(LaneChanges(isUnread: true))
            return scheduleAll(gate, now)
        }
        reading.foundPriorities()
        for name in names { markUnread(name, gate, now) }
    }

    /// Takes the messages without a start time after those that were scanned, in order. `complete`: there are no more.
    mutating func foundUnscheduled(_ rows: [(conversation: Name, sequence: Int64)], complete: Bool, _ gate: Gate, _ now: Moment) {
        reads += 1
        for (conversation, sequence) in rows {
            reading.scanned(through: sequence)
            let isKnown = byName[conversation].map { sequence <= $0.last } ?? false
            if !isKnown, sequence > gate.pauses.clearedThrough(conversation) { markUnread(conversation, gate, now) }
        }
        if complete { reading.foundAll() }
    }

    /// Takes the conversations of the messages scheduled for a time up to `through`; nil: there are too many.
    mutating func foundScheduled(
        _ names: Set<Name>?, through: Int64, next: (time: Int64, conversation: Name)?, _ gate: Gate, _ now: Moment
    ) {
        reads += 1
        guard let names else { return reading.readScheduled() }
        reading.foundScheduled(through: through, next: next?.time)
        for name in names { markUnread(name, gate, now) }
        // In mode auto the state of the queue says when the next message is due (`QueueReasons.soonestMessage`).
        if gate.options.mode == .auto, let next { markUnread(next.conversation, gate, now) }
    }

    /// Takes the queued messages after those that were scanned, in order. `complete`: there are no more.
    mutating func scanned(_ rows: [(conversation: Name, head: Head)], complete: Bool, _ gate: Gate, _ now: Moment) {
        var (touched, later) = (Set<Name>(), 0)
        for (_, head) in rows { noteRank(head, gate, now) }
        guard !reading.surveys else { return }
        let sending = gate.flights.openSequences
        for (conversation, head) in rows {
            reading.scanned(through: head.sequence)
            if head.sequence <= gate.pauses.clearedThrough(conversation) { continue }
            let known = gate.withMonotonicDue(head)
            let isDeferred = gate.isDeferred(known, now)
            if head.scheduledWait(now) > 0 { later += 1 }
            guard let place = byName.index(forKey: conversation) else {
                var lane = Lane()
                lane.append(known, isDeferred: isDeferred)
                byName[conversation] = lane
                touched.insert(conversation)
                continue
            }
            if sending.contains(head.sequence) { continue }
            // Beside one that is due sooner, a deferred message changes nothing.
            let isLater = isDeferred && byName[place].dueAt.map { now.mono.addingClamped(known.wait(now)) >= $0 } ?? false
            let wasEmpty = byName[place].upcoming.isEmpty
            let isAdded = byName[place].append(known, isDeferred: isDeferred)
            if wasEmpty, !(isAdded && isLater) { touched.insert(conversation) }
        }
        if complete { reading.isComplete = true } else { reading.met(scheduled: later) }
        for conversation in touched { schedule(conversation, gate, now) }
    }

    /// Takes the queued messages of one conversation after `Lane.last`. `complete`: there are no more. `skipEnds`: until when messages wait
    /// that the transport skipped (monotonic).
    mutating func loaded(_ conversation: Name, _ heads: [Head], complete: Bool, skipEnds: [Int64: Int64], _ gate: Gate, _ now: Moment) {
        reads += 1
        for head in heads { noteRank(head, gate, now) }
        guard let lane = byName[conversation] else { return }
        let sending = gate.flights.sequences(in: lane, after: lane.last)
        var known = heads.filter { !sending.contains($0.sequence) }.map { gate.withMonotonicDue($0) }
        if !skipEnds.isEmpty { for place in known.indices { known[place].skippedUntil = skipEnds[known[place].sequence] } }
        let free = known.filter { !gate.isDeferred($0, now) }
        change(conversation, gate, now) { lane in
            lane.upcoming = known
            lane.hasSkipped = lane.hasSkipped || !skipEnds.isEmpty
            lane.awaitsRead = false
            lane.more = !complete
            lane.last = heads.last?.sequence ?? lane.last
            if complete { lane.approvedThrough = min(lane.approvedThrough, lane.last) }
            lane.approve(free)
        }
    }

    // MARK: Attempts

    mutating func began(_ flight: Flight, _ gate: Gate, _ now: Moment) {
        let isKnown = canInsert(flight.sequence, byName[flight.conversation] ?? Lane())
        change(flight.conversation, gate, now) { lane in
            lane.remove(flight.sequence)
            lane.begin(flight)
            // A manual attempt in a conversation that was not read yet.
            if !isKnown { lane.more = true }
        }
    }

    /// Undoes `began`. `isRunning`: the call of the attempt has not returned, and occupies its conversation until it does.
    mutating func withdrew(_ flight: Flight, _ head: Head, isRunning: Bool, _ gate: Gate) {
        var lane = byName[flight.conversation] ?? Lane()
        if !isRunning { lane.end(flight.token) }
        if canInsert(flight.sequence, lane) { lane.insert(head) } else { lane.more = true }
        if flight.wasApproved, gate.network.isOnline { lane.approved.insert(flight.sequence) }
        byName[flight.conversation] = lane
    }

    /// Notes an outcome. `back`: the message is queued again and waits in its place; `isApproved`: it is retried by timer in mode ask;
    /// `schedules`: the lane is scheduled again.
    mutating func ended(_ flight: Flight, back: Head?, isApproved: Bool, schedules: Bool, _ gate: Gate, _ now: Moment) {
        guard let place = byName.index(forKey: flight.conversation) else { return }
        var lane = byName[place]
        if !flight.isRunning { lane.end(flight.token) }
        lane.approved.remove(flight.sequence)
        if let back {
            if canInsert(back.sequence, lane) { lane.insert(gate.withMonotonicDue(back)) }
            if lane.isDirect(back.sequence) { lane.attempted.insert(back.sequence) }
            if isApproved { lane.approved.insert(back.sequence) }
        } else {
            lane.attempted.remove(flight.sequence)
        }
        let isLast = lane.otherFlights.isEmpty && (lane.flight == nil || lane.flight == flight.token)
        if isLast, !lane.hasDirect { lane.closeDirectRange() }
        byName[place] = lane
        if schedules { schedule(flight.conversation, at: place, gate, now) }
    }
}
