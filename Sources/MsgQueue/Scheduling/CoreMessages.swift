/// Changes of a message without an attempt: expiry, damage, and manual requests while offline or paused.
extension Core {
    /// Fails a message whose expiry time has passed. `row` is the stored row; nil: it was deleted.
    package mutating func expired(_ row: Row?, _ sequence: Int64, _ conversation: Name, _ now: Moment) -> [Effect] {
        guard let row, row.progress.status == .queued else {
            scheduler.removed(sequence, conversation, now)
            return []
        }
        let (progress, attempt) = OutcomeRule.expire(row.progress, expiresAt: row.expiry(now), now: now.wall)
        leftQueue(sequence, conversation, now)
        statistics.expired(now)
        let change = row.changed(from: .queued, to: .failed, Failure(attempt, attempts: progress.attempts), at: now.wall)
        let notices: [Notice] = [.event(change), .countsChanged, .failuresChanged(conversation)]
        return [.record(Fact(sequence, conversation, [.expire(sequence: sequence, progress, attempt)], notices: notices))]
    }

    /// Fails a message whose stored row does not match its checksum; it is never sent.
    package mutating func damaged(_ sequence: Int64, _ conversation: Name, _ error: QueueError, _ now: Moment) -> [Effect] {
        leftQueue(sequence, conversation, now)
        let notices: [Notice] = [.event(.storage(error)), .damaged(sequence: sequence, error, now), .countsChanged]
        let fact = Fact(sequence, conversation, [.markDamaged(sequence: sequence)], notices: notices)
        return [.notice(.log(.error) { error.detail }), .record(fact)]
    }

    /// Reports a message that was stored as failed, because it was taken over and the queue refuses it for good.
    package mutating func refused(_ id: String, _ conversation: Name, _ error: QueueError, _ now: Moment) -> [Effect] {
        let (progress, attempt) = HandOverRule.refused(error, now: now.wall)
        statistics.refused(now)
        let change = StatusChange(
            id: id, conversation: conversation.text, from: nil, to: .failed, attempt: 0,
            failure: Failure(attempt, attempts: progress.attempts), at: now.wall)
        return [.notice(.failuresChanged(conversation)), .notice(.event(.status(change)))]
    }

    private mutating func leftQueue(_ sequence: Int64, _ conversation: Name, _ now: Moment) {
        scheduler.failed(sequence, conversation, now)
        scheduler.removed(sequence, conversation, now)
        scheduler.gate.drains.count(conversation) { $0.failed += 1 }
    }

    // MARK: Replacement

    /// Reports that a queued message was replaced, after the commit. `place`: where the message `id` that replaced it stands. The message
    /// itself is reported after all those that it replaced, by `Scheduler.enqueued` or `Scheduler.replaced`.
    package mutating func replaced(_ old: Row, by id: String, at place: Int64, _ now: Moment) -> [Effect] {
        statistics.replaced()
        if old.sequence != place { scheduler.removed(old.sequence, old.conversation, now) }
        return [.notice(.event(.replaced(id: old.id, by: id, conversation: old.conversation.text)))]
    }

    /// Reports that a queued message was dropped because the queue was full, after the commit.
    package mutating func dropped(_ row: Row, _ now: Moment) -> [Effect] {
        statistics.dropped()
        scheduler.removed(row.sequence, row.conversation, now)
        let failure = RoomRule.failure(of: row, at: now.wall)
        return [.notice(.event(.discarded(id: row.id, conversation: row.conversation.text, failure: failure)))]
    }

    // MARK: Retrying all

    /// Whether `retryAll` puts messages back to `queued` now. While offline it changes nothing in the modes ask and manual.
    package func putsBack() throws(QueueError) -> Bool {
        guard !MaintenanceRule.retriesLater(options) else { return true }
        guard scheduler.gate.hasTransport else { throw QueueError(.noTransport, "no transport is set") }
        return scheduler.gate.network.isOnline || options.mode == .auto
    }

    /// Returns the number of the round that messages put back now belong to; 0: none, because they are not sent.
    package func round(random: UInt64) -> UInt32 {
        guard !MaintenanceRule.retriesLater(options) else { return 0 }
        return scheduler.round?.number ?? UInt32(truncatingIfNeeded: random) | 1
    }

    // MARK: Manual requests while offline or paused

    /// Accepts a manual request to send this message now. Returns nil if an attempt begins as soon as its conversation is free. Otherwise
    /// the request ends without an attempt: the caller stores the returned resolution, then calls `endedUnreachable`.
    package mutating func force(_ row: Row, _ hand: Hand, _ now: Moment) throws(QueueError) -> Resolution? {
        if scheduler.requests.contains(row.sequence) { throw QueueError(.busy, "the message is already waiting for a manual attempt") }
        if hand == .retry, MaintenanceRule.retriesLater(options) {
            return OutcomeRule.paused(row.progress, expiresAt: row.expiry(now), now: now)
        }
        guard scheduler.gate.hasTransport else { throw QueueError(.noTransport, "no transport is set") }
        if !scheduler.gate.network.isOnline { return unreachable(row, hand, now) }
        guard scheduler.gate.isPaused(row.conversation) else {
            scheduler.requests.add(row.sequence, row.conversation, hand)
            return nil
        }
        guard hand == .retry else { throw QueueError(.conflict, "sending is paused") }
        return OutcomeRule.paused(row.progress, expiresAt: row.expiry(now), now: now)
    }

    /// Returns the result of a manual request that ends while offline.
    private func unreachable(_ row: Row, _ hand: Hand, _ now: Moment) -> Resolution {
        OutcomeRule.unreachable(
            hand, of: row.progress, expiresAt: row.expiry(now), options: options, policy: policy, reason: scheduler.gate.offlineReason,
            now: now, boot: opening.boot)
    }

    /// Updates the schedule, after a request that ended without an attempt was committed. If the store rejected writes in the meantime, the
    /// message may have a newer request, which stays.
    package mutating func endedUnreachable(_ row: Row, _ resolution: Resolution, _ now: Moment) -> [Effect] {
        var effects: [Effect] = []
        if resolution.fate == .queued {
            var queued = row
            queued.progress = resolution.progress
            scheduler.returned(queued.head, row.conversation, now)
            if queued.head.expiresAt != 0 { effects.append(.notice(.expires(at: row.expiresAt))) }
        }
        let change = row.changed(
            from: row.progress.status, to: resolution.progress.status, attempt: resolution.attempt?.number ?? 0, resolution.failure,
            at: now.wall)
        effects += [.notice(.failuresChanged(row.conversation)), .notice(.countsChanged), .notice(.event(change))]
        return effects
    }

    /// Ends a manual request because the connection was lost or sending was paused before its attempt began. `row` is the stored row; nil:
    /// it was deleted.
    package mutating func requestAborted(_ row: Row?, _ sequence: Int64, _ conversation: Name, _ hand: Hand, _ now: Moment) -> [Effect] {
        guard let row, row.progress.status == .queued || row.progress.status == .failed else {
            scheduler.removed(sequence, conversation, now)
            return []
        }
        scheduler.requests.remove(sequence)
        let resolution: Resolution
        if !scheduler.gate.network.isOnline {
            resolution = unreachable(row, hand, now)
        } else if row.progress.status == .failed {
            resolution = OutcomeRule.paused(row.progress, expiresAt: row.expiry(now), now: now)
        } else {
            // The message stays queued, unchanged.
            return []
        }
        let notices: [Notice] = [.endedUnreachable(row, resolution, now)]
        return [.record(Fact(sequence, conversation, [.endUnreachable(row, resolution)], notices: notices))]
    }
}
