/// What the scheduler is told: by the host, and by the engine after a commit.
extension Scheduler {
    // MARK: The world

    package mutating func networkChanged(_ network: Network, _ now: Moment) {
        let was = self.network
        self.network = network
        if network.isOnline, !was.isOnline {
            settledAt = now.mono + settle
            pausedUntil = 0
            if prompt == .disarmed { prompt = .armed }
        } else if network.isOnline {
            // Another link may be a way out.
            pausedUntil = 0
            round?.seekAgain()
        } else {
            // It had stayed for long enough.
            if was.isOnline, settledAt != 0, settledAt <= now.mono { networkReturned(at: settledAt) }
            settledAt = 0
            // What would have gone at once is backlog now.
            for conversation in Array(lanes.keys) {
                lanes[conversation]?.endChain()
                lanes[conversation]?.asked = []
                lanes[conversation]?.askedThrough = 0
            }
            round = nil
        }
        placeAll(now)
    }

    /// The wall clock was set, or the machine slept: what waits by it is looked at anew.
    package mutating func clockSet(_ now: Moment) { placeAll(now) }

    package mutating func transportChanged(present: Bool, _ now: Moment) {
        hasTransport = present
        placeAll(now)
    }

    package mutating func closing() { isClosing = true }

    /// Nothing starts until `resume`: in one conversation, or (nil) at all. False: so it was already.
    package mutating func pause(_ conversation: Name?, _ now: Moment) -> Bool {
        if let conversation {
            round?.setAside(conversation)
            return pausedConversations.insert(conversation).inserted
        }
        defer { isPaused = true }
        return !isPaused
    }

    package mutating func resume(_ conversation: Name?, _ now: Moment) -> Bool {
        let was: Bool
        if let conversation {
            was = pausedConversations.remove(conversation) != nil
            if was { round?.seekAgain() }
        } else {
            was = isPaused
            isPaused = false
        }
        if was { trigger(now) }
        return was
    }

    package mutating func lifecycleChanged(isInBackground: Bool, _ now: Moment) {
        guard isInBackground != self.isInBackground else { return }
        self.isInBackground = isInBackground
        guard !isInBackground else { return }
        pausedUntil = 0
        if prompt == .disarmed { prompt = .armed }
        trigger(now)
    }

    /// A receiver asked the whole queue to wait until then. False: it waits longer already.
    @discardableResult
    package mutating func limit(until: Int64, _ now: Moment) -> Bool {
        guard until > limitedUntil else { return false }
        limitedUntil = until
        placeAll(now)
        return true
    }

    /// A message failed for good where that holds its conversation.
    package mutating func failed(_ sequence: Int64, _ conversation: Name, _ now: Moment) {
        guard blocksOnFailure else { return }
        block(conversation, at: min(blocks[conversation] ?? sequence, sequence), now)
    }

    package var blockedConversations: [Name] { Array(blocks.keys) }

    package func block(of conversation: Name) -> Int64? { blocks[conversation] }

    /// The first message that failed for good in a conversation, which holds those behind it; nil: none does any more.
    package mutating func block(_ conversation: Name, at sequence: Int64?, _ now: Moment) {
        guard blocks[conversation] != sequence else { return }
        blocks[conversation] = sequence
        place(conversation, now)
    }

    /// The store would not write: nothing starts before `until`.
    package mutating func storageFailed(until: Int64) { storageUntil = until }

    package mutating func storageRecovered(_ now: Moment) {
        storageUntil = 0
        placeAll(now)
    }

    // MARK: The drain

    /// A drain was asked for, of one conversation or (nil) of all. It joins one that does the same already; one of another scope begins when
    /// the one under way has ended. The number of the drain that answers the request, and whether that begins now.
    package mutating func drain(_ conversation: Name? = nil, batch: Int, timeout: Int64?, _ now: Moment) -> (number: Int, begins: Bool) {
        if let session, session.covers(conversation) { return (session.number, false) }
        if let other = pending.first(where: { $0.covers(conversation) }) { return (other.number, false) }
        drains += 1
        let new = Session(
            number: drains, conversation: conversation, deadline: timeout.map { now.mono.addingClamped($0) },
            batch: batch == 0 ? defaultBatch : batch)
        guard session == nil else {
            pending.append(new)
            return (drains, false)
        }
        begin(new, now)
        return (drains, true)
    }

