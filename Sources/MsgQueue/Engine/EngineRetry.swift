import Glibc

/// All that failed, retried together.
extension Engine {
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
        var limit = Self.putBackTogether
        while true {
            let step = try changing { () throws(QueueError) -> PutBack? in
                guard transport != nil else { throw QueueError(.noTransport, "there is no transport to send with") }
                guard core.scheduler.network.isOnline || options.mode == .auto else { return nil }
                if !unsaved.isEmpty { saveUnsaved() }
                if !unsaved.isEmpty, let storageTrouble { throw storageTrouble }
                through = min(through, store.lastSequence)
                return try putBack(name, after: after, through: through, limit: &limit)
            }
            guard let step else { return count }
            count += step.count
            after = step.last
            guard step.hasMore else { return count }
            // Whoever waits for the lock comes first.
            usleep(100)
        }
    }

    /// Puts the next ones back, in one transaction; fewer of them when the disk is full.
    private func putBack(_ conversation: Name?, after: Int64, through: Int64, limit: inout Int) throws(QueueError) -> PutBack? {
        while limit > 1 {
            do throws(QueueError) { return try putBack(conversation, after: after, through: through, limit: limit) } catch {
                guard error.isFull else { throw error }
                limit /= 4
            }
        }
        return try putBack(conversation, after: after, through: through, limit: 1)
    }

    private func putBack(_ conversation: Name?, after: Int64, through: Int64, limit: Int) throws(QueueError) -> PutBack? {
        let sequences = try store.failed(in: conversation, after: after, through: through, limit: limit)
        guard let last = sequences.last else { return nil }
        let now = ports.moment
        let round = core.scheduler.roundNumber ?? UInt32(truncatingIfNeeded: ports.random()) | 1
        var rows: [Row] = []
        let isLeast = limit == 1
        try transaction(durable: true, room: isLeast ? .kept : .inLog, isTried: !isLeast) { () throws(QueueError) in
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
        core.scheduler.putBack(first, round: round, through: last, now)
        countsChanged()
        return PutBack(count: Int64(rows.count), last: last, hasMore: sequences.count == limit)
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
