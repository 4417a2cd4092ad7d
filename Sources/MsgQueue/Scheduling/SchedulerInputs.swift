/// The scheduler's inputs: from the host, and from the engine after a commit.
extension Scheduler {
    // MARK: Network, lifecycle, pauses

    package mutating func networkChanged(_ network: Network, _ now: Moment) {
        let was = self.network
        self.network = network
        attemptOfflineReason = ""
        if network.isOnline, !was.isOnline {
            beginBacklog()
            stableAt = now.mono + onlineDebounce
            offlineHoldUntil = 0
            pace?.restart(at: now.mono)
            armPrompt()
        } else if network.isOnline {
            // The new link may reach the receiver.
            offlineHoldUntil = 0
            round?.restart()
        } else {
            // The connection had been stable before it was lost.
            if was.isOnline, stableAt != 0, stableAt <= now.mono { networkReturned(at: stableAt) }
            stableAt = 0
            // Messages that would have been sent directly become part of the backlog.
            for conversation in Array(lanes.keys) {
                lanes[conversation]?.closeDirectRange()
                lanes[conversation]?.approved = []
                lanes[conversation]?.approvedThrough = 0
            }
            round = nil
        }
        scheduleAll(now)
    }

    /// Computes waits again, after the wall clock was set or the machine resumed from suspend.
    package mutating func clockSet(_ now: Moment) { scheduleAll(now) }

    /// Notes whether there is a transport, and the limits of its batches if it takes batches.
    package mutating func transportChanged(present: Bool, batches limits: BatchLimits? = nil, _ now: Moment) {
        if present, !hasTransport { beginBacklog() }
        (self.limits, lingerUntil) = (limits, 0)
        hasTransport = present
        scheduleAll(now)
    }

    package mutating func closing() { isClosing = true }

    /// Pauses one conversation or (nil) the whole queue: no attempt starts until `resume`. Returns false if it was paused already.
    package mutating func pause(_ conversation: Name?, _ now: Moment) -> Bool {
        promptWatch.changed()
        if let conversation {
            if let removal = removals[conversation] {
                removals[conversation]?.isPausedAfterwards = true
                return !removal.isPausedAfterwards
            }
            round?.skipPaused(conversation)
            return pausedConversations.insert(conversation).inserted
        }
        defer { isPaused = true }
        return !isPaused
    }

    /// Whether somebody paused this conversation, which may be held by a removal as well.
    package func isPaused(byName conversation: Name) -> Bool {
        removals[conversation]?.isPausedAfterwards ?? pausedConversations.contains(conversation)
    }

    /// The conversations that somebody paused, without those that are only held by a removal.
    package var conversationsPausedByName: Set<Name> {
        removals.isEmpty ? pausedConversations : pausedConversations.filter(isPaused(byName:))
    }

    package mutating func resume(_ conversation: Name?, _ now: Moment) -> Bool {
        let was: Bool
        if let conversation {
            if let removal = removals[conversation] {
                removals[conversation]?.isPausedAfterwards = false
                return removal.isPausedAfterwards
            }
            was = pausedConversations.remove(conversation) != nil
            if was { round?.restart() }
        } else {
            was = isPaused
            isPaused = false
            if was { pace?.restart(at: now.mono) }
        }
        if was {
            beginBacklog()
            trigger(now)
        }
        return was
    }

    /// A call deletes the messages of the conversation up to this sequence, in steps. Until `endRemoval` nothing of it starts.
    package mutating func beginRemoval(of conversation: Name, through sequence: Int64, _ now: Moment) {
        var removal = removals[conversation] ?? Removal(isPausedAfterwards: !pause(conversation, now))
        removal.calls &+= 1
        removal.through = max(removal.through, sequence)
        removals[conversation] = removal
    }

    package mutating func endRemoval(of conversation: Name, _ now: Moment) {
        guard var removal = removals[conversation] else { return }
        removal.calls &-= 1
        removals[conversation] = removal.calls > 0 ? removal : nil
        guard removal.calls == 0, !removal.isPausedAfterwards else { return }
        // It was not paused: its end is no trigger.
        pausedConversations.remove(conversation)
        round?.restart()
        schedule(conversation, now)
    }

