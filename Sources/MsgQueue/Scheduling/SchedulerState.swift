/// Why nothing is being sent now, and what would follow: for the state of the queue, and for words that must be true.
extension Scheduler {
    /// So many entries are looked at where looking at all would not be O(1).
    private static let lookedAt = 16

    // MARK: One message

    /// What follows when a message's wait is over. `place`: so many queued messages are before it at most, where a batch limits a run.
    package func wait(
        _ reason: Explanation.Reason, until: Int64, _ sequence: Int64, _ conversation: Name, place: Int = 0
    ) -> Wait {
        let isInTurn = defaultBatch > 0 && place >= defaultBatch
        guard [.retrying, .scheduled, .holding, .storage].contains(reason) else {
            return Wait(reason: reason, until: until, isInTurn: isInTurn)
        }
        let lane = lanes[conversation]
        let isOwn = lane?.isDirect(sequence) == true || lane?.asked.contains(sequence) == true
        let after: Explanation.Reason
        if isForced(sequence) {
            after = .next
        } else if !isOwn && mode != .auto {
            after = .person
        } else if !mayWake {
            after = .trigger
        } else {
            // A retry needs no budget, and the end of a hold is a trigger itself.
            let hasBudget = reason == .holding ? !isInTurn : budget > place
            after = isOwn || hasBudget || reason == .retrying || reason == .storage ? .next : .trigger
        }
        return Wait(reason: reason, until: until, after: after, isInTurn: isInTurn)
    }

    /// The scheduler as it would be when a connection came and stayed, and nobody did anything else, for a message with so many queued
    /// ones before it. The link may be metered.
    package func connected(_ now: Moment, place: Int = 0) -> Scheduler {
        var other = self
        other.network.connectivity = .online
        other.network.metered = true
        other.returnedAt = now.mono
        (other.settledAt, other.pausedUntil, other.session) = (0, 0, nil)
        other.budget = defaultBatch == 0 ? Int.max : max(0, defaultBatch - place)
        return other
    }

    /// While offline: whether what is queued goes by itself when connected.
    package func isHeldBack(_ now: Moment) -> Bool {
        !hasTransport || !mayWake || isClosing || unmeteredOnly || defaultBatch > 0 || now.mono < limitedUntil
    }

    /// What of the backlog the engine may go through now.
    package enum Scope: Equatable { case nothing, everything, conversation(Name) }

    package func scopeUnderWay(_ now: Moment) -> Scope {
        if hasLeave(now) { return .everything }
        guard let session else { return .nothing }
        return session.conversation.map { .conversation($0) } ?? .everything
    }

    /// Whether a prompt stands.
    package func isAsking(_ now: Moment) -> Bool { prompt == .raised && now.mono < promptUntil }

    /// When the prompt expires, milliseconds since 1970.
    package func promptExpiry(_ now: Moment) -> Int64 { wall(promptUntil, now) }

    /// A monotonic time as wall time; one that has passed is now.
    func wall(_ mono: Int64, _ now: Moment) -> Int64 { now.wall.addingClamped(max(0, mono.subtractingClamped(now.mono))) }

    // MARK: The queue as a whole

    /// Why nothing is being sent now, in O(1): `queued` messages wait in the store, and `hasStart` says that one is about to start. What
    /// stops everything is told also when nothing is queued.
    package func wait(queued: Int64, hasStart: Bool, _ now: Moment) -> Wait {
        if inFlight > 0 { return Wait(reason: .sending) }
        let byItself: Explanation.Reason = mode != .auto ? .person : mayWake ? .next : .trigger
        if now.mono < storageUntil { return Wait(reason: .storage, until: wall(storageUntil, now), after: byItself) }
        if !hasTransport { return Wait(reason: .noTransport) }
        if !network.isOnline { return Wait(reason: .offline) }
        if isPaused { return Wait(reason: .paused) }
        if now.mono < limitedUntil { return Wait(reason: .holding, until: wall(limitedUntil, now), after: byItself) }
        if queued <= 0, forced.isEmpty { return Wait(reason: .done) }
        if hasStart || session != nil { return Wait(reason: .next) }
        if isAllHeld { return held }
        if unmeteredOnly, network.metered { return Wait(reason: .metered) }
        if mode == .auto {
            if let wait = withoutLeave(now) { return wait }
        } else if !isOwnAlone(queued) {
            return Wait(reason: .person)
        }
        return soonestMessage(now) ?? held
    }

    /// In mode auto: what keeps the engine from going through the backlog.
    private func withoutLeave(_ now: Moment) -> Wait? {
        if now.mono < pausedUntil { return Wait(reason: .holding, until: wall(pausedUntil, now), after: mayWake ? .next : .trigger) }
        if !mayWake { return Wait(reason: .trigger) }
        if now.mono < settledAt { return Wait(reason: .holding, until: wall(settledAt, now)) }
        return budget > 0 ? nil : Wait(reason: .trigger, until: timerAt > now.mono ? wall(timerAt, now) : 0)
    }

    /// In modes ask and manual: whether all that is queued goes without anybody's leave.
    private func isOwnAlone(_ queued: Int64) -> Bool {
        guard lanes.count <= Self.lookedAt else { return false }
        return queued <= ownMessages
    }

    /// The first message that starts when its time has come.
    private func soonestMessage(_ now: Moment) -> Wait? {
        guard let ticket = dues.first, let lane = lanes[ticket.conversation], lane.dueAt == ticket.key, ticket.key > now.mono else {
            return nil
        }
        guard let next = soonest(lane, ticket.conversation, now) else { return nil }
        if ticket.key < pausedUntil, !lane.isDirect(next.sequence) {
            return Wait(reason: .holding, until: wall(pausedUntil, now), after: mayWake ? .next : .trigger)
        }
        let isRetry = next.retryWait(now) >= next.scheduledWait(now)
        return Wait(reason: isRetry ? .retrying : .scheduled, until: wall(ticket.key, now), after: mayWake ? .next : .trigger)
    }

    /// Whether every conversation is known to be paused, or held by a failed message.
    private var isAllHeld: Bool {
        guard scanComplete, lanes.count <= Self.lookedAt, !blocks.isEmpty || !pausedConversations.isEmpty else { return false }
        return lanes.allSatisfy { name, lane in
            if pausedConversations.contains(name) || !lane.hasMessages { return true }
            guard let block = blocks[name] else { return false }
            return (lane.upcoming + lane.deferred).allSatisfy { block < $0.sequence }
        }
    }

    /// What else keeps messages of an engine that may send.
    private var held: Wait {
        if isAnyPaused { return Wait(reason: .paused) }
        if blocks.count > Self.lookedAt || blocks.contains(where: { lanes[$0.key]?.hasMessages == true }) { return Wait(reason: .blocked) }
        return Wait(reason: network.metered ? .metered : mode == .auto ? .next : .person)
    }

    /// Whether messages wait in a paused conversation.
    private var isAnyPaused: Bool {
        if pausedConversations.prefix(Self.lookedAt).contains(where: { lanes[$0]?.hasMessages == true }) { return true }
        if pausedConversations.count <= Self.lookedAt { return false }
        if lanes.prefix(Self.lookedAt).contains(where: { $0.value.hasMessages && pausedConversations.contains($0.key) }) { return true }
        // Too many of both to know: then they are, unless something else may be the reason.
        return lanes.count > Self.lookedAt && !network.metered && blocks.isEmpty
    }
}
