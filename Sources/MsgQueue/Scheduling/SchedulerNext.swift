/// What to do next.
extension Scheduler {
    /// The next step. `queued` counts the messages in the store that wait or are being sent; `inSession`: those of the conversation that
    /// is drained alone.
    package mutating func next(_ now: Moment, queued: Int64, inSession: Int64? = nil) -> Step {
        if let token = overdue(now) { return .timeOut(token: token) }
        if let step = nextOfPrompt(now, queued: queued) { return step }
        guard now.mono >= storageUntil else {
            if session != nil { return .finish(.storage) }
            // What else is due must wait for the store, too, except what needs none of it.
            let deadlines = flights.values.filter { !$0.isEnded }.map(\.deadline)
            return .wait(until: min(storageUntil, deadlines.min() ?? storageUntil))
        }
        if let entry = forced.first(where: { !network.isOnline || isPaused($0.conversation) }) {
            return .endUnreachable(conversation: entry.conversation, sequence: entry.sequence, hand: entry.hand)
        }
        if let stop = endOfSession(now) { return .finish(stop) }
        wakeWaiting(now)
        if mayStart {
            // What a person asks for does not wait for the engine's own attempts.
            if slotsTaken < maxInFlight + Self.slotsByHand, let step = nextByHand() { return step }
            if slotsTaken < maxInFlight, let step = nextOfRound(now) ?? nextInOrder(now, queued: queued) { return step }
        }
        if let session, isDone(session) {
            return .finish((inSession ?? queued) == 0 ? .empty : isHeldByPauses(session) ? .paused : .waiting)
        }
        if mayAsk(now, queued: queued) { return .raisePrompt }
        return .wait(until: soonest(now, nil))
    }

    /// An attempt whose time is up.
    private func overdue(_ now: Moment) -> UInt64? {
        flights.values.filter { !$0.isEnded && $0.deadline <= now.mono }.min { $0.token < $1.token }?.token
    }

    /// Why the drain must end although there may be more; nil: it goes on.
    private func endOfSession(_ now: Moment) -> Report.Stop? {
        guard let session else { return nil }
        if isClosing { return .closed }
        if let deadline = session.deadline, deadline <= now.mono { return .timeout }
        // What is under way belongs to the drain.
        guard underWay(in: session) == 0 else { return nil }
        if !network.isOnline { return .offline }
        if isPaused { return .paused }
        if let stop = session.stop { return stop }
        return session.hasBatchLeft ? nil : .batch
    }

    /// Whether nothing of it is under way, or only waits for attempts of other conversations to end.
    private func isDone(_ session: Session) -> Bool {
        underWay(in: session) == 0 && (slotsTaken < maxInFlight || underWay == 0)
    }

    /// Whether all that is queued belongs to paused conversations.
    private func isHeldByPauses(_ session: Session) -> Bool {
        if let conversation = session.conversation { return pausedConversations.contains(conversation) }
        guard scanComplete, !pausedConversations.isEmpty else { return false }
        let held = lanes.filter { $0.value.hasMessages }
        return !held.isEmpty && held.keys.allSatisfy(pausedConversations.contains)
    }

    /// What a person sends now goes before everything, as soon as its conversation is free.
    private func nextByHand() -> Step? {
        for entry in forced where lanes[entry.conversation]?.flight == nil {
            return .start(conversation: entry.conversation, sequence: entry.sequence, hand: entry.hand)
        }
        return nil
    }

    /// The oldest message that may go; reads on in the store when an older one could be there.
    private mutating func nextInOrder(_ now: Moment, queued: Int64) -> Step? {
        // A drain's batch that is used up ends the drain before anything else goes.
        if let session, !session.hasBatchLeft { return nil }
        let leave = hasLeave(now)
        if leave, !scanComplete, queued == 0 { scanComplete = true }
        while let ticket = ready.first {
            guard let step = step(for: ticket, now) else {
                ready.removeFirst()
                continue
            }
            if leave, !scanComplete, ticket.key > scannedThrough { break }
            return step
        }
        guard leave, !scanComplete else { return nil }
        return .scan(after: scannedThrough, limit: Self.scanChunk)
    }

