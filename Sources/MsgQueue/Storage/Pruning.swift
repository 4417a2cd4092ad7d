/// The search for messages older than the history keeps them. It reads the index of the history from its start, and ends at the first
/// message that was created later: those after it were sent later still.
struct AgeSearch {
    /// Messages up to this sequence number were looked at.
    var cursor: Int64 = 0
    /// The time from which the age of the oldest of these counts that is still kept.
    var oldest = Int64.max
}

/// Removing messages that were sent, or recorded and read.
final class Pruning {
    private let database: Database
    private let state: StateRow
    private let times: TimeIndex
    private let history: HistoryIndex
    private let counts: ConversationCounts
    private let messages: MessageTable
    private let pages: MessagePages
    private let recentIDs: RecentIDs
    private var ageSearch = AgeSearch()
    /// The last message of the history that was found too old by its own time.
    private var oldThrough: Int64 = 0
    /// Pruning found fewer messages than the counts say.
    private var hasMissedExcess = false

    init(_ messages: MessageTable, _ pages: MessagePages) {
        (database, state, times, history) = (messages.database, messages.state, messages.times, messages.history)
        (counts, recentIDs, self.messages, self.pages) = (messages.counts, messages.recentIDs, messages, pages)
    }

    func rollback() { ageSearch = AgeSearch() }

    /// The maximal number of messages that one step removes, so that other threads wait only briefly for the lock.
    static let limit = 128
    /// The search by age reads so many messages for each that a step may remove.
    private static let agesPerRemoval: Int64 = 4

    /// The result of one step of pruning.
    enum Step: Equatable {
        /// Nothing more is due now. `oldest`: no message of the history is older than this; nil: there is no limit or no message.
        case finished(oldest: Int64?)
        /// There is more to remove.
        case hasMore
        /// More must be read to find what is due.
        case isSearching
    }

    /// Runs one step of pruning, in the caller's transaction. Removes messages: the oldest by time in excess of
    /// `keepCount`, and those older than `keepSince` (nil: no limit), at most `limit`. Calls `damaged` for each damaged message that is
    /// removed.
    func prune(
        keepCount: Int64?, keepSince: Int64?, forgetBefore: Int64, now: Int64, limit: Int = limit,
        damaged: (QueueError) -> Void
    ) throws(QueueError) -> Step {
        if history.isIncomplete {
            try history.extend(by: Int64(limit) * HistoryIndex.extensionPerRemoval)
            return .isSearching
        }
        // Those in excess come last: the commits of outcomes remove them, too.
        var aged = Step.finished(oldest: nil)
        if let keepSince {
            try history.settle()
            aged = try pruneAged(since: keepSince, now: now, limit, damaged)
            if case .hasMore = aged { return .hasMore }
        }
        if try recentIDs.forget(before: forgetBefore, now: now < state.earliest ? nil : now, limit: limit) { return .hasMore }
        if try pruneExcess(keepCount: keepCount, now: now, limit: limit, damaged: damaged) > 0 { return .hasMore }
        return aged
    }

    /// The most messages in excess that are looked up at once.
    private static let excessLimit: Int64 = 1024

    /// Removes some of the messages in excess of `keepCount`, in the caller's transaction. Returns their number.
    ///
    /// Those that are looked up at once are removed by conversation, because the indexes that begin with the conversation then change fewer
    /// pages in each step. All of them are in excess, so that in the end the newest ones are kept.
    func pruneExcess(
        keepCount: Int64?, now: Int64, limit most: Int = limit, damaged: (QueueError) -> Void
    ) throws(QueueError) -> Int {
        guard let keepCount, !history.isIncomplete, counts.totals.prunable > keepCount else {
            history.excess = []
            return 0
        }
        if history.excess.isEmpty {
            let limit = min(counts.totals.prunable - keepCount, Self.excessLimit)
            history.excess = try oldestPrunable(limit)
            // Those without entries in the index may be among the oldest.
            if let oldest = history.unsettled.oldest, history.excess.count < limit || oldest < history.excess.max() ?? 0 {
                try history.settle()
                history.excess = try oldestPrunable(limit)
            }
        }
        let found = Array(history.excess.suffix(Int(min(counts.totals.prunable - keepCount, Int64(most)))))
        history.excess.removeLast(found.count)
        if found.isEmpty {
            // The counts or the index are wrong. They are rebuilt once in a session.
            guard !hasMissedExcess else { return 0 }
            hasMissedExcess = true
            throw QueueError(.corrupt, "the counts of the history do not agree with its index", .index)
        }
        try removePrunable(found, now, damaged)
        return found.count
    }

