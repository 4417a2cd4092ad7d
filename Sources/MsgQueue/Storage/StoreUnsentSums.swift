/// Reading the sums of the unsent messages that may have to wait.
extension Store {
    /// The number of messages that one step reads.
    private static let sumStep = 500

    /// Brings the sums to this wall time. Returns false until everything has been read: each call reads some. Later changes are applied as
    /// they happen.
    package func readUnsentSums(at now: Int64) throws(QueueError) -> Bool {
        if isInTransaction { unsentSums.isTouched = true }
        // After the clock was set back, messages are scheduled again.
        if now < unsentSums.border.time || unsentSums.readThrough == .start { discardUnsentSums(at: now) }
        guard unsentSums.readThrough == .end else {
            let rows = try deferred(after: unsentSums.readThrough, until: Int64.max)
            unsentSums.read(rows, areFailed: false, complete: rows.count < Self.sumStep)
            return unsentSums.isComplete && unsentSums.border.time >= now
        }
        guard unsentSums.failedThrough == Int64.max else {
            let rows = try failedHeads(after: unsentSums.failedThrough, limit: Self.sumStep)
            unsentSums.read(rows, areFailed: true, complete: rows.count < Self.sumStep)
            return unsentSums.isComplete && unsentSums.border.time >= now
        }
        guard unsentSums.border < TimePlace(now, Int64.max) else { return true }
        let rows = try deferred(after: unsentSums.border, until: now)
        let isComplete = rows.count < Self.sumStep
        unsentSums.pass(rows, through: isComplete ? now : nil)
        return isComplete
    }

    /// Applies a change of a message; nil: it is new, or removed.
    func noteUnsent(from old: Row?, to new: Row?) {
        if unsentSums.isInUse { unsentSums.changed(from: old, to: new) }
    }

    /// Applies a change of the progress of a message.
    func noteUnsent(_ row: Row, to progress: Progress) {
        let mayWait = row.notBefore != 0 || row.unmeteredOnly || progress.dueAt != 0 || unsentSums.isRetried(row)
        guard unsentSums.isInUse, mayWait || row.progress.status == .failed || progress.status == .failed else { return }
        var changed = row
        changed.progress = progress
        noteUnsent(from: row, to: changed)
    }

    /// Returns queued messages that may have to wait for something of their own, in the order of the times for which they are scheduled.
    private func deferred(
        after place: TimePlace, until time: Int64
    ) throws(QueueError) -> [(conversation: Name, head: Head)] {
        try heads(
            try database.statement(
                """
                SELECT \(HeadColumn.self) FROM message INDEXED BY message_deferred
                WHERE \(Schema.deferredCondition) AND not_before = ?2 AND not_before <= ?4 AND seq > ?3
                UNION ALL SELECT \(HeadColumn.self) FROM message INDEXED BY message_deferred
                WHERE \(Schema.deferredCondition) AND not_before > ?2 AND not_before <= ?4
                ORDER BY not_before, seq LIMIT ?1
                """), limit: Self.sumStep, place.time, place.sequence, time)
    }

    /// Returns failed messages after a sequence number, in order.
    package func failedHeads(after sequence: Int64, limit: Int) throws(QueueError) -> [(conversation: Name, head: Head)] {
        try heads(
            try database.statement(
                """
                SELECT \(HeadColumn.self) FROM message INDEXED BY message_failed WHERE status = \(.failed) AND seq > ?2 ORDER BY seq LIMIT ?1
                """), limit: limit, sequence)
    }

    /// Returns the failed messages of a conversation after a sequence number, in order.
    package func failedHeads(
        in conversation: Name, after sequence: Int64, limit: Int
    ) throws(QueueError) -> [(conversation: Name, head: Head)] {
        try heads(
            try database.statement(
                """
                SELECT \(HeadColumn.self) FROM message INDEXED BY message_failed_in
                WHERE status = \(.failed) AND conversation = ?3 AND seq > ?2 ORDER BY seq LIMIT ?1
                """), limit: limit, sequence, in: conversation)
    }

    /// Returns queued messages that have expired, the first ones, without those being sent.
    package func expiredHeads(at now: Int64, limit: Int) throws(QueueError) -> [(conversation: Name, head: Head)] {
        try heads(
            try database.statement(
                """
                SELECT \(HeadColumn.self) FROM message INDEXED BY message_expiring
                WHERE expires_at != 0 AND status = \(.queued) AND expires_at <= ?2 AND flags & \(flag: .ignoresExpiry) = 0
                  AND seq NOT IN (SELECT seq FROM in_flight)
                ORDER BY expires_at LIMIT ?1
                """), limit: limit, now)
    }

    /// Reads messages. The parameters are the limit, the numbers, and the conversation if there is one.
    private func heads(
        _ statement: Statement, limit: Int, _ numbers: Int64..., in conversation: Name? = nil
    ) throws(QueueError) -> [(conversation: Name, head: Head)] {
        statement.bind(1, Int64(limit))
        var parameter: Int32 = 2
        for number in numbers {
            statement.bind(parameter, number)
            parameter += 1
        }
        if let conversation { try statement.bind(parameter, conversation.text) }
        return try heads(statement)
    }

    /// Returns when the next queued message is due that is scheduled for a later time; nil: none is.
    package func nextScheduled(after now: Int64) throws(QueueError) -> Int64? {
        let statement = try database.statement(
            """
            SELECT not_before FROM message INDEXED BY message_deferred WHERE \(Schema.deferredCondition) AND not_before > ?1
            ORDER BY not_before LIMIT 1
            """)
        statement.bind(1, now)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// The conversations with messages that are not folded.
    package var unfoldedConversations: [Name] { Array(counters.unfolded.keys) }

    /// Returns how many of the conversations after `name` have queued messages, or failed ones with `includesFailed`, and the last
    /// conversation that was looked at; nil: there are no more.
    package func conversationsUnsent(
        after name: Name?, includesFailed: Bool, limit: Int
    ) throws(QueueError) -> (count: Int64, last: Name?) {
        try writeCounts()
        // A name is at least the empty one. `name > ?1 OR ?1 IS NULL` would read the table from its start each time.
        let statement =
            if name == nil {
                try database.statement(
                    """
                    SELECT total(queued > 0 OR ?2 AND failed > 0), max(name), count(*) FROM (
                      SELECT name, queued, failed FROM conversation WHERE name >= ?1 ORDER BY name LIMIT ?3)
                    """)
            } else {
                try database.statement(
                    """
                    SELECT total(queued > 0 OR ?2 AND failed > 0), max(name), count(*) FROM (
                      SELECT name, queued, failed FROM conversation WHERE name > ?1 ORDER BY name LIMIT ?3)
                    """)
            }
        try statement.bind(1, name?.text ?? "")
        statement.bind(2, includesFailed)
        statement.bind(3, Int64(limit))
        let found = try statement.first { () throws(QueueError) in
            (count: Int64(exactly: statement.double(0)) ?? 0, last: Name(statement.text(1)), rows: statement.int(2))
        }
        guard let found else { return (0, nil) }
        return (found.count, found.rows < Int64(limit) ? nil : found.last)
    }
}