    private mutating func begin(_ new: Session, _ now: Moment) {
        session = new
        if let conversation = new.conversation {
            // What of it is on disk is read beside the scan.
            lanes[conversation, default: Lane()].more = true
        } else {
            pausedUntil = 0
            // It is the answer to a question that was not asked yet, too.
            if prompt == .armed { prompt = .disarmed }
        }
        placeAll(now)
    }

    /// The drain is over and reported; `through`: the last message in the store. Without leave of its own the engine forgets the backlog again: it is on disk. True: another one,
    /// which waited for its end, begins.
    package mutating func finished(_ stop: Report.Stop, through: Int64, _ now: Moment) -> Bool {
        if stop == .waiting, mode == .ask, isStrict { followReturns(through: through, now) }
        session = nil
        if mode != .auto {
            scannedThrough = 0
            scanComplete = false
        }
        placeAll(now)
        guard !pending.isEmpty else { return false }
        begin(pending.removeFirst(), now)
        return true
    }

    /// What the drain leaves behind a message that comes back by its timer was asked for, too: it follows.
    private mutating func followReturns(through: Int64, _ now: Moment) {
        for (conversation, lane) in lanes where session?.serves(conversation) == true {
            guard let head = lane.upcoming.first, lane.asked.contains(head.sequence) else { continue }
            let free = lane.upcoming.filter { !isKept($0, now) }
            lanes[conversation]?.askedThrough = through
            lanes[conversation]?.follow(free)
        }
    }

    /// What is known of the backlog is wrong: the store is read anew.
    package mutating func forgetBacklog(_ now: Moment) {
        for (conversation, lane) in lanes {
            guard lane.flight != nil else {
                lanes[conversation] = nil
                continue
            }
            // What stands before the message in flight may have been missed, too.
            var unread = lane
            (unread.upcoming, unread.deferred, unread.last, unread.more) = ([], [], 0, true)
            lanes[conversation] = unread
        }
        scannedThrough = 0
        scanComplete = false
        placeAll(now)
    }

    /// Something of this conversation counts in the report of the drain under way.
    package mutating func count(_ conversation: Name, _ change: (inout Report) -> Void) {
        guard var current = session, current.serves(conversation) else { return }
        change(&current.report)
        session = current
    }

    // MARK: Messages

    /// Whether a message enqueued now goes at once; nil: when nothing else of its conversation is queued in the store.
    package func goesDirect(_ conversation: Name) -> Bool? {
        guard direct, mayStart, !pausedConversations.contains(conversation), blocks[conversation] == nil else { return false }
        guard let lane = lanes[conversation] else { return scanComplete ? true : nil }
        if let head = lane.upcoming.first { return lane.isChainOpen && lane.isDirect(head.sequence) }
        if lane.more { return lane.isChainOpen && lane.directThrough > lane.last ? true : nil }
        return scanComplete ? true : nil
    }

    /// A message was enqueued; `goesDirect`: at once.
    package mutating func enqueued(_ head: Head, _ conversation: Name, goesDirect: Bool, _ now: Moment) {
        if scanComplete { scannedThrough = max(scannedThrough, head.sequence) }
        guard goesDirect || scanComplete else {
            // The scan will find it; what comes after it does not go past it.
            lanes[conversation]?.isChainOpen = false
            // There is no scan while one conversation is drained alone.
            if session?.conversation == conversation { withLane(conversation, now) { $0.more = true } }
            return
        }
        var lane = lanes[conversation] ?? Lane()
        let hadHead = !lane.upcoming.isEmpty
        if goesDirect {
            if !lane.isChainOpen || !(hadHead || lane.directThrough > lane.last) {
                // Nothing waits before it, so nothing is unknown.
                lane.more = false
                lane.last = head.sequence - 1
                lane.directFrom = head.sequence
            }
            lane.directThrough = head.sequence
        }
        lane.isChainOpen = goesDirect
        lane.append(head)
        lanes[conversation] = lane
        if !hadHead { place(conversation, now) }
    }

