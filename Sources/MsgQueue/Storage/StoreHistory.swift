/// What stays after sending: the history, its conversations, and its pruning.
extension Store {
    /// A conversation with its newest message.
    package struct Outline {
        package let name: Name
        package let counts: Counts
        package let last: Row
    }

    /// Conversations, the one with the newest message first, behind one whose newest message has the sequence `before` (0: from the start).
    package func conversations(before: Int64, limit: Int, damaged: (QueueError) -> Void) throws(QueueError) -> [Outline] {
        // The newest rows are in no table of conversations yet: what they say goes first.
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

    /// The newest row of each conversation that has rows which are not folded.
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

    /// After a message is gone: its conversation's newest is another, or the conversation is gone, too.
    func conversationLost(_ row: Row) throws(QueueError) {
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
        // What is left of its counts was counted of damaged messages.
        guard let left = try foldedCounts(of: row.conversation) else { throw misfit(row) }
        counters.add(left.negated, row.conversation, unfolded: false)
        let empty = try database.statement("DELETE FROM conversation WHERE name = ?1 AND last_seq = 0")
        try empty.bind(1, row.conversation.text)
        try empty.run()
    }

    /// Of the folded messages of a conversation; 0: there are none.
    private func newestSequence(in conversation: Name) throws(QueueError) -> Int64 {
        let statement = try database.statement(
            "SELECT max(seq) FROM message INDEXED BY message_conversation WHERE indexed = 1 AND conversation = ?1")
        try statement.bind(1, conversation.text)
        return try statement.first { () throws(QueueError) in statement.int(0) } ?? 0
    }

    // MARK: Ids of what is gone

    package func remember(_ id: String, isReceived: Bool, now: Int64) throws(QueueError) {
        let statement = try database.statement("INSERT OR REPLACE INTO recent(id, gone_at, is_received) VALUES(?1, ?2, ?3)")
        statement.bind(3, isReceived)
        try statement.bind(1, id)
        statement.bind(2, now)
        try statement.run()
    }

    /// A message with this id that is gone since: whether it was somebody else's; nil: there was none.
    package func remembered(_ id: String, since: Int64) throws(QueueError) -> Bool? {
        let statement = try database.statement("SELECT is_received FROM recent WHERE id = ?1 AND gone_at >= ?2")
        try statement.bind(1, id)
        statement.bind(2, since)
        return try statement.first { () throws(QueueError) in statement.bool(0) }
    }

    private func forget(before: Int64, limit: Int64) throws(QueueError) -> Int {
        let statement = try database.statement(
            "DELETE FROM recent WHERE id IN (SELECT id FROM recent INDEXED BY recent_gone WHERE gone_at < ?1 LIMIT ?2)")
        statement.bind(1, before)
        statement.bind(2, limit)
        try statement.run()
        return database.changes
    }

    // MARK: Pruning

    /// Messages that one step removes at most: a send that comes meanwhile waits no longer than that takes.
    private static let pruneLimit = 100

    /// What one step of pruning left to do.
    package enum PruneStep {
        case finished
        /// More is to be removed.
        case hasMore
        /// Nothing is known to be due; the rest of the history was not looked at yet in this session.
        case isLooking
    }

    /// One step of pruning, in the caller's transaction. Only what was sent, or recorded and read, goes, the oldest in order first: what is
    /// beyond `keepCount`, and what is older than `keepSince` (nil: no limit). Damaged messages that are removed are told to `damaged`.
    package func prune(
        keepCount: Int64?, keepSince: Int64?, forgetBefore: Int64, now: Int64, damaged: (QueueError) -> Void
    ) throws(QueueError) -> PruneStep {
        let hasForgotten = try forget(before: forgetBefore, limit: Int64(Self.pruneLimit)) < Self.pruneLimit
        let excess = max(0, keepCount.map { totals.prunable &- $0 } ?? 0)
        guard let look = try nextLook(hasExcess: excess > 0, keepSince: keepSince) else { return hasForgotten ? .finished : .hasMore }
        let removed = try prune(look, excess: excess, keepSince: keepSince ?? Int64.min, now: now, damaged)
        let isLimit = removed == Self.pruneLimit
        // The time of the oldest is still not later than the true one when some of them are left.
        if isLimit || excess > 0 && removed == excess {
            if look.isFirst { pruneMap.looked(look, oldest: Int64.min) }
        } else {
            pruneMap.looked(look, oldest: try oldestPrunable(look))
        }
        guard hasForgotten, !isLimit, excess <= removed else { return .hasMore }
        return look.isFirst ? .isLooking : .hasMore
    }

    private func nextLook(hasExcess: Bool, keepSince: Int64?) throws(QueueError) -> PruneMap.Look? {
        let newest = nextSequence - 1
        guard let look = pruneMap.next(hasExcess: hasExcess, keepSince: keepSince, newest: newest) else { return nil }
        guard look.isFirst else { return look }
        // Where there are no messages any more nothing is looked for.
        let statement = try database.statement("SELECT seq FROM message WHERE seq > ?1 ORDER BY seq LIMIT 1")
        statement.bind(1, look.after)
        let first = try statement.first { () throws(QueueError) in statement.int(0) }
        guard first.map({ $0 > look.through }) ?? true else { return look }
        pruneMap.skip(to: first.map { $0 - 1 } ?? newest)
        return pruneMap.next(hasExcess: hasExcess, keepSince: keepSince, newest: newest)
    }

    /// Since when a row may be pruned.
    private static let prunableAt: SQL = "(CASE WHEN status < \(.received) THEN sent_at ELSE max(created_at, read_at) END)"

    /// How many were removed.
    private func prune(
        _ look: PruneMap.Look, excess: Int64, keepSince: Int64, now: Int64, _ damaged: (QueueError) -> Void
    ) throws(QueueError) -> Int {
        let statement = try database.statement(
            """
            SELECT \(OutlineColumn.self) FROM message
            WHERE seq > ?1 AND seq <= ?2 AND status IN (\(StoredStatus.prunable)) AND (?3 > 0 OR \(Self.prunableAt) < ?4) ORDER BY seq LIMIT ?5
            """)
        statement.bind(1, look.after)
        statement.bind(2, look.through)
        statement.bind(3, excess)
        statement.bind(4, keepSince)
        statement.bind(5, excess > 0 ? min(excess, Int64(Self.pruneLimit)) : Int64(Self.pruneLimit))
        var rows: [Row] = []
        try statement.forEach { () throws(QueueError) in
            rows.append(Row(Fields<OutlineColumn>(statement)))
            return true
        }
        for row in rows {
            if try !fitCounts(to: row, .none) {
                damaged(QueueError(.corrupt, "message \(row.sequence) (\(row.id)) was damaged and was removed from the history"))
            }
            try delete(row)
            try remember(row.id, isReceived: row.isReceived, now: now)
        }
        return rows.count
    }

    private func oldestPrunable(_ look: PruneMap.Look) throws(QueueError) -> Int64? {
        let statement = try database.statement(
            "SELECT min(\(Self.prunableAt)) FROM message WHERE seq > ?1 AND seq <= ?2 AND status IN (\(StoredStatus.prunable))")
        statement.bind(1, look.after)
        statement.bind(2, look.through)
        return try statement.first { () throws(QueueError) in statement.isNull(0) ? nil : statement.int(0) } ?? nil
    }
}