    /// Whether a call is deleting this message.
    package func isBeingRemoved(_ sequence: Int64, _ conversation: Name) -> Bool {
        removals[conversation].map { sequence <= $0.through } ?? false
    }

    package mutating func lifecycleChanged(isInBackground: Bool, _ now: Moment) {
        guard isInBackground != self.isInBackground else { return }
        self.isInBackground = isInBackground
        guard !isInBackground else { return scheduleAll(now) }
        offlineHoldUntil = 0
        armPrompt()
        if !sendsInBackground { beginBacklog() }
        trigger(now)
    }

    /// Holds the whole queue until a monotonic time, at a receiver's request. Returns false if it is held longer already.
    @discardableResult
    package mutating func hold(until: Int64, _ now: Moment) -> Bool {
        guard until > receiverHoldUntil else { return false }
        receiverHoldUntil = until
        pace?.restart(at: now.mono)
        scheduleAll(now)
        return true
    }

    /// The store has a backlog at the launch.
    package mutating func openedWithBacklog(_ now: Moment) { pace?.restart(at: now.mono) }

    /// Blocks the conversation behind a failed message, with the option `final_failure = block`.
    package mutating func failed(_ sequence: Int64, _ conversation: Name, _ now: Moment) {
        guard blocksOnFailure else { return }
        block(conversation, at: min(blocks[conversation] ?? sequence, sequence), now)
    }

    package var blockedConversations: [Name] { Array(blocks.keys) }

    package func block(of conversation: Name) -> Int64? { blocks[conversation] }

    /// Sets the first failed message of a conversation, which blocks later ones; nil: none does.
    package mutating func block(_ conversation: Name, at sequence: Int64?, _ now: Moment) {
        guard blocks[conversation] != sequence else { return }
        blocks[conversation] = sequence
        schedule(conversation, now)
    }

    /// Starts nothing before `until` (monotonic), because the store rejected a write.
    package mutating func storageFailed(until: Int64) { storageRetryAt = until }

    package mutating func storageRecovered(_ now: Moment) {
        storageRetryAt = 0
        scheduleAll(now)
    }

    // MARK: Drains

    /// Requests a drain of one conversation or (nil) of all. It joins a drain that includes it; otherwise it begins when the current one
    /// has ended. Returns the number of the drain, and whether it begins now.
    package mutating func drain(
        _ conversation: Name? = nil, batch: Int, timeout: Int64?, includesFailed: Bool = false, _ now: Moment
    ) -> (number: Int, begins: Bool) {
        let deadline = timeout.map { now.mono.addingClamped($0) }
        if let current = session, current.covers(conversation, includesFailed: includesFailed) {
            session?.extend(to: deadline)
            return (current.number, false)
        }
        if let place = pending.firstIndex(where: { $0.covers(conversation, includesFailed: includesFailed) }) {
            pending[place].extend(to: deadline)
            return (pending[place].number, false)
        }
        drains += 1
        let new = Session(
            number: drains, conversation: conversation, deadline: deadline, batch: batch == 0 ? defaultBatch : batch,
            includesFailed: includesFailed)
        guard session == nil else {
            pending.append(new)
            return (drains, false)
        }
        begin(new, now)
        return (drains, true)
    }

    private mutating func begin(_ new: Session, _ now: Moment) {
        session = new
        beginBacklog()
        if let conversation = new.conversation {
            // Its stored messages are read separately from the scan.
            lanes[conversation, default: Lane()].more = true
        } else {
            offlineHoldUntil = 0
            // A drain also answers a prompt that is not raised yet.
            if prompt == .armed { prompt = .disarmed }
        }
        scheduleAll(now)
    }

    /// Notes that the current drain put failed messages back: `count` up to the sequence `through`; nil: there are no more.
    package mutating func drainPutBack(_ count: Int64, through: Int64?) {
        session?.putBackThrough = through
        session?.report.putBack += count
    }

