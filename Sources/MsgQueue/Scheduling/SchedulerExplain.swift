/// Why a message does not start: the same conditions as in `next`, in the same order.
extension Scheduler {
    /// Explains a queued message that is not in flight. `holder`: the first message before it that blocks its conversation.
    package func explain(_ stored: Head, _ conversation: Name, holder: Int64?, _ now: Moment) -> (reason: Explanation.Reason, until: Int64)
    {
        let (reason, until) = explainWithoutRate(stored, conversation, holder: holder, now)
        if isOnlyLookedAt { return reason.isWaiting ? (reason, until) : (.noTransport, 0) }
        guard reason == .next else { return (reason, until) }
        if let pace, !pace.isOpen(at: now.mono) { return (.rate, wall(pace.opening(at: now.mono), now)) }
        // What a person asked for waits for no other message.
        guard !isForced(stored.sequence), !isInRound(withExpectedDue(stored, now), conversation, now) else { return (.next, 0) }
        return (.next, lingerEnd(of: conversation, now).map { wall($0, now) } ?? 0)
    }

    private func explainWithoutRate(
        _ stored: Head, _ conversation: Name, holder: Int64?, _ now: Moment
    ) -> (reason: Explanation.Reason, until: Int64) {
        let head = withExpectedWaits(stored, conversation, now)
        if now.mono < storageRetryAt { return (.storage, wall(storageRetryAt, now)) }
        // Where nothing is sent, what the message itself waits for says more.
        if !isOnlyLookedAt {
            if !hasTransport { return (.noTransport, 0) }
            if !network.isOnline { return (.offline, 0) }
        }
        if isPaused || isPaused(byName: conversation) { return (.paused, 0) }
        if isForced(head.sequence) { return (lanes[conversation]?.flight == nil ? .next : .behind, 0) }
        if lanes[conversation]?.flight != nil { return (.behind, 0) }
        if isInRound(head, conversation, now), now.mono >= receiverHoldUntil {
            if let delay = round?.delay(of: conversation), delay.until > now.mono, delay.sequence <= head.sequence {
                return delay.sequence == head.sequence ? (.retrying, wall(delay.until, now)) : (.behind, 0)
            }
            return (isBehindInRound(head, conversation) ? .behind : .next, 0)
        }
        // The failed message is reported first, because the user can act on it.
        if let block = blocks[conversation], block < head.sequence { return (.blocked, 0) }
        if holder != nil { return (.behind, 0) }
        if head.hasExpired(now) { return (.expired, 0) }
        let held = holdEnd(head, conversation, now)
        let isHeldLonger = held > now.mono && held.subtractingClamped(now.mono) > head.wait(now)
        if head.scheduledWait(now) > 0, !isHeldLonger { return (.scheduled, head.start(now)) }
        if isMetered(head) { return (.metered, 0) }
        let delay = max(head.retryWait(now), head.skipWait(now))
        if delay > 0, !isHeldLonger { return (.retrying, now.wall.addingClamped(delay)) }
        if head.wait(now) > 0 { return (.holding, wall(held, now)) }
        if now.mono < receiverHoldUntil { return (.holding, wall(receiverHoldUntil, now)) }
        return permission(head, conversation, now)
    }

    /// When the holds on automatic sending end for this message (monotonic), without its own times.
    private func holdEnd(_ head: Head, _ conversation: Name, _ now: Moment) -> Int64 {
        if maySend(now, in: conversation) || lanes[conversation]?.isDirect(head.sequence) == true { return receiverHoldUntil }
        let isApproved = lanes[conversation]?.approved.contains(head.sequence) == true
        guard timersRun, isApproved || mode == .auto else { return receiverHoldUntil }
        return max(receiverHoldUntil, offlineHoldUntil, isApproved ? 0 : stableAt)
    }

    /// Whether the message is sent next, and what it waits for otherwise.
    private func permission(_ head: Head, _ conversation: Name, _ now: Moment) -> (reason: Explanation.Reason, until: Int64) {
        // When a drain's batch is used up, the drain ends before anything else starts.
        if let session, session.serves(conversation), !session.hasBatchLeft { return (.trigger, 0) }
        if maySend(now, in: conversation) || lanes[conversation]?.isDirect(head.sequence) == true { return (.next, 0) }
        let isApproved = lanes[conversation]?.approved.contains(head.sequence) == true
        if isApproved || mode == .auto {
            // The return to the foreground also ends the hold.
            if !timersRun { return (.trigger, 0) }
            if now.mono < offlineHoldUntil { return (.holding, wall(offlineHoldUntil, now)) }
        }
        if isApproved { return (.next, 0) }
        guard mode == .auto else { return (.person, 0) }
        if now.mono < stableAt { return (.holding, wall(stableAt, now)) }
        if budget > 0 || head.isRetry && isLoaded(head.sequence, conversation) { return (.next, 0) }
        return (.trigger, nextTriggerAt > now.mono ? wall(nextTriggerAt, now) : 0)
    }

    /// The message with the end of its delay, which is also over when a connection that has returned becomes stable.
    func withExpectedDue(_ stored: Head, _ now: Moment) -> Head {
        var head = withMonotonicDue(stored)
        if head.waitsForNetwork, network.isOnline, now.mono < stableAt { head.dueMono = head.dueMono.map { min($0, stableAt) } }
        return head
    }

    /// The same, with the end of the delay of a message that the transport skipped.
    func withExpectedWaits(_ stored: Head, _ conversation: Name, _ now: Moment) -> Head {
        var head = withExpectedDue(stored, now)
        head.skippedUntil = skipEnd(head.sequence, conversation)
        return head
    }

    /// The end of the delay of a message that the transport skipped (monotonic), which only the index and the round contain; nil: none.
    private func skipEnd(_ sequence: Int64, _ conversation: Name) -> Int64? {
        if let end = round?.delay(of: sequence, in: conversation) { return end }
        guard let lane = lanes[conversation] else { return nil }
        return (lane.upcoming.first { $0.sequence == sequence } ?? lane.deferred.first { $0.sequence == sequence })?.skippedUntil
    }

    /// Whether the message waits because the transport skipped it, and not for its own retry.
    func isSkipped(_ stored: Head, _ conversation: Name, _ now: Moment) -> Bool {
        let head = withExpectedWaits(stored, conversation, now)
        return head.skipWait(now) > head.retryWait(now)
    }

    /// Whether the index contains the message. Without a budget no other is read from the store.
    func isLoaded(_ sequence: Int64, _ conversation: Name) -> Bool {
        guard let lane = lanes[conversation] else { return false }
        return lane.upcoming.contains { $0.sequence == sequence } || lane.deferred.contains { $0.sequence == sequence }
    }

    /// Whether a queued message blocks later ones of its conversation. `deferred`: the number of messages before it that do not, which is
    /// counted on; beyond `deferredCeiling` a deferred one blocks, too.
    package func holds(_ head: Head, after deferred: inout Int, _ now: Moment) -> Bool {
        !(isDeferred(withMonotonicDue(head), now) && Lane.passesOver(&deferred))
    }
}
