/// Puts failed messages back to `queued` in their places, for `retryAll` and for a drain that includes them. Under the engine's lock.
final class FailedMessages {
    private let context: EngineContext
    private let store: Store
    private let events: EventDelivery
    private let maintenance: Maintenance
    private let transactions: Transactions
    private let writes: PendingWrites

    init(_ parts: EngineParts) {
        (context, store, events) = (parts.context, parts.context.store, parts.events)
        (maintenance, transactions, writes) = (parts.maintenance, parts.transactions, parts.writes)
    }

    /// The failed messages that a filter selects. They are put back by several transactions, between which the lock may be released.
    struct Search {
        private let filter: Filter
        /// Messages of these conversations stay failed.
        let paused: Set<Name>
        /// The number of messages that were put back.
        fileprivate(set) var count: Int64 = 0
        /// The last sequence processed.
        fileprivate(set) var after: Int64
        /// The last sequence to process. Messages that fail later are not included, even if they were put back before.
        fileprivate var through = Int64.max
        /// The number of messages per transaction: about five milliseconds.
        fileprivate var limit = 128

        init(_ filter: Filter, after: Int64 = 0, paused: Set<Name> = []) {
            (self.filter, self.after, self.paused) = (filter, after, paused)
        }

        /// The next page.
        fileprivate var page: Filter {
            var page = filter
            (page.after, page.limit) = (after, limit)
            return page
        }
    }

    /// Puts the next messages back, as part of this round (0: none). Returns false if there are no more: then all of them are durable.
    func putBack(_ search: inout Search, round: UInt32) throws(QueueError) -> Bool {
        try writes.requireSaved()
        search.through = min(search.through, store.state.lastSequence)
        while true {
            do throws(QueueError) {
                if try putBackTogether(&search, round) { return true }
                try transactions.flush()
                return false
            } catch {
                search.limit = try Transactions.fewer(than: search.limit, after: error)
            }
        }
    }

    /// Puts the next messages back in one transaction. Returns false if there are no more.
    private func putBackTogether(_ search: inout Search, _ round: UInt32) throws(QueueError) -> Bool {
        let through = search.through
        let sequences = try store.pages.sequences(search.page, sending: []).prefix { $0 <= through }
        guard let last = sequences.last else { return false }
        let now = context.ports.moment
        var rows: [Row] = []
        let isLeast = search.limit == 1
        try transactions.run(durable: false, room: isLeast ? .kept : .inLog, isTried: !isLeast) { () throws(QueueError) in
            rows.removeAll(keepingCapacity: true)
            for sequence in sequences {
                guard let row = try failedRow(sequence), !search.paused.contains(row.conversation), !isBeingRemoved(row),
                    row.bodySize <= context.options.limitBody
                else { continue }
                try store.messages.update(
                    row, to: OutcomeRule.putBack(row.progress, expiresAt: row.expiry(now), round: round, now: now.wall))
                rows.append(row)
            }
        }
        var first: [Name: Int64] = [:]
        for row in rows {
            // A request by hand that has not started would use up its retries.
            context.core.scheduler.requests.remove(row.sequence)
            if first[row.conversation] == nil { first[row.conversation] = row.sequence }
            if row.expiry(now) > now.wall { maintenance.expires(at: row.expiresAt) }
            events.emit(row.changed(from: .failed, to: .queued, at: now.wall))
        }
        for name in first.keys { writes.refreshBlock(name) }
        context.core.scheduler.putBack(first, round: round, through: last, now)
        events.countsChanged()
        search.count += Int64(rows.count)
        search.after = last
        return sequences.count == search.limit
    }

    private func isBeingRemoved(_ row: Row) -> Bool {
        context.core.scheduler.gate.pauses.isBeingRemoved(row.sequence, row.conversation, isUnsent: true)
    }

    /// Reads a failed message; nil: it is damaged and stays failed.
    private func failedRow(_ sequence: Int64) throws(QueueError) -> Row? {
        do throws(QueueError) {
            guard let row = try store.messages.row(at: sequence, .none), row.progress.status == .failed else { return nil }
            // Bodies are read when they are sent, but not again to find the same damage.
            if row.progress.isDamaged { _ = try store.messages.row(at: sequence, .whole)?.metadata() }
            return row
        } catch {
            guard error.code == .corrupt else { throw error }
            Log.error("\(store.path): \(error.detail)")
            return nil
        }
    }
}