    /// The store refused to put failed messages back: the current drain ends.
    package mutating func drainPutBackFailed() {
        session?.putBackThrough = nil
        session?.stop = .storage
    }

    /// Ends the current drain, which was reported. `through` is the last sequence in the store. Outside mode auto the index of the backlog
    /// is dropped; the messages stay in the store. Returns true if the next requested drain begins.
    package mutating func finished(_ stop: Report.Stop, through: Int64, _ now: Moment) -> Bool {
        if stop == .waiting, mode == .ask, isStrict { approveFollowing(through: through, now) }
        session = nil
        if mode != .auto { restartScan() }
        scheduleAll(now)
        guard !pending.isEmpty else { return false }
        begin(pending.removeFirst(), now)
        return true
    }

    /// Approves the messages behind one that is retried by timer: the drain was requested for them, too.
    private mutating func approveFollowing(through: Int64, _ now: Moment) {
        for (conversation, lane) in lanes where session?.serves(conversation) == true {
            guard let head = lane.upcoming.first, lane.approved.contains(head.sequence) else { continue }
            let free = lane.upcoming.filter { !isDeferred($0, now) }
            lanes[conversation]?.approvedThrough = through
            lanes[conversation]?.approve(free)
        }
    }

    /// Drops the index of the backlog, so that the store is read again: an index of the store was rebuilt.
    package mutating func forgetBacklog(_ now: Moment) {
        for (conversation, lane) in lanes {
            guard lane.flight != nil else {
                lanes[conversation] = nil
                continue
            }
            // Messages before the one in flight may be missing from the index, too.
            var unread = lane
            (unread.upcoming, unread.deferred, unread.last, unread.more) = ([], [], 0, true)
            lanes[conversation] = unread
        }
        restartScan()
        scheduleAll(now)
    }

    /// Changes the report of the current drain, if the conversation belongs to it.
    package mutating func count(_ conversation: Name, _ change: (inout Report) -> Void) {
        guard var current = session, current.serves(conversation) else { return }
        change(&current.report)
        session = current
    }

    // MARK: Messages

    /// Whether a message enqueued now is sent directly; nil: if the store has no other queued message of its conversation.
    package func goesDirect(_ conversation: Name) -> Bool? {
        guard isDirectAllowed(conversation) else { return false }
        guard let lane = lanes[conversation] else { return scanComplete ? true : nil }
        if let head = lane.upcoming.first { return lane.isDirectRangeOpen && lane.isDirect(head.sequence) }
        if lane.more { return lane.isDirectRangeOpen && lane.directThrough > lane.last ? true : nil }
        if lane.isDirectRangeOpen, lane.hasDeferredDirect { return true }
        return scanComplete ? true : nil
    }