    /// Returns the oldest prunable messages by time, by conversation.
    private func oldestPrunable(_ limit: Int64) throws(QueueError) -> [Int64] {
        guard !times.hasTimes else { return try oldestPrunableByTime(limit) }
        // A message that is missing is found when it is to be removed.
        let statement = try database.statement(
            """
            SELECT i.seq FROM (
              SELECT seq FROM history WHERE status = \(.sent) UNION ALL SELECT seq FROM history WHERE status = \(.delivered)
              UNION ALL SELECT seq FROM history WHERE status = \(.read) UNION ALL SELECT seq FROM history WHERE status = \(.receivedRead)
              UNION ALL SELECT seq FROM message NOT INDEXED WHERE seq > ?2 AND status IN (\(StoredStatus.prunable)) ORDER BY 1 LIMIT ?1
            ) AS i LEFT JOIN message AS m ON m.seq = i.seq ORDER BY m.conversation DESC, i.seq DESC
            """)
        statement.bind(1, limit)
        statement.bind(2, state.foldedThrough)
        return try statement.integers()
    }

    /// The same for a store in which the order by time is not that of the sequence numbers.
    private func oldestPrunableByTime(_ limit: Int64) throws(QueueError) -> [Int64] {
        let filter = Filter(statuses: [StatusSet(.sent), StatusSet(.delivered), StatusSet(.read)], limit: Int(limit), order: .time)
        guard let found = try PageQuery(filter, [], pages, only: StoredStatus.prunable).placesByTime() else {
            throw QueueError(.corrupt, "the index of the history has entries of messages that are gone", .index)
        }
        let conversation = try database.statement("SELECT conversation FROM message WHERE seq = ?1")
        var places: [(conversation: String, sequence: Int64)] = []
        for sequence in found.map(\.sequence) {
            conversation.bind(1, sequence)
            places.append((try conversation.first { () throws(QueueError) in conversation.text(0) } ?? "", sequence))
        }
        return places.sorted { $0 > $1 }.map(\.sequence)
    }

    /// Runs one step of the search by age.
    private func pruneAged(
        since keepSince: Int64, now: Int64, _ limit: Int, _ damaged: (QueueError) -> Void
    ) throws(QueueError) -> Step {
        let rows = Int64(limit) * Self.agesPerRemoval
        let statement = try database.statement(
            """
            SELECT m.seq, m.created_at, CASE WHEN m.status < \(.received) THEN m.sent_at ELSE max(m.created_at, m.read_at) END FROM (
              SELECT seq FROM history WHERE status = \(.sent) AND seq > ?1 UNION ALL SELECT seq FROM history WHERE status = \(.delivered) AND seq > ?1
              UNION ALL SELECT seq FROM history WHERE status = \(.read) AND seq > ?1
              UNION ALL SELECT seq FROM history WHERE status = \(.receivedRead) AND seq > ?1
              UNION ALL SELECT seq FROM message NOT INDEXED WHERE seq > max(?1, ?3) AND status IN (\(StoredStatus.prunable)) ORDER BY 1 LIMIT ?2
            ) AS i CROSS JOIN message AS m ON m.seq = i.seq
            """)
        statement.bind(1, ageSearch.cursor)
        statement.bind(2, rows)
        statement.bind(3, state.foldedThrough)
        var (search, due, isComplete, read) = (ageSearch, [Int64](), false, Int64(0))
        try statement.forEach { () throws(QueueError) in
            let sequence = statement.int(0)
            let (created, time) = (state.clock.corrected(statement.int(1)), state.clock.corrected(statement.int(2)))
            read += 1
            // A time before `earliest` says nothing: the message is old when a later one is.
            let isUnknown = time < state.earliest
            if isUnknown ? sequence < oldThrough : time < keepSince {
                if !isUnknown { oldThrough = max(oldThrough, sequence) }
                due.append(sequence)
                // The rest is looked at in the next step.
                if due.count == limit { return false }
            } else {
                // A time in the future was set by a wrong clock and says nothing about the messages after it.
                isComplete = created >= max(keepSince, state.earliest) && created <= now
                search.oldest = min(search.oldest, isUnknown ? now : isComplete ? created : time)
            }
            if !isComplete { search.cursor = sequence }
            return !isComplete
        }
        if !due.isEmpty { history.excess = [] }
        try removePrunable(due, now, damaged)
        isComplete = isComplete || (read < rows && due.count < limit)
        ageSearch = isComplete ? AgeSearch() : search
        guard isComplete else { return due.isEmpty ? .isSearching : .hasMore }
        return .finished(oldest: search.oldest == Int64.max ? nil : search.oldest)
    }

