/// Why a message does not start.
extension Scheduler {
    /// Explains a queued message that is not in flight. `holder`: the first message before it that blocks its conversation; if the round sends
    /// this one, the first one of the round.
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
        let lane = lanes[conversation] ?? Lane()
        if let (reason, until) = gate(conversation, now) { return (reason, until) }
        if isForced(head.sequence) { return (lane.flight == nil ? .next : .behind, 0) }
        if lane.flight != nil { return (.behind, 0) }
        if isInRound(head, conversation, now) {
            if let delay = round?.delay(of: conversation), delay.until > now.mono, delay.sequence == head.sequence {
                return (.retrying, wall(delay.until, now))
            }
            if holder != nil { return (.behind, 0) }
            return receiverHold(now).map { (.holding, wall($0, now)) } ?? (.next, 0)
        }
        if holder != nil, !isBlocked(head.sequence, conversation) { return (.behind, 0) }
        switch eligibility(of: head, conversation, lane, now) {
        case .start: return (.next, 0)
        case .wait(let reason, let until): return (reason, until)
        }
    }

    /// The message with the end of its delay, which is also over when a connection that has returned becomes stable.
    func withExpectedDue(_ stored: Head, _ now: Moment) -> Head {
        var head = withMonotonicDue(stored)
        if head.waitsForNetwork, network.isOnline, let stableAt = holds.settling(now) {
            head.dueMono = head.dueMono.map { min($0, stableAt) }
        }
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
    func isLoaded(_ sequence: Int64, _ conversation: Name) -> Bool { lanes[conversation]?.contains(sequence) ?? false }

    /// Whether a queued message blocks later ones of its conversation. `deferred`: the number of messages before it that do not, which is
    /// counted on; beyond `deferredCeiling` a deferred one blocks, too.
    package func holds(_ head: Head, after deferred: inout Int, _ now: Moment) -> Bool {
        !(isDeferred(withMonotonicDue(head), now) && Lane.passesOver(&deferred))
    }
}
