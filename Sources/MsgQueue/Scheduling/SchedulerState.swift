/// Why nothing is sent now, and what happens next: for the state of the queue and its texts.
extension Scheduler {
    /// The number of entries that are examined where examining all would not be O(1).
    private static let examined = 16

    // MARK: One message

    /// What happens when the wait of a message ends. `ahead`: an upper bound of the queued messages before it, where a batch limits a run.
    package func wait(
        _ reason: Explanation.Reason, until: Int64, _ sequence: Int64, _ conversation: Name, ahead: Int = 0
    ) -> Wait {
        let isInTurn = defaultBatch > 0 && ahead >= defaultBatch
        guard [.retrying, .scheduled, .holding, .storage].contains(reason) else {
            return Wait(reason: reason, until: until, isInTurn: isInTurn)
        }
        let lane = lanes[conversation]
        let isOwn = lane?.isDirect(sequence) == true || lane?.approved.contains(sequence) == true
        let after: Explanation.Reason
        if isForced(sequence) {
            after = .next
        } else if !isOwn && mode != .auto {
            after = .person
        } else if !timersRun {
            after = .trigger
        } else {
            // A retry needs no budget, and the end of a hold renews it.
            let hasBudget = reason == .holding ? !isInTurn : budget > ahead
            after = isOwn || hasBudget || reason == .retrying || reason == .storage ? .next : .trigger
        }
        return Wait(reason: reason, until: until, after: after, isInTurn: isInTurn)
    }

    /// Returns a copy in the state after the connection returned and became stable, with no other input, for a message with `ahead` queued
    /// ones before it. The link may be metered.
    package func assumingOnline(_ now: Moment, ahead: Int = 0) -> Scheduler {
        var other = self
        other.network.connectivity = .online
        other.network.metered = true
        other.returnedAt = now.mono
        (other.stableAt, other.offlineHoldUntil, other.session) = (0, 0, nil)
        other.budget = defaultBatch == 0 ? Int.max : max(0, defaultBatch - ahead)
        return other
    }

    /// Whether something other than the missing connection prevents automatic sending.
    package func isHeldBack(_ now: Moment) -> Bool {
        !hasTransport || !timersRun || isClosing || unmeteredOnly || defaultBatch > 0 || now.mono < receiverHoldUntil
    }

    /// The part of the backlog that may be sent now.
    package enum Scope: Equatable { case nothing, everything, conversation(Name) }

    package func activeScope(_ now: Moment) -> Scope {
        if maySend(now) { return .everything }
        guard let session else { return .nothing }
        return session.conversation.map { .conversation($0) } ?? .everything
    }

    /// Whether a prompt is open.
    package func isAsking(_ now: Moment) -> Bool { prompt == .raised && now.mono < promptUntil }

    /// When the prompt expires, milliseconds since 1970.
    package func promptExpiry(_ now: Moment) -> Int64 { wall(promptUntil, now) }

    /// Converts a monotonic time to wall time; a past time becomes the current time.
    func wall(_ mono: Int64, _ now: Moment) -> Int64 { now.wall.addingClamped(max(0, mono.subtractingClamped(now.mono))) }

    // MARK: The queue as a whole

    /// Why nothing is sent now, in O(1). `queued` messages are in the store; `hasStart`: an attempt is about to start. Reasons that stop
    /// the whole queue are returned even if nothing is queued.
    package func wait(queued: Int64, hasStart: Bool, _ now: Moment) -> Wait {
        if inFlight > 0 { return Wait(reason: .sending) }
        let afterwards: Explanation.Reason = mode != .auto ? .person : timersRun ? .next : .trigger
        if now.mono < storageRetryAt { return Wait(reason: .storage, until: wall(storageRetryAt, now), after: afterwards) }
        if !hasTransport { return Wait(reason: .noTransport) }
        if !network.isOnline { return Wait(reason: .offline) }
        if isPaused { return Wait(reason: .paused) }
        if now.mono < receiverHoldUntil { return Wait(reason: .holding, until: wall(receiverHoldUntil, now), after: afterwards) }
        if queued <= 0, forced.isEmpty { return Wait(reason: .done) }
        if hasStart || session != nil { return Wait(reason: .next) }
        if areAllHeld { return held }
        if unmeteredOnly, network.metered { return Wait(reason: .metered) }
        if mode == .auto {
            if let wait = automaticSendingHold(now) { return wait }
        } else if !areAllSelfStarting(queued) {
            return Wait(reason: .person)
        }
        return soonestMessage(now) ?? held
    }

    /// In mode auto: what delays automatic sending; nil: nothing.
    private func automaticSendingHold(_ now: Moment) -> Wait? {
        if now.mono < offlineHoldUntil {
            return Wait(reason: .holding, until: wall(offlineHoldUntil, now), after: timersRun ? .next : .trigger)
        }
        if !timersRun { return Wait(reason: .trigger) }
        if now.mono < stableAt { return Wait(reason: .holding, until: wall(stableAt, now)) }
        return budget > 0 ? nil : Wait(reason: .trigger, until: nextTriggerAt > now.mono ? wall(nextTriggerAt, now) : 0)
    }

    /// In modes ask and manual: whether every queued message starts without a drain or an answer.
    private func areAllSelfStarting(_ queued: Int64) -> Bool {
        guard lanes.count <= Self.examined else { return false }
        return queued <= selfStartingMessages
    }

    /// The wait for the message that is due first.
    private func soonestMessage(_ now: Moment) -> Wait? {
        guard let ticket = dueTimes.first, let lane = lanes[ticket.conversation], lane.dueAt == ticket.key, ticket.key > now.mono else {
            return nil
        }
        guard let next = soonest(lane, ticket.conversation, now) else { return nil }
        if ticket.key < offlineHoldUntil, !lane.isDirect(next.sequence) {
            return Wait(reason: .holding, until: wall(offlineHoldUntil, now), after: timersRun ? .next : .trigger)
        }
        let isRetry = next.retryWait(now) >= next.scheduledWait(now)
        return Wait(reason: isRetry ? .retrying : .scheduled, until: wall(ticket.key, now), after: timersRun ? .next : .trigger)
    }

    /// Whether every conversation is paused or blocked by a failed message.
    private var areAllHeld: Bool {
        guard scanComplete, lanes.count <= Self.examined, !blocks.isEmpty || !pausedConversations.isEmpty else { return false }
        return lanes.allSatisfy { name, lane in
            if pausedConversations.contains(name) || !lane.hasMessages { return true }
            guard let block = blocks[name] else { return false }
            return (lane.upcoming + lane.deferred).allSatisfy { block < $0.sequence }
        }
    }

    /// Why messages wait although sending is allowed.
    private var held: Wait {
        if isAnyPaused { return Wait(reason: .paused) }
        if blocks.count > Self.examined || blocks.contains(where: { lanes[$0.key]?.hasMessages == true }) { return Wait(reason: .blocked) }
        return Wait(reason: network.metered ? .metered : mode == .auto ? .next : .person)
    }

    /// Whether a paused conversation has queued messages.
    private var isAnyPaused: Bool {
        if pausedConversations.prefix(Self.examined).contains(where: { lanes[$0]?.hasMessages == true }) { return true }
        if pausedConversations.count <= Self.examined { return false }
        if lanes.prefix(Self.examined).contains(where: { $0.value.hasMessages && pausedConversations.contains($0.key) }) { return true }
        // Both sets are too large to compare: assume so unless there is another possible reason.
        return lanes.count > Self.examined && !network.metered && blocks.isEmpty
    }
}
