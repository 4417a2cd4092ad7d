/// The list of conversations, the ids of removed messages, and the pruning of the history.
extension Store {
    /// A conversation with its newest message.
    package struct Outline {
        package let name: Name
        package let counts: Counts
        package let last: Row
    }

    /// Returns conversations in the order of their newest messages, newest first: those before the sequence number `before` (0: from the
    /// first). Calls `damaged` for each that is left out because its newest message is damaged.
    package func conversations(before: Int64, limit: Int, damaged: (QueueError) -> Void) throws(QueueError) -> [Outline] {
        // Unfolded rows are not in the table `conversation` yet, and are newer than all folded ones.
        let newest = try newestUnfolded()
        let end = before == 0 ? Int64.max : before
        var found: [(Name, Counts?, Int64)] = []
        for (name, sequence) in newest.sorted(by: { $0.value > $1.value }) where sequence < end && found.count < limit {
            found.append((name, try foldedCounts(of: name), sequence))
        }
        let statement = try database.statement(
            """
            SELECT \(ConversationColumn.self) FROM conversation INDEXED BY conversation_recent
            WHERE last_seq < ?1 AND last_seq > 0 ORDER BY last_seq DESC
            """)
        statement.bind(1, end)
        try statement.forEach { () throws(QueueError) in
            guard found.count < limit else { return false }
            let fields = Fields<ConversationColumn>(statement)
            let name = Name(fields.text(.name))
            if newest[name] == nil { found.append((name, checkedCounts(fields), fields.int(.lastSeq))) }
            return true
        }
        var outlines: [Outline] = []
        for (name, counts, sequence) in found {
            do throws(QueueError) {
                guard let row = try row(at: sequence, .start) else { continue }
                let folded: Counts
                if let counts { folded = counts } else { folded = try recount(name) }
                outlines.append(Outline(name: name, counts: folded + (counters.unfolded[name] ?? Counts()), last: row))
            } catch {
                guard error.code == .corrupt else { throw error }
                damaged(error)
            }
        }
        return outlines
    }

    /// Returns the newest row of each conversation that has unfolded rows.
    private func newestUnfolded() throws(QueueError) -> [Name: Int64] {
        guard unfoldedRows > 0 else { return [:] }
        let statement = try database.statement("SELECT seq, conversation FROM message NOT INDEXED WHERE seq > ?1 ORDER BY seq")
        statement.bind(1, foldedThrough)
        var newest: [Name: Int64] = [:]
        try statement.forEach { () throws(QueueError) in
            newest[Name(statement.text(1))] = statement.int(0)
            return true
        }
        return newest
    }

    /// Updates `conversation` after a message was removed: sets the newest message, or deletes the row of an empty conversation.
    func updateNewest(afterRemoving row: Row) throws(QueueError) {
        guard row.sequence <= foldedThrough else { return }
        let newest = try database.statement(
            """
            UPDATE conversation SET last_seq = ?3, proof = proof + 29 * (?3 - last_seq) WHERE name = ?1 AND last_seq = ?2
            """)
        try newest.bind(1, row.conversation.text)
        newest.bind(2, row.sequence)
        let last = try newestSequence(in: row.conversation)
        newest.bind(3, last)
        try newest.run()
        guard database.changes > 0, last == 0 else { return }
        // Counts that remain come from damaged messages.
        guard let left = try foldedCounts(of: row.conversation) else { throw mismatch(row) }
        counters.add(left.negated, row.conversation, unfolded: false)
        let empty = try database.statement("DELETE FROM conversation WHERE name = ?1 AND last_seq = 0")
        try empty.bind(1, row.conversation.text)
        try empty.run()
    }

    /// Returns the newest folded message of a conversation; 0: there is none.
    private func newestSequence(in conversation: Name) throws(QueueError) -> Int64 {
        let statement = try database.statement(
            "SELECT max(seq) FROM message INDEXED BY message_conversation WHERE indexed = 1 AND conversation = ?1")
        try statement.bind(1, conversation.text)
        return try statement.first { () throws(QueueError) in statement.int(0) } ?? 0
    }

    // MARK: Ids of removed messages

    package func addRecent(_ id: String, isReceived: Bool, now: Int64) throws(QueueError) {
        let statement = try database.statement("INSERT OR REPLACE INTO recent(id, gone_at, is_received) VALUES(?1, ?2, ?3)")
        statement.bind(3, isReceived)
        try statement.bind(1, id)
        statement.bind(2, now)
        try statement.run()
    }

    /// Returns whether the message with this id that was removed at `since` or later was a recorded one; nil: there was none.
    package func recentIsReceived(_ id: String, since: Int64) throws(QueueError) -> Bool? {
        let statement = try database.statement("SELECT is_received FROM recent WHERE id = ?1 AND gone_at >= ?2")
        try statement.bind(1, id)
        statement.bind(2, since)
        return try statement.first { () throws(QueueError) in statement.bool(0) }
    }

