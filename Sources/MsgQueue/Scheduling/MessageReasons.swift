/// Why a queued message does not start, in a state of the scheduler and at a time.
package struct MessageReasons {
    let scheduler: Scheduler
    let now: Moment

    package init(_ scheduler: Scheduler, _ now: Moment) { (self.scheduler, self.now) = (scheduler, now) }

    /// Explains a queued message that is not in flight. `holder`: the first message before it that blocks its conversation; if the round sends
    /// this one, the first one of the round.
    package func explain(_ stored: Head, _ conversation: Name, holder: Int64?) -> (reason: Explanation.Reason, until: Int64) {
        let (reason, until) = explainWithoutRate(stored, conversation, holder: holder)
        if scheduler.gate.isOnlyLookedAt { return reason.isWaiting ? (reason, until) : (.noTransport, 0) }
        guard reason == .next else { return (reason, until) }
        if let pace = scheduler.gate.flights.pace, !pace.isOpen(at: now.mono) { return (.rate, now.wall(at: pace.opening(at: now.mono))) }
        // What a person asked for waits for no other message.
        guard !scheduler.requests.contains(stored.sequence), !isInRound(stored, conversation) else { return (.next, 0) }
        return (.next, scheduler.linger.end(of: conversation, now).map { now.wall(at: $0) } ?? 0)
    }

    private func explainWithoutRate(_ stored: Head, _ conversation: Name, holder: Int64?) -> (reason: Explanation.Reason, until: Int64) {
        let head = withExpectedWaits(stored, conversation)
        let lane = scheduler.lanes[conversation] ?? Lane()
        if let (reason, until) = scheduler.gate.barrier(of: conversation, now) { return (reason, until) }
        if scheduler.requests.contains(head.sequence) { return (lane.flight == nil ? .next : .behind, 0) }
        if lane.flight != nil { return (.behind, 0) }
        if let round = scheduler.round, round.sends(head, conversation, scheduler.gate, now) {
            if let delay = round.delay(of: conversation), delay.until > now.mono, delay.sequence == head.sequence {
                return (.retrying, now.wall(at: delay.until))
            }
            if holder != nil { return (.behind, 0) }
            return scheduler.gate.receiverHold(now).map { (.holding, now.wall(at: $0)) } ?? (.next, 0)
        }
        if holder != nil, !scheduler.gate.isBlocked(head.sequence, conversation) { return (.behind, 0) }
        switch scheduler.gate.eligibility(of: head, conversation, lane, now) {
        case .start: return (.next, 0)
        case .wait(let reason, let until): return (reason, until)
        }
    }

    /// Whether a queued message blocks later ones of its conversation. `deferred`: the number of messages before it that do not, which is
    /// counted on; beyond `deferredCeiling` a deferred one blocks, too.
    package func holds(_ head: Head, after deferred: inout Int) -> Bool {
        !(scheduler.gate.isDeferred(scheduler.gate.withMonotonicDue(head), now) && Lane.passesOver(&deferred))
    }

    /// Whether the round sends this message.
    func isInRound(_ stored: Head, _ conversation: Name) -> Bool {
        scheduler.round?.sends(withExpectedDue(stored), conversation, scheduler.gate, now) ?? false
    }

    /// The messages of other conversations that go before one that may start now, and the first of them; nil: none do, or only older ones.
    func ahead(of head: Head, _ conversation: Name) -> (ahead: Wait.Ahead, sequence: Int64)? {
        scheduler.chooser.ahead(of: head, conversation, scheduler.lanes, scheduler.gate, now)
    }

    // MARK: What the message waits for

    /// The message with the end of its delay, which is also over when a connection that has returned becomes stable.
    private func withExpectedDue(_ stored: Head) -> Head {
        var head = scheduler.gate.withMonotonicDue(stored)
        if head.waitsForNetwork, scheduler.gate.network.isOnline, let stableAt = scheduler.gate.holds.settling(now) {
            head.dueMono = head.dueMono.map { min($0, stableAt) }
        }
        return head
    }

    /// The same, with the end of the delay of a message that the transport skipped.
    private func withExpectedWaits(_ stored: Head, _ conversation: Name) -> Head {
        var head = withExpectedDue(stored)
        head.skippedUntil = skipEnd(head.sequence, conversation)
        return head
    }

    /// The end of the delay of a message that the transport skipped (monotonic), which only the index and the round contain; nil: none.
    private func skipEnd(_ sequence: Int64, _ conversation: Name) -> Int64? {
        if let end = scheduler.round?.delay(of: sequence, in: conversation) { return end }
        guard let lane = scheduler.lanes[conversation] else { return nil }
        return (lane.upcoming.first { $0.sequence == sequence } ?? lane.deferred.first { $0.sequence == sequence })?.skippedUntil
    }

    /// Whether the message waits because the transport skipped it, and not for its own retry.
    func isSkipped(_ stored: Head, _ conversation: Name) -> Bool {
        let head = withExpectedWaits(stored, conversation)
        return head.skipWait(now) > head.retryWait(now)
    }

    /// The time before which no run of the queue sends the message, in milliseconds since 1970; 0: it may be sent now.
    func earliestStart(_ stored: Head, _ conversation: Name) -> Int64 {
        let held = (scheduler.gate.holds.receiverEnd ?? now.mono).subtractingClamped(now.mono)
        let delay = max(withExpectedWaits(stored, conversation).wait(now), held)
        return delay > 0 ? now.wall.addingClamped(delay) : 0
    }

    // MARK: What follows

    /// What happens to the message when the store accepts writes again.
    func afterStorage(_ head: Head, _ conversation: Name) -> Explanation.Reason {
        if scheduler.requests.contains(head.sequence) { return .next }
        if scheduler.lanes[conversation]?.isDirect(head.sequence) == true { return .next }
        if scheduler.gate.options.mode != .auto, !scheduler.startsUnasked(head, conversation) { return .person }
        return scheduler.gate.timersRun ? .next : .trigger
    }

    /// The same after the connection returned and became stable, with no other input. If the message requires an unmetered link, the link is
    /// metered; otherwise it is not, so that messages before it may block it.
    func assumingOnline(_ head: Head) -> MessageReasons {
        var other = scheduler
        other.gate.network.connectivity = .online
        other.gate.network.metered = head.unmeteredOnly || other.gate.options.unmeteredOnly
        other.gate.returnedAt = now.mono
        other.gate.flights.pace?.restart(at: now.mono)
        other.gate.holds.disconnected()
        other.gate.holds.endOfflinePause()
        other.gate.drains.session = nil
        other.linger.step()
        other.gate.budget = other.gate.options.runLimit
        other.lanes.ready.beginBacklog()
        return MessageReasons(other, now)
    }

    /// The same at a later time, with no input and no attempt until then. `inRound`: the message belongs to the round; the round passes over
    /// one that has to wait.
    func assuming(_ then: Moment, inRound: Bool) -> MessageReasons {
        var other = scheduler
        // A drain ends when nothing of it can be sent now.
        other.gate.drains.session = nil
        if !inRound { other.round = nil }
        if other.gate.network.isOnline, let stableAt = other.gate.holds.stableAt, stableAt <= then.mono {
            other.gate.returnedAt = max(other.gate.returnedAt, stableAt)
        }
        let hasTriggered = other.gate.timersRun && other.gate.nextTriggerAt.map { $0 <= then.mono } ?? false
        let hasHoldEnded = other.gate.holds.isOver(by: then.mono)
        if hasHoldEnded || (hasTriggered && !other.gate.hasBudget) { other.lanes.ready.beginBacklog() }
        if hasTriggered || hasHoldEnded { other.gate.budget = other.gate.options.runLimit }
        return MessageReasons(other, then)
    }
}
