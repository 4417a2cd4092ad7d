/// The fold, and the counts that it keeps.
extension Store {
    /// Rows that the fold has not seen.
    package var unfoldedRows: Int64 { nextSequence - 1 - foldedThrough }

    /// Puts the rows behind `folded_through` into the indexes and the counts by conversation. Inside the caller's transaction.
    func fold() throws(QueueError) {
        guard unfoldedRows > 0 else { return }
        let counts = try database.statement(
            """
            INSERT INTO conversation(name, queued, sent, delivered, "read", failed, received, unread, unsent_bytes, last_seq)
            SELECT conversation, sum(status = 0), sum(status = 2), sum(status = 3), sum(status = 4), sum(status = 5), sum(status IN (6, 7)),
              sum(status = 6), sum(CASE WHEN status IN (0, 5) THEN body_size ELSE 0 END), max(seq)
            FROM message WHERE seq > ?1 GROUP BY conversation
            ON CONFLICT(name) DO UPDATE SET queued = queued + excluded.queued, sent = sent + excluded.sent,
              delivered = delivered + excluded.delivered, "read" = "read" + excluded."read", failed = failed + excluded.failed,
              received = received + excluded.received, unread = unread + excluded.unread,
              unsent_bytes = unsent_bytes + excluded.unsent_bytes, last_seq = max(last_seq, excluded.last_seq)
            """)
        counts.bind(1, foldedThrough)
        try counts.run()
        let rows = try database.statement("UPDATE message SET indexed = 1 WHERE seq > ?1")
        rows.bind(1, foldedThrough)
        try rows.run()
        let state = try database.statement("UPDATE state SET folded_through = ?1")
        state.bind(1, nextSequence - 1)
        try state.run()
        foldedThrough = nextSequence - 1
        counters.folded()
    }

    /// Folds in a transaction of its own, which needs no flush: after a power cut it is done again.
    package func foldNow() throws(QueueError) {
        guard unfoldedRows > 0 else { return }
        guard !isInTransaction else { return try fold() }
        try begin()
        do {
            try fold()
            try commit(durable: false)
        } catch {
            rollback()
            throw error
        }
    }

    /// For readers that can do with what is folded already: a full disk does not keep anybody from reading.
    func foldIfPossible() {
        do throws(QueueError) { try foldNow() } catch {
            Log.warning("\(path): the newest messages are not in the indexes yet: \(error.detail)")
        }
    }

    package func foldIfMany() throws(QueueError) {
        if unfoldedRows >= Self.foldEvery { try foldNow() }
    }

    /// Counts a change of a row, in memory and in the table.
    func count(_ row: Row, _ delta: Counts) throws(QueueError) {
        let isFolded = row.sequence <= foldedThrough
        counters.add(delta, row.conversation, unfolded: !isFolded)
        guard isFolded else { return }
        let statement = try database.statement(
            """
            UPDATE conversation SET queued = queued + ?2, sent = sent + ?3, delivered = delivered + ?4, "read" = "read" + ?5,
              failed = failed + ?6, received = received + ?7, unread = unread + ?8, unsent_bytes = unsent_bytes + ?9 WHERE name = ?1
            """)
        try statement.bind(1, row.conversation.text)
        bind(delta, to: statement, from: 2)
        try statement.run()
    }

    func bind(_ counts: Counts, to statement: Statement, from first: Int32) {
        for (index, value) in [
            counts.queued, counts.sent, counts.delivered, counts.read, counts.failed, counts.received, counts.unread, counts.unsentBytes,
        ].enumerated() {
            statement.bind(first + Int32(index), value)
        }
    }

    /// Of all messages; those being sent count as queued.
    package var totals: Counts { counters.totals }

    /// Of one conversation; those being sent count as queued.
    package func counts(of conversation: Name) throws(QueueError) -> Counts {
        let statement = try database.statement(
            "SELECT queued, sent, delivered, \"read\", failed, received, unread, unsent_bytes FROM conversation WHERE name = ?1")
        try statement.bind(1, conversation.text)
        let folded = try statement.first { () throws(QueueError) in counts(statement, from: 0) }
        return (folded ?? Counts()) + (counters.unfolded[conversation] ?? Counts())
    }

    func sumOfConversations() throws(QueueError) -> Counts {
        let statement = try database.statement(
            """
            SELECT sum(queued), sum(sent), sum(delivered), sum("read"), sum(failed), sum(received), sum(unread), sum(unsent_bytes)
            FROM conversation
            """)
        return try statement.first { () throws(QueueError) in counts(statement, from: 0) } ?? Counts()
    }

    /// Conversations with queued messages.
    package func queuedConversations() throws(QueueError) -> Int64 {
        foldIfPossible()
        let statement = try database.statement("SELECT count(*) FROM conversation WHERE queued > 0")
        return try statement.first { () throws(QueueError) in statement.int(0) } ?? 0
    }

    func counts(_ statement: Statement, from first: Int32) -> Counts {
        var counts = Counts()
        counts.queued = statement.int(first)
        counts.sent = statement.int(first + 1)
        counts.delivered = statement.int(first + 2)
        counts.read = statement.int(first + 3)
        counts.failed = statement.int(first + 4)
        counts.received = statement.int(first + 5)
        counts.unread = statement.int(first + 6)
        counts.unsentBytes = statement.int(first + 7)
        return counts
    }
}
