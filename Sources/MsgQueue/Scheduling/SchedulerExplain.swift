/// Why a message does not start: the same questions as `next` asks, in the same order, with the answer instead of a step.
extension Scheduler {
    /// For a queued message that is not in flight. `holder`: the first message before it that holds its conversation, if there is one.
    package func explain(_ stored: Head, _ conversation: Name, holder: Int64?, _ now: Moment) -> (reason: Explanation.Reason, until: Int64)
    {
        let head = anchored(stored)
        if now.mono < storageUntil { return (.storage, wall(storageUntil, now)) }
        if !hasTransport { return (.noTransport, 0) }
        if !network.isOnline { return (.offline, 0) }
        if isPaused(conversation) { return (.paused, 0) }
        if isForced(head.sequence) { return (lanes[conversation]?.flight == nil ? .next : .behind, 0) }
        if lanes[conversation]?.flight != nil { return (.behind, 0) }
        if isInRound(head, conversation, now), now.mono >= limitedUntil {
            return (isBehindInRound(head, conversation) ? .behind : .next, 0)
        }
        // The failed one is what a person can do something about, whoever else stands between.
        if let block = blocks[conversation], block < head.sequence { return (.blocked, 0) }
        if holder != nil { return (.behind, 0) }
        if head.hasExpired(now) { return (.expired, 0) }
        let held = holdEnd(head, conversation, now)
        let isHeldLonger = held > now.mono && held.subtractingClamped(now.mono) > head.wait(now)
        if head.scheduledWait(now) > 0, !isHeldLonger { return (.scheduled, head.notBefore) }
        if isMetered(head) { return (.metered, 0) }
        let delay = head.retryWait(now)
        if delay > 0, !isHeldLonger { return (.retrying, now.wall.addingClamped(delay)) }
        if head.wait(now) > 0 { return (.holding, wall(held, now)) }
        if now.mono < limitedUntil { return (.holding, wall(limitedUntil, now)) }
        return leave(head, conversation, now)
    }

    /// When nothing keeps the engine from this message any more (monotonic), whatever its own times are.
    private func holdEnd(_ head: Head, _ conversation: Name, _ now: Moment) -> Int64 {
        if hasLeave(now, in: conversation) || lanes[conversation]?.isDirect(head.sequence) == true { return limitedUntil }
        let isAsked = lanes[conversation]?.asked.contains(head.sequence) == true
        guard mayWake, isAsked || mode == .auto else { return limitedUntil }
        return max(limitedUntil, pausedUntil, isAsked ? 0 : settledAt)
    }

    /// Whether it may go, or who has to say so.
    private func leave(_ head: Head, _ conversation: Name, _ now: Moment) -> (reason: Explanation.Reason, until: Int64) {
        // A drain's batch that is used up ends the drain before anything else goes.
        if let session, session.serves(conversation), !session.hasBatchLeft { return (.trigger, 0) }
        if hasLeave(now, in: conversation) || lanes[conversation]?.isDirect(head.sequence) == true { return (.next, 0) }
        let isAsked = lanes[conversation]?.asked.contains(head.sequence) == true
        if isAsked || mode == .auto {
            if now.mono < pausedUntil { return (.holding, wall(pausedUntil, now)) }
            if !mayWake { return (.trigger, 0) }
        }
        if isAsked { return (.next, 0) }
        guard mode == .auto else { return (.person, 0) }
        if now.mono < settledAt { return (.holding, wall(settledAt, now)) }
        return (budget > 0 || head.isRetry ? .next : .trigger, timerAt > now.mono ? wall(timerAt, now) : 0)
    }

    /// Whether a queued message holds those behind it in its conversation.
    package func holds(_ head: Head, _ now: Moment) -> Bool { !isKept(anchored(head), now) }
}