    // MARK: Removing

    /// Removes messages of the history and remembers their ids.
    private func removePrunable(_ sequences: [Int64], _ now: Int64, _ damaged: (QueueError) -> Void) throws(QueueError) {
        guard let first = sequences.min(), let last = sequences.max() else { return }
        let hasAttempts = try hasAttempts(from: first, through: last)
        for sequence in sequences {
            guard let row = try removable(sequence, damaged) else { continue }
            try recentIDs.add(row.id, of: row.sequence, isReceived: row.isReceived, now: now)
            guard row.damage == nil else {
                try messages.delete(row, .pruned)
                continue
            }
            try history.changeEntries(of: row, from: StoredStatus(row.progress.status, isReceived: row.isReceived), to: nil)
            try deleteRow(row, hasAttempts: hasAttempts)
        }
    }

    /// Returns the row of a message that is to be removed. A damaged one has only an outline, and `damage`.
    private func removable(_ sequence: Int64, _ damaged: (QueueError) -> Void) throws(QueueError) -> Row? {
        do throws(QueueError) {
            guard let row = try messages.row(at: sequence, .none),
                let status = StoredStatus(row.progress.status, isReceived: row.isReceived),
                StoredStatus.prunable.contains(status)
            else {
                throw QueueError(.corrupt, "the index of the history does not agree with message \(sequence)", .index)
            }
            return row
        } catch {
            guard error.code == .corrupt, !error.isIndex, var outline = try messages.row(at: sequence, .outline) else { throw error }
            try messages.verifyCounts(for: outline, .none)
            damaged(QueueError(.corrupt, "message \(sequence) (\(outline.id)) was damaged and was removed from the history"))
            outline.damage = error.detail
            return outline
        }
    }

    private func hasAttempts(from first: Int64, through last: Int64) throws(QueueError) -> Bool {
        let statement = try database.statement("SELECT 1 FROM attempt WHERE seq >= ?1 AND seq <= ?2 LIMIT 1")
        statement.bind(1, first)
        statement.bind(2, last)
        return try statement.first { () throws(QueueError) in true } ?? false
    }

    /// Deletes the row of an intact message that is not in flight.
    private func deleteRow(_ row: Row, hasAttempts: Bool) throws(QueueError) {
        let message = try database.statement("DELETE FROM message WHERE seq = ?1")
        message.bind(1, row.sequence)
        try message.run()
        if database.changes == 1 {
            counts.noteRemoved(row)
            try messages.feed?.noteGone(row, .pruned)
        }
        if row.bodySize > MessageInsertion.inlineBody {
            let body = try database.statement("DELETE FROM large_body WHERE seq = ?1")
            body.bind(1, row.sequence)
            try body.run()
        }
        if hasAttempts { try messages.attempts.delete(of: row.sequence) }
    }
}
