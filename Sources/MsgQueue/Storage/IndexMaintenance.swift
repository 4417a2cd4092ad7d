/// Rebuilds what is derived from the messages, some of which may be damaged. Inside the caller's transaction.
final class IndexMaintenance {
    private let database: Database
    private let state: StateRow
    private let times: TimeIndex
    private let history: HistoryIndex
    private let failures: FailureIndex
    private let counts: ConversationCounts
    private let unsentSums: UnsentSumsIndex
    private let checks: RunningChecks

    init(_ messages: MessageTable, _ checks: RunningChecks) {
        (database, state, times, history) = (messages.database, messages.state, messages.times, messages.history)
        (failures, counts, unsentSums, self.checks) = (messages.failures, messages.counts, messages.unsentSums, checks)
    }

    /// Rebuilds the indexes and all counts from the messages, some of which may be damaged. Inside the caller's transaction.
    func rebuild() throws(QueueError) {
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
        guard [found.queued, found.failed, found.unsentBytes] == left else { return try rebuild() }
        guard conversation == nil else { return }
        // A wrong count of one conversation may hide one of another.
        let sum = try database.statement(
            "SELECT count(*) FROM conversation WHERE queued < 0 OR failed < 0 OR unsent_bytes < 0 OR queued + failed > ?1")
        sum.bind(1, left[0] + left[1])
        if try sum.first({ () throws(QueueError) in sum.int(0) }) ?? 0 > 0 { try rebuild() }
    }

    /// Writes the values of all rows with the types of their columns, so that their index entries agree with them. Also writes the names of conversations as they are read if they are not
    /// valid UTF-8, so that their messages are found by these names.
    private func convertTypes() throws(QueueError) {
        try database.execute(ColumnTypes.convertAll.text)
        let names = try database.statement("SELECT seq, conversation FROM message NOT INDEXED")
        var damaged: [(sequence: Int64, name: String)] = []
        try names.forEach { () throws(QueueError) in
            if names.validText(1) == nil { damaged.append((names.int(0), names.text(1))) }
            return true
        }
        let update = try database.statement("UPDATE message SET conversation = ?2 WHERE seq = ?1")
        for (sequence, name) in damaged {
            update.bind(1, sequence)
            try update.bind(2, name)
            try update.run()
        }
    }
}