    /// Whether nothing between is unknown when a message takes its place in the lane.
    private func knows(_ sequence: Int64, _ lane: Lane) -> Bool {
        sequence <= lane.last || lane.more || scanComplete || sequence <= scannedThrough
    }

    /// With the end of its delay by the monotonic clock.
    func anchored(_ head: Head) -> Head {
        var anchored = head
        anchored.dueMono = head.due.isNone ? nil : head.due.end(opening)
        // The network returned after the delay began.
        if head.waitsForNetwork, let end = anchored.dueMono, end.subtractingClamped(head.due.delay) <= returnedAt {
            anchored.dueMono = nil
        }
        return anchored
    }

    /// The network is back, and stayed: what failed for want of it is due.
    mutating func networkReturned(at time: Int64) {
        returnedAt = time
        for conversation in Array(lanes.keys) {
            guard var lane = lanes[conversation] else { continue }
            lane.upcoming = lane.upcoming.map(anchored)
            lane.deferred = lane.deferred.map(anchored)
            lanes[conversation] = lane
        }
    }

    /// The machine slept so long. Attempts under way did not get on meanwhile: it does not count against their time.
    package mutating func slept(_ time: Int64) {
        for token in Array(flights.keys) { flights[token]?.prolong(time) }
    }

    /// A person sends this message now.
    package mutating func force(_ sequence: Int64, _ conversation: Name, _ hand: Hand) {
        forced.removeAll { $0.sequence == sequence }
        forced.append(Forced(conversation: conversation, sequence: sequence, hand: hand))
    }

    /// A wish of a person ended for want of a connection; `back`: the message waits in its place.
    package mutating func endedUnreachable(_ sequence: Int64, _ conversation: Name, back: Head?, _ now: Moment) {
        forced.removeAll { $0.sequence == sequence }
        if let back { returned(back, conversation, now) }
    }

    /// A message became queued again in its old place, or its times changed.
    package mutating func returned(_ head: Head, _ conversation: Name, _ now: Moment) {
        // Where the scan has not been, it will find the message; what it has passed it would miss.
        guard knows(head.sequence, lanes[conversation] ?? Lane()) else { return }
        let known = anchored(head)
        withLane(conversation, now) { $0.insert(known) }
    }

    /// A message is no longer queued: deleted, failed, sent.
    package mutating func removed(_ sequence: Int64, _ conversation: Name, _ now: Moment) {
        forced.removeAll { $0.sequence == sequence }
        round?.remove(sequence)
        if lanes[conversation]?.asked.contains(sequence) == true { round?.returned(conversation) }
        guard lanes[conversation] != nil else { return }
        withLane(conversation, now) { $0.remove(sequence) }
    }

    /// Everything unsent of one conversation, or of all, is gone; what is under way stays.
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

    /// Queued messages behind the last scan, in order; `complete`: there are none behind them.
    package mutating func scanned(_ rows: [(conversation: Name, head: Head)], complete: Bool, _ now: Moment) {
        var touched = Set<Name>()
        for (conversation, head) in rows {
            scannedThrough = max(scannedThrough, head.sequence)
            var lane = lanes[conversation] ?? Lane()
            if let token = lane.flight, let flight = flights[token], flight.sequence == head.sequence, !flight.isEnded { continue }
            guard head.sequence > lane.last else { continue }
            lane.append(anchored(head))
            lanes[conversation] = lane
            touched.insert(conversation)
        }
        if complete { scanComplete = true }
        for conversation in touched { place(conversation, now) }
    }