    /// What a ticket stands for; nil when that is no longer so.
    private func step(for ticket: Ticket, _ now: Moment) -> Step? {
        guard let lane = lanes[ticket.conversation], lane.flight == nil, !pausedConversations.contains(ticket.conversation) else {
            return nil
        }
        guard let head = lane.upcoming.first else {
            guard mayLoad(lane, ticket.conversation, now) else { return nil }
            return .load(conversation: ticket.conversation, after: lane.last, limit: Lane.window)
        }
        guard head.sequence == ticket.key else { return nil }
        if head.hasExpired(now) { return .expire(conversation: ticket.conversation, sequence: head.sequence) }
        guard head.wait(now) <= 0, mayGo(head, lane, ticket.conversation, now) else { return nil }
        return .start(conversation: ticket.conversation, sequence: head.sequence, hand: .none)
    }

    /// What has come to its time: the settled link, the end of a pause, the timer, and lanes, which are placed anew.
    private mutating func wakeWaiting(_ now: Moment) {
        var isDue = false
        if settledAt != 0, settledAt <= now.mono, network.isOnline { networkReturned(at: settledAt) }
        for time in [\Scheduler.settledAt, \.pausedUntil, \.limitedUntil] as [WritableKeyPath<Scheduler, Int64>]
        where self[keyPath: time] != 0 && self[keyPath: time] <= now.mono {
            self[keyPath: time] = 0
            isDue = true
        }
        if timer > 0, mayWake {
            isDue = isDue || (timerAt != 0 && timerAt <= now.mono)
            if timerAt <= now.mono { timerAt = now.mono + timer }
        }
        if isDue { trigger(now) }
        while let ticket = dues.first, !isDueLater(ticket, now) { dues.removeFirst() }
        guard wakesLanes else { return }
        while let ticket = waiting.first, ticket.key <= now.mono {
            waiting.removeFirst()
            guard lanes[ticket.conversation]?.wakeAt == ticket.key else { continue }
            lanes[ticket.conversation]?.wakeAt = 0
            place(ticket.conversation, now)
        }
    }

    /// Whether the ticket of a message that is due later still stands for one.
    private func isDueLater(_ ticket: Ticket, _ now: Moment) -> Bool {
        ticket.key > now.mono && lanes[ticket.conversation]?.dueAt == ticket.key && !pausedConversations.contains(ticket.conversation)
    }

    /// Something happened that lets automatic sending begin anew: the launch, the foreground, a connection, the timer, a resume.
    mutating func trigger(_ now: Moment) {
        budget = defaultBatch == 0 ? Int.max : defaultBatch
        placeAll(now)
    }

    /// The nearest time at which something could change by itself, whatever else there is to do.
    package func deadline(_ now: Moment) -> Int64? { soonest(now, nil).map { max($0, now.mono + 1) } }

    /// The nearest time at which something could change by itself.
    private func soonest(_ now: Moment, _ extra: Int64?) -> Int64? {
        var times = flights.values.filter { !$0.isEnded }.map(\.deadline)
        if let extra { times.append(extra) }
        if wakesLanes, let ticket = waiting.first { times.append(ticket.key) }
        // In the background a drain goes on, and the prompt is raised.
        if wakesLanes || mode == .ask, settledAt > now.mono { times.append(settledAt) }
        if mayWake {
            times += [pausedUntil, timerAt].filter { $0 > now.mono }
        }
        if limitedUntil > now.mono { times.append(limitedUntil) }
        if let rest = round?.restsUntil, rest > now.mono { times.append(rest) }
        if let deadline = session?.deadline { times.append(deadline) }
        if prompt == .raised { times.append(promptUntil) }
        return times.min()
    }

    // MARK: The prompt

    private func nextOfPrompt(_ now: Moment, queued: Int64) -> Step? {
        switch prompt {
        case .disarmed: return nil
        case .raised:
            // A drain of one conversation is no answer to it.
            let stands =
                network.isOnline && queued > 0 && (session == nil || session?.conversation != nil) && !isClosing && now.mono < promptUntil
            return stands ? nil : .withdrawPrompt
        case .armed: return nil
        }
    }

    /// Whether a person is to be asked: there is a backlog that does not go by itself.
    private func mayAsk(_ now: Moment, queued: Int64) -> Bool {
        guard mode == .ask, prompt == .armed, mayStart, session == nil, round?.isBusy != true, now.mono >= settledAt, underWay == 0
        else { return false }
        return queued > ownMessages
    }

    /// Known messages that go without anybody's leave.
    var ownMessages: Int64 {
        lanes.values.reduce(0) { sum, lane in
            sum + Int64((lane.upcoming + lane.deferred).count { lane.isDirect($0.sequence) || lane.asked.contains($0.sequence) })
        }
    }

    package mutating func promptRaised(_ now: Moment) {
        prompt = .raised
        promptUntil = now.mono + promptTimeout
    }

    package mutating func promptWithdrawn() { prompt = .disarmed }
}
