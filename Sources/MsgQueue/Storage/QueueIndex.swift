/// The indexes of the queued and failed messages: their order, their expiries and the times for which they are scheduled.
final class QueueIndex {
    let database: Database
    let state: StateRow

    init(_ database: Database, _ state: StateRow) { (self.database, self.state) = (database, state) }

    /// The parts of the index `message_ordered`: messages without a start time, and those with one.
    static let parts: [SQL] = ["(not_before != 0) = 0", "(not_before != 0) = 1"]

    /// Returns the SELECTs of the folded queued messages from that index, or from some of its parts, to which `ORDER BY seq` is added.
    static func ordered(_ columns: SQL, _ condition: SQL, _ parts: [SQL] = parts) -> SQL {
        SQL(
            parts.map {
                "SELECT \(columns) FROM message INDEXED BY message_ordered WHERE indexed = 1 AND status = \(.queued) AND \($0) AND \(condition)"
            }, " UNION ALL ")
    }

    /// Returns queued messages after a sequence number, in order, with their conversations.
    func queued(after sequence: Int64, limit: Int) throws(QueueError) -> [(conversation: Name, head: Head)] {
        let statement = try database.statement(
            """
            \(Self.ordered("\(HeadColumn.self)", "seq > ?1"))
            UNION ALL SELECT \(HeadColumn.self)
            FROM message NOT INDEXED
            WHERE seq > max(?1, ?3) AND status = \(.queued) ORDER BY seq LIMIT ?2
            """)
        statement.bind(1, sequence)
        statement.bind(2, Int64(limit))
        statement.bind(3, state.foldedThrough)
        return try heads(statement)
    }

    /// Returns the queued messages without a start time after a sequence number, in order.
    func unscheduled(after sequence: Int64, limit: Int) throws(QueueError) -> [(conversation: Name, sequence: Int64)] {
        let statement = try database.statement(
            """
            \(Self.ordered("seq, conversation", "seq > ?1", [Self.parts[0]]))
            UNION ALL SELECT seq, conversation FROM message NOT INDEXED
            WHERE seq > max(?1, ?3) AND status = \(.queued) AND not_before = 0 ORDER BY seq LIMIT ?2
            """)
        statement.bind(1, sequence)
        statement.bind(2, Int64(limit))
        statement.bind(3, state.foldedThrough)
        var rows: [(conversation: Name, sequence: Int64)] = []
        try statement.forEach { () throws(QueueError) in
            rows.append((Name(statement.text(1)), statement.int(0)))
            return true
        }
        return rows
    }

    /// Returns the conversations of the queued messages that are scheduled for a time after `first` and up to `last`; nil: there are more
    /// than `limit`. `next`: the next one; nil: there is none.
    func scheduled(
        after first: Int64, through last: Int64, limit: Int
    ) throws(QueueError) -> (names: Set<Name>?, next: (time: Int64, conversation: Name)?) {
        let statement = try database.statement(
            """
            SELECT not_before, conversation FROM message INDEXED BY message_deferred
            WHERE \(Schema.deferredCondition) AND not_before > ?1 ORDER BY not_before LIMIT ?2
            """)
        statement.bind(1, first)
        statement.bind(2, Int64(limit) + 1)
        var (names, due) = (Set<Name>(), 0)
        var next: (time: Int64, conversation: Name)?
        try statement.forEach { () throws(QueueError) in
            let (time, conversation) = (statement.int(0), Name(statement.text(1)))
            if time > last { next = (time, conversation) } else { (due, _) = (due + 1, names.insert(conversation)) }
            return next == nil
        }
        return due > limit ? (nil, nil) : (names, next)
    }

    /// Returns the rows of a statement whose columns are those of `HeadColumn`.
    func heads(_ statement: Statement) throws(QueueError) -> [(conversation: Name, head: Head)] {
        var heads: [(conversation: Name, head: Head)] = []
        try statement.forEach { () throws(QueueError) in
            let fields = Fields<HeadColumn>(statement)
            heads.append((Name(fields.text(.conversation)), Head(fields, boot: state.clock.boot)))
            return true
        }
        return heads
    }

    /// Returns queued messages of one conversation after a sequence number, in order.
    func queued(in conversation: Name, after sequence: Int64, limit: Int) throws(QueueError) -> [Head] {
        let statement = try database.statement(
            """
            SELECT \(HeadColumn.self)
            FROM message INDEXED BY message_waiting WHERE indexed = 1 AND status = \(.queued) AND conversation = ?1 AND seq > ?2
            UNION ALL SELECT \(HeadColumn.self)
            FROM message NOT INDEXED
            WHERE seq > max(?2, ?4) AND status = \(.queued) AND conversation = ?1 ORDER BY seq LIMIT ?3
            """)
        statement.bind(4, state.foldedThrough)
        try statement.bind(1, conversation.text)
        statement.bind(2, sequence)
        statement.bind(3, Int64(limit))
        var heads: [Head] = []
        try statement.forEach { () throws(QueueError) in
            heads.append(Head(Fields(statement), boot: state.clock.boot))
            return true
        }
        return heads
    }

    /// Returns whether a queued message has a priority other than 0.
    func hasPriorities() throws(QueueError) -> Bool {
        let statement = try database.statement(
            "SELECT 1 FROM message INDEXED BY message_priority WHERE priority != 0 AND status = \(.queued) LIMIT 1")
        return try statement.first { () throws(QueueError) in true } ?? false
    }