    /// Queued messages of one conversation behind the last one known; `complete`: there are none behind them.
    package mutating func loaded(_ conversation: Name, _ heads: [Head], complete: Bool, _ now: Moment) {
        guard lanes[conversation] != nil else { return }
        let known = heads.map(anchored)
        let free = known.filter { !isKept($0, now) }
        withLane(conversation, now) { lane in
            lane.upcoming = known
            lane.more = !complete
            lane.last = heads.last?.sequence ?? lane.last
            if complete { lane.askedThrough = min(lane.askedThrough, lane.last) }
            lane.follow(free)
        }
    }

    // MARK: Attempts

    /// An attempt is on disk and about to be made.
    package mutating func started(_ flight: Flight, _ now: Moment) {
        forced.removeAll { $0.sequence == flight.sequence }
        flights[flight.token] = flight
        round?.remove(flight.sequence)
        if flight.hand == .none, !isRetry(flight) {
            if session?.serves(flight.conversation) == true {
                session?.started += 1
            } else if lanes[flight.conversation]?.isDirect(flight.sequence) != true, budget != Int.max {
                budget -= 1
            }
        }
        let isKnown = knows(flight.sequence, lanes[flight.conversation] ?? Lane())
        withLane(flight.conversation, now) { lane in
            lane.remove(flight.sequence)
            lane.flight = flight.token
            // A message out of its turn, in a conversation that nobody has looked at.
            if !isKnown { lane.more = true }
        }
    }

    /// Whether the ladder has led to the attempt: no batch counts it.
    private func isRetry(_ flight: Flight) -> Bool {
        lanes[flight.conversation]?.upcoming.first { $0.sequence == flight.sequence }?.isRetry ?? false
    }

    /// The attempt has an outcome; `back`: its message is queued again and waits in its place.
    package mutating func ended(_ token: UInt64, back: Head?, offline: Bool, timedOut: Bool, _ now: Moment) {
        guard var flight = flights[token] else { return }
        flight.isEnded = true
        flight.timedOut = timedOut
        flights[token] = flight
        if offline {
            if session?.serves(flight.conversation) == true { session?.stop = .offline }
            round = nil
            pausedUntil = now.mono + Self.offlinePause
        }
        if !flight.isRunning { flights[token] = nil }
        guard var lane = lanes[flight.conversation] else { return }
        if !flight.isRunning { lane.flight = nil }
        lane.asked.remove(flight.sequence)
        if let back {
            if isStrict { round?.hold(flight.conversation, behind: flight.sequence) }
            takeBack(back, into: &lane)
            if mode == .ask, !offline {
                lane.asked.insert(back.sequence)
                if isStrict { round?.holdForReturn(flight.conversation) }
            }
        } else {
            round?.returned(flight.conversation)
        }
        if lane.upcoming.isEmpty, lane.deferred.isEmpty, !lane.more { lane.endChain() }
        lanes[flight.conversation] = lane
        if offline { placeAll(now) } else { place(flight.conversation, now) }
    }

    /// A message that was tried waits in its place; it has had its chance to go at once, and those behind it wait for it.
    private func takeBack(_ head: Head, into lane: inout Lane) {
        if knows(head.sequence, lane) { lane.insert(anchored(head)) }
        guard lane.isDirect(head.sequence) else { return }
        if lane.upcoming.contains(where: { $0.sequence < head.sequence }) {
            lane.directThrough = head.sequence - 1
            lane.isChainOpen = false
        } else if head.sequence < lane.directThrough {
            lane.directFrom = head.sequence + 1
        } else {
            lane.endChain()
        }
    }

    /// The transport's call came back; whatever it answered is told separately.
    package mutating func callReturned(_ token: UInt64, _ now: Moment) {
        guard var flight = flights[token] else { return }
        flight.isRunning = false
        guard flight.isEnded else {
            flights[token] = flight
            return
        }
        flights[token] = nil
        guard lanes[flight.conversation]?.flight == token else { return }
        withLane(flight.conversation, now) { $0.flight = nil }
    }
}
