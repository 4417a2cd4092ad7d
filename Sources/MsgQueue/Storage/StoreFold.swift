/// Transactions of the maintenance.
extension Store {
    /// The number of unfolded rows at which the fold runs, so that it remains short.
    static let foldEvery: Int64 = 512

    /// Folds in a transaction of its own. It needs no flush: after a power failure it is repeated.
    func foldNow() throws(QueueError) {
        guard state.unfoldedRows > 0 else { return }
        guard !isInTransaction else { return try counts.fold() }
        do throws(QueueError) { try foldAlone() } catch {
            // The log may have no space to grow. After a checkpoint it is reused from its start.
            guard error.isFull, !database.isLogFresh, log.checkpoint() else { throw error }
            try foldAlone()
        }
    }

    private func foldAlone() throws(QueueError) {
        try begin()
        do throws(QueueError) {
            try counts.fold()
            try commit(durable: false)
        } catch {
            rollback()
            throw error
        }
    }

    package func foldIfDue() throws(QueueError) {
        if state.unfoldedRows >= Self.foldEvery { try foldNow() }
    }

    /// Rebuilds the indexes and all counts from the messages, some of which may be damaged. Inside the caller's transaction.
    func rebuildIndexesAndCounts() throws(QueueError) {
        try database.execute("REINDEX")
        try convertTypes()
        try database.execute("UPDATE message SET indexed = 1 WHERE indexed != 1")
        state.foldedThrough = state.nextSequence - 1
        counts.clearUnfolded()
        checks.rebuilt()
        unsentSums.discard()
        try times.arrange()
        try counts.rebuild()
        try history.rebuild()
        try failures.rebuild()
        // What belongs to messages that are gone.
        for table in ["large_body", "attempt", "in_flight"] {
            try database.execute("DELETE FROM \(table) WHERE seq NOT IN (SELECT seq FROM message NOT INDEXED)")
        }
        try database.execute("DELETE FROM large_body WHERE seq IN (SELECT seq FROM message NOT INDEXED WHERE body IS NOT NULL)")
        try database.execute("DELETE FROM recent_own WHERE seq <= 0")
    }

    /// Called after all unsent messages were removed: only messages being sent may still be counted. Rebuilds the counts if they differ,
    /// because a removed message was damaged.
    func checkCleared(_ conversation: Name?) throws(QueueError) {
        try counts.write()
        let statement = try database.statement(
            """
            SELECT total(status = \(.queued)), total(status = \(.failed)), total(body_size) FROM message
            WHERE seq IN (SELECT seq FROM in_flight) AND status IN (\([.queued, .failed])) AND (?1 IS NULL OR conversation = ?1)
            """)
        try statement.bind(1, conversation?.text)
        let left = try statement.first { () throws(QueueError) in (0..<3).map { Int64(statement.double($0)) } } ?? [0, 0, 0]
        let found = try conversation.map { name throws(QueueError) in try counts.counts(of: name) } ?? counts.totals
        guard [found.queued, found.failed, found.unsentBytes] == left else { return try rebuildIndexesAndCounts() }
        guard conversation == nil else { return }
        // A wrong count of one conversation may hide one of another.
        let sum = try database.statement(
            "SELECT count(*) FROM conversation WHERE queued < 0 OR failed < 0 OR unsent_bytes < 0 OR queued + failed > ?1")
        sum.bind(1, left[0] + left[1])
        if try sum.first({ () throws(QueueError) in sum.int(0) }) ?? 0 > 0 { try rebuildIndexesAndCounts() }
    }
}
