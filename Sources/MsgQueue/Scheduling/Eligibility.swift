/// Whether a message may start, and otherwise what it waits for.
enum Eligibility {
    case start
    /// `until`: milliseconds since 1970; 0: it is not known when the reason ends.
    case wait(Explanation.Reason, until: Int64 = 0)

    var isStart: Bool { if case .start = self { true } else { false } }
}

/// The conditions of an attempt: what is sent next, `explain`, the state of the queue and the prompt ask these functions. `LayerTests` lists
/// conditions that no other file of the core may compare.
extension Gate {
    // MARK: Every message

    /// What prevents every attempt, apart from the store; nil: nothing.
    var barrier: Explanation.Reason? {
        if !hasTransport { return .noTransport }
        if !network.isOnline { return .offline }
        return pauses.isPaused ? .paused : nil
    }

    /// Whether any attempt may start.
    var mayStart: Bool { barrier == nil && !isClosing }

    /// Whether the store rejected a write, and is not tried again yet.
    func isStoreRefusing(_ now: Moment) -> Bool { now.mono < storageRetryAt }

    /// Whether a receiver delays the whole queue.
    func isHeldByReceiver(_ now: Moment) -> Bool { receiverHold(now) != nil }

    /// The end of that delay (monotonic); nil: there is none.
    func receiverHold(_ now: Moment) -> Int64? { holds.receiverHold(now) }

    /// Whether the connection has returned and does not count as stable yet.
    func isSettling(_ now: Moment) -> Bool { holds.settling(now) != nil }

    /// Whether every message waits for an unmetered link.
    var isMeteredForAll: Bool { options.unmeteredOnly && network.metered }

    /// Whether nothing is sent here, because the program that sends is another one.
    var isOnlyLookedAt: Bool { options.isObserving && !hasTransport }

    /// Whether the conversation or the whole queue is paused.
    func isPaused(_ conversation: Name) -> Bool { pauses.isPaused || pauses.conversations.contains(conversation) }

    /// What prevents every attempt of a conversation, and until when; nil: nothing.
    func barrier(of conversation: Name, _ now: Moment) -> (reason: Explanation.Reason, until: Int64)? {
        if isStoreRefusing(now) { return (.storage, now.wall(at: storageRetryAt)) }
        // Where nothing is sent, what the message itself waits for says more.
        if let barrier, !isOnlyLookedAt { return (barrier, 0) }
        return pauses.isPaused || pauses.isPaused(byName: conversation) ? (.paused, 0) : nil
    }

    // MARK: One message

    /// Of the first message of a conversation that has no attempt in flight, when nothing prevents every attempt.
    func eligibility(of head: Head, _ conversation: Name, _ lane: Lane, _ now: Moment) -> Eligibility {
        // The failed message is reported first, because the user can act on it.
        if isBlocked(head.sequence, conversation) { return .wait(.blocked) }
        if head.hasExpired(now) { return .wait(.expired) }
        if head.wait(now) > 0 || isMetered(head) { return ownWait(head, conversation, lane, now) }
        if let end = receiverHold(now) { return .wait(.holding, until: now.wall(at: end)) }
        return permission(head, conversation, lane, now)
    }

    /// Whether a failed message before this one blocks the conversation.
    func isBlocked(_ sequence: Int64, _ conversation: Name) -> Bool { blocks[conversation].map { $0 < sequence } ?? false }

    func isMetered(_ head: Head) -> Bool { isMeteredForAll || head.unmeteredOnly && network.metered }

    /// Whether a condition of its own defers the message, so that later ones may overtake it: `not_before`, a metered link, and in relaxed
    /// order the delay of its retry.
    func isDeferred(_ head: Head, _ now: Moment) -> Bool {
        if head.hasExpired(now) { return false }
        if head.scheduledWait(now) > 0 || isMetered(head) { return true }
        return !options.strictOrder && head.retryWait(now) > 0
    }

    /// Which of the times for which the message waits, and of the holds of the queue, is reported.
    private func ownWait(_ head: Head, _ conversation: Name, _ lane: Lane, _ now: Moment) -> Eligibility {
        let held = holdEnd(head, conversation, lane, now)
        let isHeldLonger = held.map { $0.subtractingClamped(now.mono) > head.wait(now) } ?? false
        if head.scheduledWait(now) > 0, !isHeldLonger { return .wait(.scheduled, until: head.start(now)) }
        if isMetered(head) { return .wait(.metered) }
        let delay = max(head.retryWait(now), head.skipWait(now))
        if delay > 0, !isHeldLonger { return .wait(.retrying, until: now.wall.addingClamped(delay)) }
        return .wait(.holding, until: now.wall(at: held ?? now.mono))
    }

    /// When the holds end for this message (monotonic), without its own times; nil: there is none.
    private func holdEnd(_ head: Head, _ conversation: Name, _ lane: Lane, _ now: Moment) -> Int64? {
        let receiver = receiverHold(now)
        if maySend(now, in: conversation) || lane.isDirect(head.sequence) { return receiver }
        let isApproved = lane.approved.contains(head.sequence)
        // A drain that was requested does not wait for the others.
        guard timersRun, isApproved || options.mode == .auto, requested(conversation) == nil else { return receiver }
        return [receiver, holds.offlineHold(now), isApproved ? nil : holds.settling(now)].compactMap { $0 }.max()
    }

