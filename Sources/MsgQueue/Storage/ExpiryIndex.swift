/// The search for queued messages that have expired, by the time of the expiry. Messages that were retried by hand after it stay in the
/// index of expiries, so that each search continues where the last one ended.
struct ExpirySearch {
    /// The last entry of the index that was read.
    fileprivate(set) var time: Int64 = 0
    fileprivate(set) var sequence: Int64 = 0
    /// The entry before the first one whose message was being sent: the next search reads from there.
    private var kept: (time: Int64, sequence: Int64)?

    init() {}

    /// Reads messages of this expiry and later ones again.
    mutating func include(_ expiry: Int64) {
        guard expiry <= time else { return }
        (time, sequence) = (expiry, 0)
        if let kept, (expiry, 0) <= kept { self.kept = nil }
    }

    /// Reads the next entry again in the next search.
    fileprivate mutating func keep() { if kept == nil { kept = (time, sequence) } }

    /// Ends the search.
    fileprivate mutating func end() {
        if let kept { (time, sequence) = kept }
        kept = nil
    }
}

/// The queued messages that expire, and those that are scheduled for a later time.
extension QueueIndex {
    /// Runs one step of the search for queued messages that have expired: reads at most `rows` entries of their index and returns at most
    /// `limit` messages, without those being sent. `isComplete`: there are no more. `later`: when the next of those that were read expires by the
    /// boot clock, which was not set with the wall clock.
    func expired(
        at now: Moment, _ search: inout ExpirySearch, rows: Int64 = 2_000, limit: Int
    ) throws(QueueError) -> (found: [(conversation: Name, sequence: Int64)], later: Int64?, isComplete: Bool) {
        let statement = try database.statement(
            """
            SELECT expires_at, seq, conversation, flags & \(flag: .ignoresExpiry), seq IN (SELECT seq FROM in_flight),
              CASE WHEN span_boot = ?5 AND expiry_uptime > ?6 THEN expiry_uptime ELSE 0 END
            FROM message INDEXED BY message_expiring
            WHERE expires_at != 0 AND status = \(.queued) AND expires_at = ?1 AND expires_at <= ?3 AND seq > ?2
            UNION ALL SELECT expires_at, seq, conversation, flags & \(flag: .ignoresExpiry), seq IN (SELECT seq FROM in_flight),
              CASE WHEN span_boot = ?5 AND expiry_uptime > ?6 THEN expiry_uptime ELSE 0 END
            FROM message INDEXED BY message_expiring
            WHERE expires_at != 0 AND status = \(.queued) AND expires_at > ?1 AND expires_at <= ?3
            ORDER BY 1, 2 LIMIT ?4
            """)
        statement.bind(1, search.time)
        statement.bind(2, search.sequence)
        statement.bind(3, now.wall)
        statement.bind(4, rows)
        statement.bind(5, state.clock.boot)
        statement.bind(6, now.mono)
        var found: [(conversation: Name, sequence: Int64)] = []
        var read: Int64 = 0
        var later: Int64?
        try statement.forEach { () throws(QueueError) in
            read += 1
            if statement.int(3) == 0 {
                let uptime = statement.int(5)
                if uptime != 0 { later = min(later ?? uptime, uptime) }
                if uptime != 0 || statement.bool(4) {
                    search.keep()
                } else {
                    found.append((Name(statement.text(2)), statement.int(1)))
                }
            }
            (search.time, search.sequence) = (statement.int(0), statement.int(1))
            return found.count < limit
        }
        guard read < rows, found.count < limit else { return (found, later, false) }
        search.end()
        return (found, later, true)
    }

    /// Returns the earliest expiry of the queued messages, even if it no longer applies; nil: none has one.
    func firstExpiry() throws(QueueError) -> Int64? {
        let statement = try database.statement(
            """
            SELECT expires_at FROM message INDEXED BY message_expiring
            WHERE expires_at != 0 AND status = \(.queued) ORDER BY expires_at LIMIT 1
            """)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// Returns when the next queued message expires; nil: none does.
    func nextExpiry(after now: Int64) throws(QueueError) -> Int64? {
        let statement = try database.statement(
            """
            SELECT expires_at FROM message INDEXED BY message_expiring
            WHERE expires_at != 0 AND status = \(.queued) AND expires_at > ?1 AND flags & \(flag: .ignoresExpiry) = 0 ORDER BY expires_at LIMIT 1
            """)
        statement.bind(1, now)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// Returns queued messages whose expiry is ignored and earlier than `earliest`: a wrong clock computed it.
    func unknownExpiries(before earliest: Int64, limit: Int) throws(QueueError) -> [(sequence: Int64, isInFlight: Bool)] {
        let statement = try database.statement(
            """
            SELECT seq, seq IN (SELECT seq FROM in_flight) FROM message INDEXED BY message_expiring
            WHERE expires_at != 0 AND status = \(.queued) AND expires_at < ?1 AND flags & \(flag: .ignoresExpiry) != 0
            ORDER BY expires_at LIMIT ?2
            """)
        statement.bind(1, state.earliest)
        statement.bind(2, Int64(limit))
        var found: [(sequence: Int64, isInFlight: Bool)] = []
        try statement.forEach { () throws(QueueError) in
            found.append((statement.int(0), statement.bool(1)))
            return true
        }
        return found
    }

    /// Returns queued messages that may have to wait for something of their own, in the order of the times for which they are scheduled.
    func deferred(
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
                """), limit: UnsentSumsIndex.step, place.time, place.sequence, time)
    }

    /// Returns failed messages after a sequence number, in order.
    func failedHeads(after sequence: Int64, limit: Int) throws(QueueError) -> [(conversation: Name, head: Head)] {
        try heads(
            try database.statement(
                """
                SELECT \(HeadColumn.self) FROM message INDEXED BY message_failed WHERE status = \(.failed) AND seq > ?2 ORDER BY seq LIMIT ?1
                """), limit: limit, sequence)
    }

    /// Returns the failed messages of a conversation after a sequence number, in order.
    func failedHeads(
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
    func expiredHeads(at now: Int64, limit: Int) throws(QueueError) -> [(conversation: Name, head: Head)] {
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
    func nextScheduled(after now: Int64) throws(QueueError) -> Int64? {
        let statement = try database.statement(
            """
            SELECT not_before FROM message INDEXED BY message_deferred WHERE \(Schema.deferredCondition) AND not_before > ?1
            ORDER BY not_before LIMIT 1
            """)
        statement.bind(1, now)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }
}
