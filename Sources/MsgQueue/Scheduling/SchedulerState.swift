/// Why nothing is sent now, and what happens next: for the state of the queue and its texts.
extension Scheduler {
    /// The number of entries that are examined where examining all would not be O(1).
    private static let examined = 16

    // MARK: One message

    /// The time before which no run of the queue sends the message, in milliseconds since 1970; 0: it may be sent now.
    func earliestStart(_ stored: Head, _ conversation: Name, _ now: Moment) -> Int64 {
        let delay = max(
            withExpectedWaits(stored, conversation, now).wait(now), (holds.receiverEnd ?? now.mono).subtractingClamped(now.mono))
        return delay > 0 ? now.wall.addingClamped(delay) : 0
    }

    /// How many messages one run of the queue sends.
    var runLimit: Int { defaultBatch == 0 ? Int.max : defaultBatch }

    /// Whether the message starts in every mode, without a drain or an answer: it is sent directly or approved.
    func startsUnasked(_ head: Head, _ conversation: Name) -> Bool {
        guard let lane = lanes[conversation] else { return false }
        return lane.isDirect(head.sequence) || lane.approved.contains(head.sequence)
    }

    /// What happens to the message when the store accepts writes again.
    func afterStorage(_ head: Head, _ conversation: Name) -> Explanation.Reason {
        if isForced(head.sequence) { return .next }
        if lanes[conversation]?.isDirect(head.sequence) == true { return .next }
        if mode != .auto, !startsUnasked(head, conversation) { return .person }
        return timersRun ? .next : .trigger
    }

    /// Returns a copy in the state after the connection returned and became stable, with no other input. If the message requires an unmetered
    /// link, the link is metered; otherwise it is not, so that messages before it may block it.
    func assumingOnline(_ head: Head, _ now: Moment) -> Scheduler {
        var other = self
        other.network.connectivity = .online
        other.network.metered = head.unmeteredOnly || unmeteredOnly
        other.returnedAt = now.mono
        other.pace?.restart(at: now.mono)
        other.holds.disconnected()
        other.holds.endOfflinePause()
        (other.session, other.lingering) = (nil, nil)
        other.budget = runLimit
        other.beginBacklog()
        return other
    }

    /// Returns a copy in the state at a later time, with no input and no attempt until then.
    func assuming(_ then: Moment) -> Scheduler {
        var other = self
        // A drain ends when nothing of it can be sent now.
        other.session = nil
        if network.isOnline, let stableAt = holds.stableAt, stableAt <= then.mono { other.returnedAt = max(returnedAt, stableAt) }
        let hasTriggered = timersRun && nextTriggerAt.map { $0 <= then.mono } ?? false
        let hasHoldEnded = holds.isOver(by: then.mono)
        if hasHoldEnded || (hasTriggered && !hasBudget) { other.beginBacklog() }
        if hasTriggered || hasHoldEnded { other.budget = runLimit }
        return other
    }

