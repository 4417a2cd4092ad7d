import Glibc

/// What a person retries or sends while there is no connection, and all that failed retried together.
extension Engine {
    // MARK: While offline

    /// What the wish makes of the message; to be written before it is told.
    func unreachable(_ row: Row, _ hand: Hand, _ now: Moment) -> Resolution {
        OutcomeRule.unreachable(
            hand, of: row.progress, expiresAt: row.expiresAt, options: options, policy: policy, now: now, boot: opening.boot)
    }

    func tellUnreachable(_ row: Row, _ resolution: Resolution, _ now: Moment) {
        var back: Head?
        if resolution.fate == .queued {
            var queued = row
            queued.progress = resolution.progress
            back = queued.head
            if row.expiresAt != 0 { nextExpiry = min(nextExpiry, row.expiresAt) }
        }
        scheduler.endedUnreachable(row.sequence, row.conversation, back: back, now)
        refreshBlock(row.conversation)
        countsChanged()
        emit(
            .status(
                StatusChange(
                    id: row.id, conversation: row.conversation.text, from: row.progress.status, to: resolution.progress.status,
                    attempt: resolution.attempt?.number ?? 0, failure: resolution.failure, at: now.wall)))
    }

    /// The connection went before the wish could be met.
    func endUnreachable(_ conversation: Name, _ sequence: Int64, _ hand: Hand, _ now: Moment) throws(QueueError) {
        let row: Row
        do throws(QueueError) {
            guard let found = try store.row(at: sequence, .none), found.progress.status == .queued || found.progress.status == .failed
            else {
                return scheduler.removed(sequence, conversation, now)
            }
            row = found
        } catch {
            scheduler.endedUnreachable(sequence, conversation, back: nil, now)
            throw error
        }
        scheduler.endedUnreachable(sequence, conversation, back: nil, now)
        let resolution = unreachable(row, hand, now)
        record(
            Fact(
                sequence: sequence, isOutcome: false,
                write: { [store] () throws(QueueError) in
                    // It may be written later than it happened.
                    guard let current = try store.row(at: sequence, .none), current.progress == row.progress else { return }
                    try store.update(current, to: resolution.progress)
                    if let attempt = resolution.attempt { try store.write(attempt, of: sequence) }
                },
                tell: { [self] in tellUnreachable(row, resolution, now) }))
    }

    // MARK: All that failed

    /// So many messages are put back in one transaction: others have their turn between two of them.
    private static let putBackTogether = 256

    /// What one transaction of `retryAll` did.
    private struct PutBack {
        let count: Int64
        /// The place that it came to.
        let last: Int64
        let hasMore: Bool
    }

    /// Puts every failed message, of one conversation or of all, back to `queued` in its place and sends them, in any mode; how many.
    /// While offline nothing changes in the modes ask and manual.
    package func retryAll(_ conversation: String?) throws(QueueError) -> Int64 {
        if let conversation { try DraftRule.check(conversation: conversation) }
        let name = conversation.map { Name($0) }
        var count: Int64 = 0
        // What fails meanwhile behind this one is no part of it, nor what fails again.
        var (after, through) = (Int64(0), Int64.max)
        while true {
            let step = try changing { () throws(QueueError) -> PutBack? in
                guard transport != nil else { throw QueueError(.noTransport, "there is no transport to send with") }
                guard scheduler.network.isOnline || options.mode == .auto else { return nil }
                if !unsaved.isEmpty { saveUnsaved() }
                if !unsaved.isEmpty, let storageTrouble { throw storageTrouble }
                through = min(through, store.lastSequence)
                return try putBack(name, after: after, through: through)
            }
            guard let step else { return count }
            count += step.count
            after = step.last
            guard step.hasMore else { return count }
            // Whoever waits for the lock comes first.
            usleep(100)
        }
    }

    /// Puts the next ones back, in one transaction.
    private func putBack(_ conversation: Name?, after: Int64, through: Int64) throws(QueueError) -> PutBack? {
        let sequences = try store.failed(in: conversation, after: after, through: through, limit: Self.putBackTogether)
        guard let last = sequences.last else { return nil }
        let now = ports.moment
        let round = scheduler.roundNumber ?? UInt32(truncatingIfNeeded: ports.random()) | 1
        var rows: [Row] = []
        try transaction(durable: true) { () throws(QueueError) in
            rows.removeAll(keepingCapacity: true)
            for sequence in sequences {
                guard let row = try failedRow(sequence) else { continue }
                try store.update(row, to: OutcomeRule.putBack(row.progress, expiresAt: row.expiresAt, round: round, now: now.wall))
                rows.append(row)
            }
        }
        var first: [Name: Int64] = [:]
        for row in rows {
            if first[row.conversation] == nil { first[row.conversation] = row.sequence }
            if row.expiresAt > now.wall { nextExpiry = min(nextExpiry, row.expiresAt) }
            emit(
                .status(
                    StatusChange(
                        id: row.id, conversation: row.conversation.text, from: .failed, to: .queued, attempt: 0, failure: nil, at: now.wall)
                ))
        }
        for name in first.keys { refreshBlock(name) }
        scheduler.putBack(first, round: round, through: last, now)
        countsChanged()
        return PutBack(count: Int64(rows.count), last: last, hasMore: sequences.count == Self.putBackTogether)
    }

    /// A failed message as it was written; nil: it is damaged, and stays failed.
    private func failedRow(_ sequence: Int64) throws(QueueError) -> Row? {
        do throws(QueueError) {
            guard let row = try store.row(at: sequence, .none), row.progress.status == .failed else { return nil }
            return row
        } catch {
            guard error.code == .corrupt else { throw error }
            Log.error("\(store.path): \(error.detail)")
            return nil
        }
    }
}