    /// Whether a message enqueued now can start although the scan has not reached it, if it is the first queued one of its conversation.
    package func startsBeforeScan(_ conversation: Name, _ now: Moment) -> Bool {
        !scanComplete && maySend(now) && lanes[conversation] == nil
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

    /// Returns the head with the end of its delay as a monotonic time.
    func withMonotonicDue(_ head: Head) -> Head {
        var anchored = head
        anchored.dueMono = head.due.isNone ? nil : head.due.end(opening)
        // The network returned after the delay began, which ends it.
        if head.waitsForNetwork, let end = anchored.dueMono, end.subtractingClamped(head.due.delay) <= returnedAt {
            anchored.dueMono = nil
        }
        return anchored
    }

    /// Ends the delays of messages that failed for lack of a network, once the connection is stable.
    mutating func networkReturned(at time: Int64) {
        returnedAt = time
        for conversation in Array(lanes.keys) {
            guard var lane = lanes[conversation] else { continue }
            lane.upcoming = lane.upcoming.map(withMonotonicDue)
            lane.deferred = lane.deferred.map(withMonotonicDue)
            lanes[conversation] = lane
        }
    }

    /// Extends the deadlines of the attempts in flight by the time for which the machine was suspended.
    package mutating func machineSlept(_ time: Int64) {
        for token in Array(flights.keys) { flights[token]?.extend(by: time) }
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
        let known = withMonotonicDue(head)
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
            if !scanComplete, sequence > scannedThrough, maySend(now) { withLane(conversation, now) { $0.more = true } }
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
            let known = withMonotonicDue(head)
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
        var known = heads.filter { !sending.contains($0.sequence) }.map(withMonotonicDue)
        if round?.delay(of: conversation) != nil {
            for place in known.indices { known[place].skippedUntil = round?.delay(of: known[place].sequence, in: conversation) }
        }
        let free = known.filter { !isDeferred($0, now) }
        withLane(conversation, now) { lane in
            lane.upcoming = known
            lane.awaitsRead = false
            lane.more = !complete
            lane.last = heads.last?.sequence ?? lane.last
            if complete { lane.approvedThrough = min(lane.approvedThrough, lane.last) }
            lane.approve(free)
        }
    }

    // MARK: Attempts

    /// Adds an attempt that was chosen at `now`. `called` follows.
    package mutating func started(_ flight: Flight, _ now: Moment) {
        pace?.reserve()
        forced.removeAll { $0.sequence == flight.sequence }
        noteTurn(flight)
        round?.remove(flight.sequence, of: flight.conversation)
        var begun = flight
        (begun.batch, begun.outcomesBefore) = (gathering?.batch ?? flight.token, outcomes)
        let lane = lanes[flight.conversation] ?? Lane()
        begun.wasApproved = lane.approved.contains(flight.sequence)
        // Retries of the backoff ladder do not count against a batch.
        if flight.hand == .none, lane.upcoming.first(where: { $0.sequence == flight.sequence })?.isRetry != true {
            if let session, session.serves(flight.conversation) {
                begun.charge = .drain(session.number)
                self.session?.started += 1
            } else if !lane.isDirect(flight.sequence), budget != Int.max {
                begun.charge = .budget
                budget -= 1
            }
        }
        flights[flight.token] = begun
        let isKnown = canInsert(flight.sequence, lane)
        withLane(flight.conversation, now) { lane in
            lane.remove(flight.sequence)
            lane.begin(begun)
            // A manual attempt in a conversation that was not read yet.
            if !isKnown { lane.more = true }
        }
        dropStale(now)
    }

    /// Notes when the call of the transport for this attempt began, once. The attempt may have ended since.
    package mutating func called(_ token: UInt64, at time: Int64) {
        guard pace != nil else { return }
        if flights[token] != nil {
            flights[token]?.isCalled = true
            pace?.release()
        }
        pace?.began(at: time)
    }

    /// Removes an attempt from those in flight.
    @discardableResult
    private mutating func removeFlight(_ token: UInt64) -> Flight? {
        let flight = flights.removeValue(forKey: token)
        if flight?.isCalled == false { pace?.release() }
        return flight
    }

    /// Whether `withdraw` can undo `started`, called before it.
    func canWithdraw(_ flight: Flight) -> Bool {
        // The attempts of a batch begin together, except manual ones, which are alone in theirs.
        if gathering != nil { return true }
        guard flight.hand == .none, round == nil, let lane = lanes[flight.conversation] else { return false }
        return !lane.approved.contains(flight.sequence) && canInsert(flight.sequence, lane)
    }

    /// Undoes `started` for an attempt whose call was not made, or whose message the transport skipped; it then waits until `heldUntil`
    /// (monotonic). A call that has not returned occupies its conversation until it does.
    mutating func withdraw(_ flight: Flight, _ head: Head, heldUntil: Int64? = nil, isCalled: Bool = false, _ now: Moment) {
        guard var begun = removeFlight(flight.token) else { return }
        let hadRoom = (session?.hasBatchLeft ?? true, hasBudget)
        switch begun.charge {
        case .drain(let number): if let drain = session, drain.number == number { session?.started = max(drain.started - 1, 0) }
        case .budget: if budget != Int.max { budget = min(budget + 1, defaultBatch) }
        case .none: break
        }
        // Its message may be one of the round, or precede one.
        round?.restart()
        if let heldUntil, head.round != 0, head.round == round?.number {
            round?.delay(flight.conversation, at: flight.sequence, until: heldUntil)
        }
        var known = withMonotonicDue(head)
        known.skippedUntil = heldUntil
        var lane = lanes[flight.conversation] ?? Lane()
        if isCalled && begun.isRunning {
            begun.isEnded = true
            flights[flight.token] = begun
        } else {
            lane.end(flight.token)
        }
        if canInsert(flight.sequence, lane) { lane.insert(known) } else { lane.more = true }
        if begun.wasApproved, network.isOnline { lane.approved.insert(flight.sequence) }
        lanes[flight.conversation] = lane
        // Other conversations may have waited for room in the batch of a drain.
        let hasRoom = (session?.hasBatchLeft ?? true, hasBudget)
        if hasRoom != hadRoom { scheduleAll(now) } else { schedule(flight.conversation, now) }
    }

    /// Counts the time of an attempt from `since`, if that is later than its start (monotonic). Returns its deadline.
    package mutating func countTimeout(of token: UInt64, from since: Int64) -> Int64 {
        guard var flight = flights[token] else { return Int64.min }
        flight.extend(by: max(since.subtractingClamped(flight.startedAt.mono), 0))
        flights[token] = flight
        return flight.deadline
    }

    /// Ends an attempt. `back`: its message is queued again and waits in its place.
    package mutating func ended(_ token: UInt64, back: Head?, sent: Bool, offline: Bool, timedOut: Bool, _ now: Moment) {
        guard var flight = flights[token] else { return }
        flight.isEnded = true
        flight.timedOut = timedOut
        flights[token] = flight
        if offline {
            if session?.serves(flight.conversation) == true { session?.stop = .offline }
            round = nil
            offlineHoldUntil = now.mono + Self.offlineHold
        }
        if !flight.isRunning { removeFlight(token) }
        outcomes &+= 1
        noteOutcome(sent: sent, isQueuedAgain: back != nil)
        guard let place = lanes.index(forKey: flight.conversation) else { return }
        var lane = lanes.values[place]
        if !flight.isRunning { lane.end(token) }
        lane.approved.remove(flight.sequence)
        if let back {
            let isRetried = mode == .ask && !offline
            if isStrict { round?.hold(flight.conversation, behind: flight.sequence, isRetried: isRetried) }
            requeue(back, isBatched: flight.batch != token || !lane.otherFlights.isEmpty, into: &lane)
            if isRetried { lane.approved.insert(back.sequence) }
        } else {
            round?.retryEnded(flight.conversation)
        }
        let isLast = lane.otherFlights.isEmpty && (lane.flight == nil || lane.flight == token)
        if lane.upcoming.isEmpty, lane.deferred.isEmpty, !lane.more, isLast { lane.closeDirectRange() }
        lanes.values[place] = lane
        if offline { scheduleAll(now) } else { schedule(flight.conversation, at: place, now) }
    }

    /// Puts an attempted message back. It is no longer sent directly, and the direct messages behind it wait for it.
    private func requeue(_ head: Head, isBatched: Bool, into lane: inout Lane) {
        if canInsert(head.sequence, lane) { lane.insert(withMonotonicDue(head)) }
        guard lane.isDirect(head.sequence) else { return }
        if isBatched, head.sequence == lane.directFrom, head.sequence < lane.directThrough {
            // One before it failed in the same batch.
            lane.directFrom = head.sequence + 1
        } else if lane.upcoming.contains(where: { $0.sequence < head.sequence }) {
            lane.directThrough = head.sequence - 1
            lane.isDirectRangeOpen = false
        } else if head.sequence < lane.directThrough {
            lane.directFrom = head.sequence + 1
        } else {
            lane.closeDirectRange()
        }
    }

    /// Notes that the call of the transport returned. Its outcome is reported separately.
    package mutating func callReturned(_ token: UInt64, _ now: Moment) {
        guard var flight = flights[token] else { return }
        flight.isRunning = false
        guard flight.isEnded else {
            flights[token] = flight
            return
        }
        removeFlight(token)
        guard lanes[flight.conversation]?.flight != nil else { return }
        withLane(flight.conversation, now) { $0.end(token) }
    }
}
