/// The search for queued messages that have expired, by the time of the expiry. Messages that were retried by hand after it stay in the
/// index of expiries, so that each search continues where the last one ended.
package struct ExpirySearch {
    /// The last entry of the index that was read.
    fileprivate(set) var time: Int64 = 0
    fileprivate(set) var sequence: Int64 = 0
    /// The entry before the first one whose message was being sent: the next search reads from there.
    private var kept: (time: Int64, sequence: Int64)?

    package init() {}

    /// Reads messages of this expiry and later ones again.
    package mutating func include(_ expiry: Int64) {
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

/// Reading messages.
extension Store {
    /// The bytes of a large body that its preview needs, and one more, which says that there are more.
    private static let startOfBody = Preview.bytes + 1

    /// The part of a message to read.
    package enum Part {
        /// All; all but the end of a large body; all but the body. A row that does not match its checksum is an error.
        case whole, start, none
        /// What is needed to remove the message, even if the rest is damaged.
        case outline
    }

    /// Reads the current row of a statement and verifies it. `ofAnyType`: the values may have other types than their columns, which only an
    /// UPDATE of the row does not allow.
    func read(_ fields: Fields<MessageColumn>, _ part: Part, ofAnyType: Bool = false) throws(QueueError) -> Row {
        guard ofAnyType || ColumnTypes.agree(fields) else {
            throw QueueError(.corrupt, "message \(fields.int(.seq)) is damaged: a column has a value of another type")
        }
        var row = try Row(fields)
        row.take(boot: state.clock.boot)
        switch part {
        case .none, .outline: break
        case .whole, .start:
            if fields.isNull(.body) {
                // Until the store is checked, nothing of a body is shown before the checksum of all of it was compared.
                if part == .start, isCheckDue { _ = try read(fields, .whole) }
                row.body = try largeBody(row.sequence, part)
                row.hasWholeBody = part == .whole
            } else {
                row.body = fields.blob(.body)
                row.hasWholeBody = true
            }
        }
        if row.hasWholeBody, Int64(row.body.count) != row.bodySize {
            throw QueueError(.corrupt, "message \(row.sequence) is damaged: its body has the wrong size")
        }
        try row.check()
        return row
    }

    private func largeBody(_ sequence: Int64, _ part: Part) throws(QueueError) -> [UInt8] {
        let body: [UInt8]?
        if part == .whole {
            let statement = try database.statement("SELECT body FROM large_body WHERE seq = ?1")
            statement.bind(1, sequence)
            body = try statement.first { () throws(QueueError) in statement.blob(0) }
        } else {
            body = try database.start(ofBlob: "body", in: "large_body", row: sequence, count: Self.startOfBody)
        }
        guard let body else { throw QueueError(.corrupt, "message \(sequence) is damaged: its body is missing") }
        return body
    }

    /// Returns the message with this id; nil: there is none.
    package func find(_ id: String, _ part: Part) throws(QueueError) -> Row? {
        guard let sequence = try sequence(of: id) else { return nil }
        return try row(at: sequence, part)
    }

    /// Returns whether there is a message with this id.
    package func contains(_ id: String) throws(QueueError) -> Bool { try sequence(of: id) != nil }

    /// Returns the message with this sequence number. A row that does not match its checksum is read again from the disk before it counts
    /// as damaged.
    package func row(at sequence: Int64, _ part: Part) throws(QueueError) -> Row? {
        guard part != .outline else { return try outline(at: sequence) }
        return try database.readingTwice { () throws(QueueError) in try readRow(at: sequence, part) }
    }

    private func readRow(at sequence: Int64, _ part: Part) throws(QueueError) -> Row? {
        let statement = try database.statement("SELECT \(MessageColumn.self) FROM message WHERE seq = ?1")
        statement.bind(1, sequence)
        return try statement.first { () throws(QueueError) in try read(Fields(statement), part) }
    }

    private func outline(at sequence: Int64) throws(QueueError) -> Row? {
        let statement = try database.statement("SELECT \(OutlineColumn.self) FROM message WHERE seq = ?1")
        statement.bind(1, sequence)
        return try statement.first { () throws(QueueError) in Row(Fields<OutlineColumn>(statement)) }
    }

    /// Returns the sequence number of the message with this id. The index of ids may be damaged, so its result is compared with the row.
    func sequence(of id: String) throws(QueueError) -> Int64? {
        if let sequence = MessageID.sequence(in: id), try matches(sequence, id, isNamed: false) { return sequence }
        guard let indexed = try namedSequence(id) else { return nil }
        if try matches(indexed, id, isNamed: true) { return indexed }
        Log.warning("\(path): the index of ids is damaged and is rebuilt from the messages")
        try repair { () throws(QueueError) in try database.execute("REINDEX message_named") }
        guard let rebuilt = try namedSequence(id) else { return nil }
        guard try matches(rebuilt, id, isNamed: true) else {
            throw QueueError(.corrupt, "the index of ids is damaged and cannot be rebuilt")
        }
        return rebuilt
    }

    private func namedSequence(_ id: String) throws(QueueError) -> Int64? {
        let statement = try database.statement("SELECT seq FROM message INDEXED BY message_named WHERE id = ?1 AND named = 1")
        try statement.bind(1, id)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// Returns whether the message with this sequence number has this id, or may have it because it is damaged.
    private func matches(_ sequence: Int64, _ id: String, isNamed: Bool) throws(QueueError) -> Bool {
        let statement = try database.statement("SELECT id, named FROM message WHERE seq = ?1")
        statement.bind(1, sequence)
        guard let found = try statement.first({ () throws(QueueError) in (statement.text(0), statement.bool(1)) }) else { return false }
        if found == (id, isNamed) { return true }
        do throws(QueueError) { _ = try row(at: sequence, .whole) } catch {
            guard error.code == .corrupt else { throw error }
            return true
        }
        return false
    }

    /// Returns queued messages after a sequence number, in order, with their conversations.
    package func queued(after sequence: Int64, limit: Int) throws(QueueError) -> [(conversation: Name, head: Head)] {
        let statement = try database.statement(
            """
            SELECT \(HeadColumn.self)
            FROM message INDEXED BY message_queued WHERE indexed = 1 AND status = \(.queued) AND seq > ?1
            UNION ALL SELECT \(HeadColumn.self)
            FROM message NOT INDEXED
            WHERE seq > max(?1, ?3) AND status = \(.queued) ORDER BY seq LIMIT ?2
            """)
        statement.bind(1, sequence)
        statement.bind(2, Int64(limit))
        statement.bind(3, state.foldedThrough)
        return try heads(statement)
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
    package func queued(in conversation: Name, after sequence: Int64, limit: Int) throws(QueueError) -> [Head] {
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
    package func hasPriorities() throws(QueueError) -> Bool {
        let statement = try database.statement(
            "SELECT 1 FROM message INDEXED BY message_priority WHERE priority != 0 AND status = \(.queued) LIMIT 1")
        return try statement.first { () throws(QueueError) in true } ?? false
    }

    /// Returns conversations with queued messages: those after `name` in the order of their bytes, and with the first of them (`name` nil)
    /// those of rows that are not folded. `last` is the last one in that order.
    package func conversationsQueued(
        after name: Name?, limit: Int
    ) throws(QueueError) -> (names: [Name], last: Name?, isComplete: Bool) {
        // The scheduler knows of rows that are folded or inserted later: they were enqueued meanwhile.
        var names = name == nil ? try queued(after: state.foldedThrough, limit: Int.max).map(\.conversation) : []
        var last = name
        for _ in 0..<limit {
            guard let next = try conversationQueued(after: last) else { return (names, last, true) }
            // From a name that does not advance the search would begin again.
            guard last.map({ $0.text.utf8.lexicographicallyPrecedes(next.text.utf8) }) ?? true else { throw Self.damagedName }
            names.append(next)
            last = next
        }
        return (names, last, false)
    }

    private func conversationQueued(after name: Name?) throws(QueueError) -> Name? {
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
        .corrupt, "the name of a conversation in the index of queued messages is damaged", isIndex: true)

    /// Returns when a message was enqueued; nil: it is gone.
    package func createdAt(_ sequence: Int64) throws(QueueError) -> Int64? {
        let statement = try database.statement("SELECT created_at FROM message WHERE seq = ?1")
        statement.bind(1, sequence)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// Runs one step of the search for queued messages that have expired: reads at most `rows` entries of their index and returns at most
    /// `limit` messages, without those being sent. `isComplete`: there are no more. `later`: when the next of those that were read expires by the
    /// boot clock, which was not set with the wall clock.
    package func expired(
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
    package func firstExpiry() throws(QueueError) -> Int64? {
        let statement = try database.statement(
            """
            SELECT expires_at FROM message INDEXED BY message_expiring
            WHERE expires_at != 0 AND status = \(.queued) ORDER BY expires_at LIMIT 1
            """)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// Returns when the next queued message expires; nil: none does.
    package func nextExpiry(after now: Int64) throws(QueueError) -> Int64? {
        let statement = try database.statement(
            """
            SELECT expires_at FROM message INDEXED BY message_expiring
            WHERE expires_at != 0 AND status = \(.queued) AND expires_at > ?1 AND flags & \(flag: .ignoresExpiry) = 0 ORDER BY expires_at LIMIT 1
            """)
        statement.bind(1, now)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// Returns queued messages whose expiry is ignored and earlier than `earliest`: a wrong clock computed it.
    package func unknownExpiries(before earliest: Int64, limit: Int) throws(QueueError) -> [(sequence: Int64, isInFlight: Bool)] {
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

    /// Reads some queued messages: those whose stored times are not those of their durations, because the wall clock was set since then.
    /// `last`: the last message that was read; nil: there are no more.
    func displaced(
        after sequence: Int64, _ now: Moment, limit: Int64
    ) throws(QueueError) -> (found: [(sequence: Int64, isInFlight: Bool)], last: Int64?) {
        let columns: SQL = "seq, seq IN (SELECT seq FROM in_flight), not_before, start_uptime, expires_at, expiry_uptime, span_boot"
        let statement = try database.statement(
            """
            SELECT \(columns) FROM message INDEXED BY message_queued WHERE indexed = 1 AND status = \(.queued) AND seq > ?1
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
    package func firstFailed(in conversation: Name) throws(QueueError) -> Int64? {
        let statement = try database.statement(
            "SELECT seq FROM message INDEXED BY message_failed_in WHERE status = \(.failed) AND conversation = ?1 ORDER BY seq LIMIT 1")
        try statement.bind(1, conversation.text)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// Returns the conversations with failed messages.
    package func conversationsWithFailures() throws(QueueError) -> Set<Name> {
        let statement = try database.statement(
            "SELECT DISTINCT conversation FROM message INDEXED BY message_failed_in WHERE status = \(.failed)")
        var names = Set<Name>()
        try statement.forEach { () throws(QueueError) in
            names.insert(Name(statement.text(0)))
            return true
        }
        return names
    }

    /// Returns the sequences of a page.
    package func sequences(_ filter: Filter, sending: Set<Int64>) throws(QueueError) -> [Int64] {
        try PageQuery(filter, sending, self).sequences()
    }
}