    /// Whether something other than the missing connection prevents automatic sending.
    package func isHeldBack(_ now: Moment) -> Bool {
        !hasTransport || !timersRun || isClosing || unmeteredOnly || defaultBatch > 0 || isHeldByReceiver(now)
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
    package func promptExpiry(_ now: Moment) -> Int64 {
        let end = wall(promptUntil, now)
        // The two clocks are truncated to milliseconds: their difference may change by one.
        return end.subtractingClamped(promptEnd).magnitude > 2 ? end : promptEnd
    }

    /// Converts a monotonic time to wall time; a past time becomes the current time.
    func wall(_ mono: Int64, _ now: Moment) -> Int64 { now.wall.addingClamped(max(0, mono.subtractingClamped(now.mono))) }

    /// Why there is no connection, as the host or the last attempt says; "": unknown, or there is one.
    package var offlineReason: String { network.offlineReason.isEmpty ? attemptOfflineReason : network.offlineReason }

    // MARK: The queue as a whole

    /// Why nothing is sent now, in O(1). `queued` messages are in the store, and `queuedIn` returns the number of a conversation;
    /// `hasStart`: an attempt is about to start. Reasons that stop the whole queue are returned even if nothing is queued.
    package func wait(
        queued: Int64, hasStart: Bool, queuedIn: (Name) -> Int64 = { _ in 0 }, _ now: Moment
    ) -> Wait {
        if inFlight > 0 { return Wait(reason: .sending) }
        let afterwards: Explanation.Reason = mode != .auto ? .person : timersRun ? .next : .trigger
        if isStoreRefusing(now) { return Wait(reason: .storage, until: wall(storageRetryAt, now), after: afterwards) }
        if let barrier { return Wait(reason: barrier) }
        if let held = receiverHold(now) {
            let end = wall(held, now)
            return Wait(reason: .holding, until: end, after: afterwards, earliest: end)
        }
        if queued <= 0, forced.isEmpty { return Wait(reason: .done) }
        if startWaitsForRate, let wait = rateWait(now) { return wait }
        if let end = lingerEnd(now) { return Wait(reason: .next, until: wall(end, now)) }
        if hasStart || session != nil { return Wait(reason: .next) }
        if areAllHeld { return held }
        if isMeteredForAll { return Wait(reason: .metered) }
        if mode == .auto {
            // In the background a message that was skipped starts by itself, also while others wait for the next run.
            if !timersRun, let wait = soonestMessage(now), wait.after == .next { return wait }
            if case .wait(let reason, let until)? = automaticHold(now) { return Wait(reason: reason, until: until) }
        } else if !areAllSelfStarting(queued, queuedIn) {
            return Wait(reason: .person)
        }
        return soonestMessage(now) ?? held
    }

    /// The wait for the next attempt that the rate permits; nil: it permits one now.
    func rateWait(_ now: Moment) -> Wait? {
        guard let pace, !pace.isOpen(at: now.mono) else { return nil }
        let end = wall(pace.opening(at: now.mono), now)
        return Wait(reason: .rate, until: end, earliest: end, pace: PaceText(pace))
    }

    /// In modes ask and manual: whether every queued message starts without a drain or an answer.
    private func areAllSelfStarting(_ queued: Int64, _ queuedIn: (Name) -> Int64) -> Bool {
        guard lanes.count <= Self.examined else { return false }
        return queued <= selfStartingMessages(queuedIn)
    }

    /// The number of messages that start without a drain or an answer. The index has only some of each conversation: one with further ones
    /// in the store counts as a whole.
    private func selfStartingMessages(_ queuedIn: (Name) -> Int64) -> Int64 {
        lanes.reduce(0) { sum, entry in
            let (name, lane) = entry
            let known = Int64((lane.upcoming + lane.deferred).count { lane.isDirect($0.sequence) || lane.approved.contains($0.sequence) })
            return sum + (lane.hasUnreadSelfStarting ? max(known, queuedIn(name)) : known)
        }
    }

    /// The wait for the message that is due first.
    private func soonestMessage(_ now: Moment) -> Wait? {
        guard let ticket = dueTimes.first, let lane = lanes[ticket.conversation], lane.dueAt == ticket.key, ticket.key > now.mono else {
            return nil
        }
        guard let next = soonest(lane, ticket.conversation, now) else { return nil }
        if timersRun, let end = holds.offlineEnd, ticket.key < end, !lane.isDirect(next.sequence) {
            return Wait(reason: .holding, until: wall(end, now))
        }
        let isSkipped = next.skipWait(now) > next.retryWait(now)
        let isRetry = max(next.retryWait(now), next.skipWait(now)) >= next.scheduledWait(now)
        let due = wall(ticket.key, now)
        return Wait(
            reason: isRetry ? .retrying : .scheduled, until: due, after: startsInTime(next, lane) ? .next : .trigger, earliest: due,
            isSkipped: isRetry && isSkipped)
    }

    /// Whether every conversation is paused or blocked by a failed message.
    private var areAllHeld: Bool {
        guard scanComplete, lanes.count <= Self.examined, !blocks.isEmpty || !pausedConversations.isEmpty else { return false }
        return lanes.allSatisfy { name, lane in
            if pausedConversations.contains(name) || !lane.hasMessages { return true }
            return (lane.upcoming + lane.deferred).allSatisfy { isBlocked($0.sequence, name) }
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