    /// Returns the conversations of the queued messages with a priority other than 0; nil: there are more than `limit` such messages.
    func conversationsWithPriorities(limit: Int) throws(QueueError) -> Set<Name>? {
        let statement = try database.statement(
            "SELECT conversation FROM message INDEXED BY message_priority WHERE priority != 0 AND status = \(.queued) LIMIT ?1")
        statement.bind(1, Int64(limit) + 1)
        var (names, read) = (Set<Name>(), 0)
        try statement.forEach { () throws(QueueError) in
            read += 1
            names.insert(Name(statement.text(0)))
            return true
        }
        return read > limit ? nil : names
    }

    /// Returns conversations with queued messages: those after `name` in the order of their bytes, and with the first of them (`name` nil)
    /// those of rows that are not folded. `last` is the last one in that order.
    func conversations(
        after name: Name?, limit: Int
    ) throws(QueueError) -> (names: [Name], last: Name?, isComplete: Bool) {
        // The scheduler knows of rows that are folded or inserted later: they were enqueued meanwhile.
        var names = name == nil ? try queued(after: state.foldedThrough, limit: Int.max).map(\.conversation) : []
        var last = name
        for _ in 0..<limit {
            guard let next = try conversation(after: last) else { return (names, last, true) }
            // From a name that does not advance the search would begin again.
            guard last.map({ $0.text.utf8.lexicographicallyPrecedes(next.text.utf8) }) ?? true else { throw Self.damagedName }
            names.append(next)
            last = next
        }
        return (names, last, false)
    }

    private func conversation(after name: Name?) throws(QueueError) -> Name? {
        let statement: Statement
        if let name {
            statement = try database.statement(
                """
                SELECT conversation FROM message INDEXED BY message_waiting
                WHERE indexed = 1 AND status = \(.queued) AND conversation > ?1 ORDER BY conversation LIMIT 1
                """)
            try statement.bind(1, name.text)
        } else {
            statement = try database.statement(
                """
                SELECT conversation FROM message INDEXED BY message_waiting
                WHERE indexed = 1 AND status = \(.queued) ORDER BY conversation LIMIT 1
                """)
        }
        return try statement.first { () throws(QueueError) in
            guard let name = statement.validText(0) else { throw Self.damagedName }
            return Name(name)
        }
    }

    private static let damagedName = QueueError(
        .corrupt, "the name of a conversation in the index of queued messages is damaged", .index)

    /// Returns the queued messages of this key, in order, with those being sent.
    func queued(withKey key: String, in conversation: Name) throws(QueueError) -> [Int64] {
        let statement = try database.statement(
            """
            SELECT seq FROM message INDEXED BY message_replace
            WHERE conversation = ?1 AND replace_key = ?2 AND replace_key IS NOT NULL AND status = \(.queued) ORDER BY seq
            """)
        try statement.bind(1, conversation.text)
        try statement.bind(2, key)
        var found: [Int64] = []
        try statement.forEach { () throws(QueueError) in
            found.append(statement.int(0))
            return true
        }
        return found
    }

    /// Returns whether a queued message of the conversation is between these places, without those being sent.
    func hasQueued(
        in conversation: Name, after first: Int64, before sequence: Int64, sending: Set<Int64>
    ) throws(QueueError) -> Bool {
        var last = first
        // One conversation has few messages being sent.
        while let head = try queued(in: conversation, after: last, limit: 1).first, head.sequence < sequence {
            if !sending.contains(head.sequence) { return true }
            last = head.sequence
        }
        return false
    }

    /// Reads some queued messages: those whose stored times are not those of their durations, because the wall clock was set since then.
    /// `last`: the last message that was read; nil: there are no more.
    func displaced(
        after sequence: Int64, _ now: Moment, limit: Int64
    ) throws(QueueError) -> (found: [(sequence: Int64, isInFlight: Bool)], last: Int64?) {
        let columns: SQL = "seq, seq IN (SELECT seq FROM in_flight), not_before, start_uptime, expires_at, expiry_uptime, span_boot"
        let statement = try database.statement(
            """
            \(Self.ordered(columns, "seq > ?1"))
            UNION ALL SELECT \(columns) FROM message NOT INDEXED WHERE seq > max(?1, ?3) AND status = \(.queued) ORDER BY seq LIMIT ?2
            """)
        statement.bind(1, sequence)
        statement.bind(2, limit)
        statement.bind(3, state.foldedThrough)
        var found: [(sequence: Int64, isInFlight: Bool)] = []
        var (last, read) = (sequence, Int64(0))
        try statement.forEach { () throws(QueueError) in
            (last, read) = (statement.int(0), read + 1)
            let isOfBoot = statement.int(6) != 0 && statement.int(6) == state.clock.boot
            let (start, expiry) = (statement.int(2), statement.int(4))
            if isOfBoot, BootTimes.wall(start, statement.int(3), now) != start || BootTimes.wall(expiry, statement.int(5), now) != expiry {
                found.append((last, statement.bool(1)))
            }
            return true
        }
        return (found, read < limit ? nil : last)
    }

    /// Returns the first failed message of a conversation.
    func firstFailed(in conversation: Name) throws(QueueError) -> Int64? {
        let statement = try database.statement(
            "SELECT seq FROM message INDEXED BY message_failed_in WHERE status = \(.failed) AND conversation = ?1 ORDER BY seq LIMIT 1")
        try statement.bind(1, conversation.text)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// Returns the conversations with failed messages.
    func conversationsWithFailures() throws(QueueError) -> Set<Name> {
        let statement = try database.statement(
            "SELECT DISTINCT conversation FROM message INDEXED BY message_failed_in WHERE status = \(.failed)")
        var names = Set<Name>()
        try statement.forEach { () throws(QueueError) in
            names.insert(Name(statement.text(0)))
            return true
        }
        return names
    }
}