    private func deleteRecent(before: Int64, limit: Int64) throws(QueueError) -> Int {
        // A session in which nothing is due changes no file.
        let oldest = try database.statement("SELECT min(gone_at) FROM recent INDEXED BY recent_gone")
        let isDue = try oldest.first { () throws(QueueError) in !oldest.isNull(0) && oldest.int(0) < before } ?? false
        guard isDue else { return 0 }
        let statement = try database.statement(
            "DELETE FROM recent WHERE id IN (SELECT id FROM recent INDEXED BY recent_gone WHERE gone_at < ?1 LIMIT ?2)")
        statement.bind(1, before)
        statement.bind(2, limit)
        try statement.run()
        return database.changes
    }

    // MARK: Pruning

    /// The maximal number of messages that one step removes, so that a send waits only briefly for the lock.
    private static let pruneLimit = 100

    /// The result of one step of pruning.
    package enum PruneStep {
        case finished
        /// There is more to remove.
        case hasMore
        /// Nothing is known to be due, but a part of the history was not scanned yet in this session.
        case isScanning
    }

    /// Runs one step of pruning, in the caller's transaction. Removes messages that were sent, or recorded and read, in the order of their
    /// sequence numbers: those in excess of `keepCount`, and those older than `keepSince` (nil: no limit). Calls `damaged` for each
    /// damaged message that is removed.
    package func prune(
        keepCount: Int64?, keepSince: Int64?, forgetBefore: Int64, now: Int64, damaged: (QueueError) -> Void
    ) throws(QueueError) -> PruneStep {
        let isRecentPruned = try deleteRecent(before: forgetBefore, limit: Int64(Self.pruneLimit)) < Self.pruneLimit
        let excess = max(0, keepCount.map { totals.prunable &- $0 } ?? 0)
        guard let scan = try nextScan(hasExcess: excess > 0, keepSince: keepSince) else { return isRecentPruned ? .finished : .hasMore }
        let removed = try prune(scan, excess: excess, keepSince: keepSince ?? Int64.min, now: now, damaged)
        let isLimit = removed == Self.pruneLimit
        // When prunable messages may be left, the entry of the range stays: it is not later than the true time.
        if isLimit || excess > 0 && removed == excess {
            if scan.isFirst { pruneMap.finish(scan, oldest: Int64.min) }
        } else {
            pruneMap.finish(scan, oldest: try oldestPrunable(scan))
        }
        guard isRecentPruned, !isLimit, excess <= removed else { return .hasMore }
        return scan.isFirst ? .isScanning : .hasMore
    }

    private func nextScan(hasExcess: Bool, keepSince: Int64?) throws(QueueError) -> PruneMap.Scan? {
        let newest = nextSequence - 1
        guard let scan = pruneMap.next(hasExcess: hasExcess, keepSince: keepSince, newest: newest) else { return nil }
        guard scan.isFirst else { return scan }
        // Skip ranges without messages.
        let statement = try database.statement("SELECT seq FROM message WHERE seq > ?1 ORDER BY seq LIMIT 1")
        statement.bind(1, scan.after)
        let first = try statement.first { () throws(QueueError) in statement.int(0) }
        guard first.map({ $0 > scan.through }) ?? true else { return scan }
        pruneMap.skip(to: first.map { $0 - 1 } ?? newest)
        return pruneMap.next(hasExcess: hasExcess, keepSince: keepSince, newest: newest)
    }

    /// The time from which the age of a row counts.
    private static let prunableAt: SQL = "(CASE WHEN status < \(.received) THEN sent_at ELSE max(created_at, read_at) END)"

    /// Removes prunable messages of one scan and returns their number.
    private func prune(
        _ scan: PruneMap.Scan, excess: Int64, keepSince: Int64, now: Int64, _ damaged: (QueueError) -> Void
    ) throws(QueueError) -> Int {
        let statement = try database.statement(
            """
            SELECT \(OutlineColumn.self) FROM message
            WHERE seq > ?1 AND seq <= ?2 AND status IN (\(StoredStatus.prunable)) AND (?3 > 0 OR \(Self.prunableAt) < ?4) ORDER BY seq LIMIT ?5
            """)
        statement.bind(1, scan.after)
        statement.bind(2, scan.through)
        statement.bind(3, excess)
        statement.bind(4, keepSince)
        statement.bind(5, excess > 0 ? min(excess, Int64(Self.pruneLimit)) : Int64(Self.pruneLimit))
        var rows: [Row] = []
        try statement.forEach { () throws(QueueError) in
            rows.append(Row(Fields<OutlineColumn>(statement)))
            return true
        }
        for row in rows {
            if try !verifyCounts(for: row, .none) {
                damaged(QueueError(.corrupt, "message \(row.sequence) (\(row.id)) was damaged and was removed from the history"))
            }
            try delete(row)
            try addRecent(row.id, isReceived: row.isReceived, now: now)
        }
        return rows.count
    }

    /// Returns the time of the oldest prunable message of a scan; nil: there is none.
    private func oldestPrunable(_ scan: PruneMap.Scan) throws(QueueError) -> Int64? {
        let statement = try database.statement(
            "SELECT min(\(Self.prunableAt)) FROM message WHERE seq > ?1 AND seq <= ?2 AND status IN (\(StoredStatus.prunable))")
        statement.bind(1, scan.after)
        statement.bind(2, scan.through)
        return try statement.first { () throws(QueueError) in statement.isNull(0) ? nil : statement.int(0) } ?? nil
    }
}
