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

    /// A transaction ends after so many milliseconds, before its commit, and after bodies of so many bytes, whose rows the commit writes.
    private static let longestStep: Int64 = 6
    private static let bytesPerStep: Int64 = 256 << 10

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
        /// The most messages per transaction. Those of a conversation share the pages of the indexes and the row of its counts.
        fileprivate var limit = 1_000
        /// How many of them, so that with its commit, which writes more the more conversations there are, a step takes some milliseconds.
        fileprivate var size = StepSize(128, in: 32...1_000, longest: 6)

        init(_ filter: Filter, after: Int64 = 0, paused: Set<Name> = []) {
            (self.filter, self.after, self.paused) = (filter, after, paused)
        }

        /// The next page.
        fileprivate var page: Filter {
            var page = filter
            (page.after, page.limit) = (after, min(limit, Int(size.value)))
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
        let page = search.page
        let sequences = try store.pages.sequences(page, sending: []).prefix { $0 <= through }
        guard let end = sequences.last else { return false }
        let now = context.ports.moment
        var (rows, last): ([Row], Int64) = ([], 0)
        let isLeast = search.limit == 1
        try transactions.run(durable: false, room: isLeast ? .kept : .inLog, isTried: !isLeast) { () throws(QueueError) in
            rows.removeAll(keepingCapacity: true)
            var bytes: Int64 = 0
            let latest = now.mono.addingClamped(Self.longestStep)
            for sequence in sequences {
                guard bytes < Self.bytesPerStep, rows.isEmpty || context.ports.mono() < latest else { break }
                last = sequence
                guard let row = try failedRow(sequence), !search.paused.contains(row.conversation), !isBeingRemoved(row),
                    row.bodySize <= context.options.limitBody
                else { continue }
                try store.messages.update(
                    row, to: OutcomeRule.putBack(row.progress, expiresAt: row.expiry(now), round: round, now: now.wall))
                bytes = bytes.addingClamped(min(row.bodySize, Int64(MessageInsertion.inlineBody)))
                rows.append(row)
            }
        }
        search.size.took(context.ports.mono() &- now.mono)
        var first: [Name: Int64] = [:]
        for row in rows {
            // A request by hand that has not started would use up its retries.
            context.core.scheduler.requests.remove(row.sequence)
            if first[row.conversation] == nil { first[row.conversation] = row.sequence }
            if row.expiry(now) > now.wall { maintenance.expires(at: row.expiresAt) }
            events.emit(
                .status(
                    StatusChange(
                        id: row.id, conversation: row.conversation.text, from: .failed, to: .queued, attempt: 0, failure: nil, at: now.wall)
                ))
        }
        for name in first.keys { writes.refreshBlock(name) }
        context.core.scheduler.putBack(first, round: round, through: last, now)
        events.countsChanged()
        search.count += Int64(rows.count)
        search.after = last
        return last < end || sequences.count == page.limit
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
