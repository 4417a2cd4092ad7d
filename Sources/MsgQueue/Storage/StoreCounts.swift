/// The fold, and the counts that it keeps.
extension Store {
    /// Rows that the fold has not seen.
    package var unfoldedRows: Int64 { nextSequence - 1 - foldedThrough }

    /// Puts the rows behind `folded_through` into the indexes and the counts by conversation. Inside the caller's transaction.
    func fold() throws(QueueError) {
        guard unfoldedRows > 0 else { return }
        let counts = try database.statement(
            """
            INSERT INTO conversation(name, queued, sent, delivered, "read", failed, unsent_bytes, last_seq)
            SELECT conversation, sum(status = 0), sum(status = 2), sum(status = 3), sum(status = 4), sum(status = 5),
              sum(CASE WHEN status IN (0, 5) THEN body_size ELSE 0 END), max(seq)
            FROM message WHERE seq > ?1 GROUP BY conversation
            ON CONFLICT(name) DO UPDATE SET queued = queued + excluded.queued, sent = sent + excluded.sent,
              delivered = delivered + excluded.delivered, "read" = "read" + excluded."read", failed = failed + excluded.failed,
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

    package func foldIfMany() throws(QueueError) {
        if unfoldedRows >= Self.foldEvery { try foldNow() }
    }

    /// Counts `amount` more messages of `bytes` bytes together, in memory and in the table.
    func count(
        _ sequence: Int64, _ conversation: String, _ status: MessageStatus, amount: Int64, bytes: Int64
    ) throws(QueueError) {
        let isFolded = sequence <= foldedThrough
        counters.add(conversation, unfolded: !isFolded, status, amount: amount, bytes: bytes)
        guard isFolded else { return }
        let statement =
            switch status {
            case .queued, .sending:
                try database.statement(
                    "UPDATE conversation SET queued = queued + ?2, unsent_bytes = unsent_bytes + ?3 WHERE name = ?1")
            case .failed:
                try database.statement(
                    "UPDATE conversation SET failed = failed + ?2, unsent_bytes = unsent_bytes + ?3 WHERE name = ?1")
            case .sent: try database.statement("UPDATE conversation SET sent = sent + ?2 + 0 * ?3 WHERE name = ?1")
            case .delivered: try database.statement("UPDATE conversation SET delivered = delivered + ?2 + 0 * ?3 WHERE name = ?1")
            case .read: try database.statement("UPDATE conversation SET \"read\" = \"read\" + ?2 + 0 * ?3 WHERE name = ?1")
            }
        try statement.bind(1, conversation)
        statement.bind(2, amount)
        statement.bind(3, bytes)
        try statement.run()
    }

    /// Of all messages; those being sent count as queued.
    package var totals: Counts { counters.totals }

    /// Of one conversation; those being sent count as queued.
    package func counts(of conversation: String) throws(QueueError) -> Counts {
        let statement = try database.statement(
            "SELECT queued, sent, delivered, \"read\", failed, unsent_bytes FROM conversation WHERE name = ?1")
        try statement.bind(1, conversation)
        let folded = try statement.first { () throws(QueueError) in row(statement) }
        return (folded ?? Counts()) + (counters.unfolded[conversation] ?? Counts())
    }

    func sumOfConversations() throws(QueueError) -> Counts {
        let statement = try database.statement(
            "SELECT sum(queued), sum(sent), sum(delivered), sum(\"read\"), sum(failed), sum(unsent_bytes) FROM conversation")
        return try statement.first { () throws(QueueError) in row(statement) } ?? Counts()
    }

    /// Conversations with queued messages.
    package func queuedConversations() throws(QueueError) -> Int64 {
        try foldNow()
        let statement = try database.statement("SELECT count(*) FROM conversation WHERE queued > 0")
        return try statement.first { () throws(QueueError) in statement.int(0) } ?? 0
    }

    private func row(_ statement: Statement) -> Counts {
        var counts = Counts()
        counts.queued = statement.int(0)
        counts.sent = statement.int(1)
        counts.delivered = statement.int(2)
        counts.read = statement.int(3)
        counts.failed = statement.int(4)
        counts.unsentBytes = statement.int(5)
        return counts
    }
}
