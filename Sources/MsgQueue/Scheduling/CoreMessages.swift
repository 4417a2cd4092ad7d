/// Messages that change without an attempt: expired, damaged, or asked for while there is no connection, or while paused.
extension Core {
    /// The message's time ran out; `row` is as it lies on disk, nil: it is gone.
    package mutating func expired(_ row: Row?, _ sequence: Int64, _ conversation: Name, _ now: Moment) -> [Effect] {
        guard let row, row.progress.status == .queued else {
            scheduler.removed(sequence, conversation, now)
            return []
        }
        let (progress, attempt) = OutcomeRule.expire(row.progress, expiresAt: row.expiresAt, now: now.wall)
        leftQueue(sequence, conversation, now)
        statistics.expired()
        let change = StatusChange(
            id: row.id, conversation: conversation.text, from: .queued, to: .failed, attempt: 0,
            failure: Failure(attempt, attempts: progress.attempts), at: now.wall)
        return [
            .record(
                Fact(
                    sequence: sequence, conversation: conversation, isOutcome: false,
                    changes: [.expire(sequence: sequence, progress, attempt)],
                    notices: [.event(.status(change)), .countsChanged, .failuresChanged(conversation)]))
        ]
    }

    /// The message is not what was written: it is never sent, and fails with the reason.
    package mutating func damaged(_ sequence: Int64, _ conversation: Name, _ error: QueueError, _ now: Moment) -> [Effect] {
        leftQueue(sequence, conversation, now)
        let fact = Fact(
            sequence: sequence, conversation: conversation, isOutcome: false, changes: [.markDamaged(sequence: sequence)],
            notices: [.event(.storage(error)), .damaged(sequence: sequence, error, now), .countsChanged])
        return [.notice(.log(.error, error.detail)), .record(fact)]
    }

    private mutating func leftQueue(_ sequence: Int64, _ conversation: Name, _ now: Moment) {
        scheduler.failed(sequence, conversation, now)
        scheduler.removed(sequence, conversation, now)
        scheduler.count(conversation) { $0.failed += 1 }
    }

    // MARK: Without a connection, or while paused

    /// A person asks for this message. nil: an attempt is made as soon as its conversation is free. Otherwise the request ends at once,
    /// without an attempt: to be written before `endedUnreachable`.
    package mutating func force(_ row: Row, _ hand: Hand, _ now: Moment) throws(QueueError) -> Resolution? {
        if scheduler.isForced(row.sequence) { throw QueueError(.busy, "that was asked for already") }
        guard scheduler.hasTransport else { throw QueueError(.noTransport, "there is no transport to send with") }
        if !scheduler.network.isOnline { return unreachable(row, hand, now) }
        guard scheduler.isPaused(row.conversation) else {
            scheduler.force(row.sequence, row.conversation, hand)
            return nil
        }
        guard hand == .retry else { throw QueueError(.conflict, "sending is paused") }
        return OutcomeRule.paused(row.progress, expiresAt: row.expiresAt, now: now)
    }

    /// What a person's wish makes of the message; to be written before `endedUnreachable`.
    private func unreachable(_ row: Row, _ hand: Hand, _ now: Moment) -> Resolution {
        OutcomeRule.unreachable(
            hand, of: row.progress, expiresAt: row.expiresAt, options: options, policy: policy, now: now, boot: opening.boot)
    }

    /// It is on disk.
    package mutating func endedUnreachable(_ row: Row, _ resolution: Resolution, _ now: Moment) -> [Effect] {
        var effects: [Effect] = []
        var back: Head?
        if resolution.fate == .queued {
            var queued = row
            queued.progress = resolution.progress
            back = queued.head
            if row.expiresAt != 0 { effects.append(.notice(.expires(at: row.expiresAt))) }
        }
        scheduler.endedUnreachable(row.sequence, row.conversation, back: back, now)
        let change = StatusChange(
            id: row.id, conversation: row.conversation.text, from: row.progress.status, to: resolution.progress.status,
            attempt: resolution.attempt?.number ?? 0, failure: resolution.failure, at: now.wall)
        effects += [.notice(.failuresChanged(row.conversation)), .notice(.countsChanged), .notice(.event(.status(change)))]
        return effects
    }

    /// The connection went, or sending was paused, before the wish could be met; `row` is as it lies on disk, nil: it is gone.
    package mutating func wishEnded(
        _ row: Row?, _ sequence: Int64, _ conversation: Name, _ hand: Hand, _ now: Moment
    ) -> [Effect] {
        guard let row, row.progress.status == .queued || row.progress.status == .failed else {
            scheduler.removed(sequence, conversation, now)
            return []
        }
        scheduler.endedUnreachable(sequence, conversation, back: nil, now)
        let resolution: Resolution
        if !scheduler.network.isOnline {
            resolution = unreachable(row, hand, now)
        } else if row.progress.status == .failed {
            resolution = OutcomeRule.paused(row.progress, expiresAt: row.expiresAt, now: now)
        } else {
            // It stays queued as it was.
            return []
        }
        return [
            .record(
                Fact(
                    sequence: sequence, conversation: conversation, isOutcome: false, changes: [.endUnreachable(row, resolution)],
                    notices: [.endedUnreachable(row, resolution, now)]))
        ]
    }
}