    /// The lane's message that starts first when its time has come, without those behind a failed message that blocks.
    func soonest(of lane: Lane, _ conversation: Name, _ now: Moment) -> Head? {
        let block = blocks[conversation] ?? Int64.max
        let known = lane.upcoming.prefix(1) + lane.deferred
        // A message that is retried later than it was scheduled blocks those behind it in between.
        let retries = options.strictOrder ? known.filter { $0.retryWait(now) > $0.scheduledWait(now) } : []
        let waiting = known.filter { head in
            let wait = head.wait(now)
            guard head.sequence < block, wait > 0, !isMetered(head) else { return false }
            guard head.expiresAt == 0 || head.expiry(now).subtractingClamped(now.wall) > wait else { return false }
            return !retries.contains { $0.sequence < head.sequence && $0.scheduledWait(now) <= wait && wait < $0.retryWait(now) }
        }
        return waiting.min { $0.wait(now) < $1.wait(now) }
    }

    // MARK: Permission

    /// Whether the message, which is due, is sent by itself or by a drain, and what it waits for otherwise.
    private func permission(_ head: Head, _ conversation: Name, _ lane: Lane, _ now: Moment) -> Eligibility {
        // When a drain's batch is used up, the drain ends before anything else starts.
        if let session = drains.session, session.serves(conversation), !session.hasBatchLeft {
            return requested(conversation) ?? .wait(.trigger)
        }
        if maySend(now, in: conversation) || lane.isDirect(head.sequence) { return .start }
        if lane.approved.contains(head.sequence) { return timerHold(now) ?? .start }
        guard options.mode == .auto else { return requested(conversation) ?? .wait(.person) }
        guard let hold = automaticHold(now) else { return .start }
        // A retry needs no budget.
        let isRetry = head.isRetry && sendsAutomatically(now) && lane.contains(head.sequence)
        return isRetry ? .start : requested(conversation) ?? hold
    }

    /// In its turn, when a drain was requested that begins after the current one; nil: none was.
    private func requested(_ conversation: Name) -> Eligibility? {
        drains.pending.contains { $0.serves(conversation) } ? .wait(.next) : nil
    }

    /// What delays the messages that a timer starts; nil: nothing.
    private func timerHold(_ now: Moment) -> Eligibility? {
        // The return to the foreground also ends the hold.
        if !timersRun { return .wait(.trigger) }
        return holds.offlineHold(now).map { .wait(.holding, until: now.wall(at: $0)) }
    }

    /// In mode auto: what delays automatic sending; nil: nothing.
    func automaticHold(_ now: Moment) -> Eligibility? {
        if let hold = timerHold(now) { return hold }
        if let stableAt = holds.settling(now) { return .wait(.holding, until: now.wall(at: stableAt)) }
        if hasBudget { return nil }
        return .wait(.trigger, until: nextTriggerAt.map { $0 > now.mono ? now.wall(at: $0) : 0 } ?? 0)
    }

    /// Whether automatic sending is active now. Retries that are due need no `budget` then.
    func sendsAutomatically(_ now: Moment) -> Bool { options.mode == .auto && timerHold(now) == nil && !isSettling(now) }

    /// Whether the backlog may be sent now, automatically or by a drain.
    func maySend(_ now: Moment) -> Bool {
        guard mayStart, !isHeldByReceiver(now) else { return false }
        if let session = drains.session, session.conversation == nil, session.isOpen { return true }
        return options.mode == .auto && automaticHold(now) == nil
    }

    /// Whether the backlog of one conversation may be sent now, automatically or by a drain.
    func maySend(_ now: Moment, in conversation: Name) -> Bool {
        if maySend(now) { return true }
        guard mayStart, !isHeldByReceiver(now), let session = drains.session else { return false }
        return session.conversation == conversation && session.isOpen
    }

    /// Whether the call of an attempt that has begun may still be made.
    package func mayCall(_ flight: Flight, _ now: Moment) -> Bool {
        guard mayStart, !isPaused(flight.conversation), !isHeldByReceiver(now) else { return false }
        return holds.offlineHold(now) == nil || drains.session.map { $0.isOpen && $0.serves(flight.conversation) } ?? false
    }

    /// Whether a call that is not made yet would be revoked, although direct messages start: the last outcome was `offline`.
    package func isPausedOffline(_ now: Moment) -> Bool { holds.offlineHold(now) != nil }

    /// Whether messages of the conversation that are enqueued now may be sent directly.
    func isDirectAllowed(_ conversation: Name) -> Bool {
        options.direct && mayStart && !pauses.isPaused(byName: conversation) && blocks[conversation] == nil
    }

    /// Whether more messages of the lane should be read from the store.
    func canLoad(_ lane: Lane, _ conversation: Name, _ now: Moment) -> Bool {
        // Messages that are retried by timer are read again, too.
        lane.more && (maySend(now, in: conversation) || lane.hasUnreadSelfStarting)
    }

    /// Whether more messages may start automatically before the next trigger.
    var hasBudget: Bool { budget > 0 }

    // MARK: Timers

    /// Whether nothing but times changes which messages of the conversation are due.
    func mayRest(_ conversation: Name) -> Bool { laneTimersRun && !network.metered && blocks[conversation] == nil }

    /// When the messages of the lane are due, if that was noted and still holds.
    func rest(of lane: Lane, _ conversation: Name, _ now: Moment) -> Lane.Rest? {
        guard let rest = lane.rest, now.mono < rest.until, mayRest(conversation) else { return nil }
        return rest
    }

    /// Whether timers start attempts: in the foreground, or with the option `send_in_background`.
    var timersRun: Bool { !isInBackground || options.sendInBackground }

    /// Whether every message that may start does so when the time for which it waits has come; in the background only during a drain.
    var laneTimersRun: Bool { timersRun || (drains.session != nil && drains.session?.stop == nil) }

    /// Whether this message does. One that is sent directly needs no trigger, so that it starts in the background, too.
    func startsInTime(_ head: Head, _ lane: Lane) -> Bool { laneTimersRun || lane.isDirect(head.sequence) }
}
