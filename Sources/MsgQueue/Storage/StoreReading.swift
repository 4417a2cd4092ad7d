/// What reads messages.
extension Store {
    /// How much of a message a reader wants.
    package enum Part {
        /// All of it; all but the end of a large body; all but the body. What does not fit its checksum is an error.
        case whole, start, none
        /// What must be known to remove it, whatever else of it is damaged.
        case outline
    }

    /// The row that a statement shows.
    func read(_ fields: Fields<MessageColumn>, _ part: Part) throws(QueueError) -> Row {
        var row = try Row(fields)
        switch part {
        case .none, .outline: break
        case .whole, .start:
            if fields.isNull(.body) {
                row.body = try largeBody(row.sequence, part)
                row.hasWholeBody = part == .whole
            } else {
                row.body = fields.blob(.body)
                row.hasWholeBody = true
            }
        }
        if row.hasWholeBody, Int64(row.body.count) != row.bodySize {
            throw QueueError(.corrupt, "message \(row.sequence) is damaged: its body has another size than was written")
        }
        try row.check()
        return row
    }

    private func largeBody(_ sequence: Int64, _ part: Part) throws(QueueError) -> [UInt8] {
        let statement =
            switch part {
            case .whole: try database.statement("SELECT body FROM large_body WHERE seq = ?1")
            default: try database.statement("SELECT substr(body, 1, 6500) FROM large_body WHERE seq = ?1")
            }
        statement.bind(1, sequence)
        guard let body = try statement.first({ () throws(QueueError) in statement.blob(0) }) else {
            throw QueueError(.corrupt, "message \(sequence) is damaged: its body is gone")
        }
        return body
    }

    /// The message with this id; nil: there is none.
    package func find(_ id: String, _ part: Part) throws(QueueError) -> Row? {
        guard let sequence = try sequence(of: id) else { return nil }
        return try row(at: sequence, part)
    }

    /// Whether there is a message with this id.
    package func contains(_ id: String) throws(QueueError) -> Bool { try sequence(of: id) != nil }

    /// The message in this place. What does not fit its checksum is read once more, from the disk: only then it is damaged.
    package func row(at sequence: Int64, _ part: Part) throws(QueueError) -> Row? {
        guard part != .outline else { return try outline(at: sequence) }
        do throws(QueueError) { return try readRow(at: sequence, part) } catch {
            guard error.code == .corrupt else { throw error }
            database.forgetPages()
            return try readRow(at: sequence, part)
        }
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

    /// The place of the message with this id. The index that knows it may be damaged: what it says is compared with the message.
    func sequence(of id: String) throws(QueueError) -> Int64? {
        if let sequence = MessageID.sequence(in: id), let place = try place(sequence, of: id, isNamed: false) { return place }
        guard let indexed = try namedSequence(id) else { return nil }
        if let place = try place(indexed, of: id, isNamed: true) { return place }
        Log.warning("\(path): the index of ids is damaged and is made anew from the messages")
        try change { () throws(QueueError) in try database.execute("REINDEX message_named") }
        guard let mended = try namedSequence(id) else { return nil }
        guard let place = try place(mended, of: id, isNamed: true) else {
            throw QueueError(.corrupt, "the index of ids is damaged, and cannot be made anew")
        }
        return place
    }

    private func namedSequence(_ id: String) throws(QueueError) -> Int64? {
        let statement = try database.statement("SELECT seq FROM message INDEXED BY message_named WHERE id = ?1 AND named = 1")
        try statement.bind(1, id)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// The place, if the message there has this id, or is damaged so that nobody knows; nil: it is another.
    private func place(_ sequence: Int64, of id: String, isNamed: Bool) throws(QueueError) -> Int64? {
        let statement = try database.statement("SELECT id, named FROM message WHERE seq = ?1")
        statement.bind(1, sequence)
        guard let found = try statement.first({ () throws(QueueError) in (statement.text(0), statement.bool(1)) }) else { return nil }
        if found == (id, isNamed) { return sequence }
        do throws(QueueError) { _ = try row(at: sequence, .whole) } catch {
            guard error.code == .corrupt else { throw error }
            return sequence
        }
        return nil
    }

    /// Queued messages behind a place, in order, with their conversations.
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
        statement.bind(3, foldedThrough)
        var heads: [(conversation: Name, head: Head)] = []
        try statement.forEach { () throws(QueueError) in
            let fields = Fields<HeadColumn>(statement)
            heads.append((Name(fields.text(.conversation)), Head(fields)))
            return true
        }
        return heads
    }

    /// Queued messages of one conversation behind a place, in order.
    package func queued(in conversation: Name, after sequence: Int64, limit: Int) throws(QueueError) -> [Head] {
        let statement = try database.statement(
            """
            SELECT \(HeadColumn.self)
            FROM message INDEXED BY message_waiting WHERE indexed = 1 AND status = \(.queued) AND conversation = ?1 AND seq > ?2
            UNION ALL SELECT \(HeadColumn.self)
            FROM message NOT INDEXED
            WHERE seq > max(?2, ?4) AND status = \(.queued) AND conversation = ?1 ORDER BY seq LIMIT ?3
            """)
        statement.bind(4, foldedThrough)
        try statement.bind(1, conversation.text)
        statement.bind(2, sequence)
        statement.bind(3, Int64(limit))
        var heads: [Head] = []
        try statement.forEach { () throws(QueueError) in
            heads.append(Head(Fields(statement)))
            return true
        }
        return heads
    }

    /// When the oldest queued message was enqueued; 0: there is none.
    package func oldestQueued() throws(QueueError) -> Int64 {
        guard let first = try queued(after: 0, limit: 1).first else { return 0 }
        return try row(at: first.head.sequence, .none)?.createdAt ?? 0
    }

    /// Queued messages whose time has run out, without those being sent.
    package func expired(at now: Int64, limit: Int) throws(QueueError) -> [(conversation: Name, sequence: Int64)] {
        let statement = try database.statement(
            """
            SELECT seq, conversation FROM message INDEXED BY message_expiring
            WHERE expires_at != 0 AND status = \(.queued) AND expires_at <= ?1 AND flags & \(flag: .ignoresExpiry) = 0 AND seq NOT IN (SELECT seq FROM in_flight)
            ORDER BY expires_at LIMIT ?2
            """)
        statement.bind(1, now)
        statement.bind(2, Int64(limit))
        var found: [(conversation: Name, sequence: Int64)] = []
        try statement.forEach { () throws(QueueError) in
            found.append((Name(statement.text(1)), statement.int(0)))
            return true
        }
        return found
    }

    /// When the next queued message expires; nil: none does.
    package func nextExpiry(after now: Int64) throws(QueueError) -> Int64? {
        let statement = try database.statement(
            """
            SELECT expires_at FROM message INDEXED BY message_expiring
            WHERE expires_at != 0 AND status = \(.queued) AND expires_at > ?1 AND flags & \(flag: .ignoresExpiry) = 0 ORDER BY expires_at LIMIT 1
            """)
        statement.bind(1, now)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// The first message of a conversation that failed for good.
    package func firstFailed(in conversation: Name) throws(QueueError) -> Int64? {
        let statement = try database.statement(
            "SELECT seq FROM message INDEXED BY message_failed_in WHERE status = \(.failed) AND conversation = ?1 ORDER BY seq LIMIT 1")
        try statement.bind(1, conversation.text)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// Messages that failed for good, of one conversation or of all, in order: those behind one place, up to another.
    package func failed(in conversation: Name?, after: Int64, through: Int64, limit: Int) throws(QueueError) -> [Int64] {
        let statement: Statement
        if let conversation {
            statement = try database.statement(
                """
                SELECT seq FROM message INDEXED BY message_failed_in WHERE status = \(.failed) AND conversation = ?4 AND seq > ?1 AND seq <= ?2
                ORDER BY seq LIMIT ?3
                """)
            try statement.bind(4, conversation.text)
        } else {
            statement = try database.statement(
                """
                SELECT seq FROM message INDEXED BY message_failed WHERE status = \(.failed) AND seq > ?1 AND seq <= ?2
                ORDER BY seq LIMIT ?3
                """)
        }
        statement.bind(1, after)
        statement.bind(2, through)
        statement.bind(3, Int64(limit))
        var found: [Int64] = []
        try statement.forEach { () throws(QueueError) in
            found.append(statement.int(0))
            return true
        }
        return found
    }

    /// The conversations in which a message failed for good.
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

    /// Bytes of the bodies of failed messages: few, so they are added up.
    package func failedBytes() throws(QueueError) -> Int64 {
        let statement = try database.statement("SELECT sum(body_size) FROM message WHERE status = \(.failed)")
        return try statement.first { () throws(QueueError) in statement.int(0) } ?? 0
    }

    /// A page of messages in order. `sending` counts as queued here: `places` are those being sent, `isSending` whether they are wanted.
    /// Damaged rows come with their id alone, and are told to `damaged`.
    package func page(
        _ filter: Filter, sending places: Set<Int64>, damaged: (QueueError) -> Void
    ) throws(QueueError) -> [Row] {
        var rows: [Row] = []
        let part: Part = filter.withoutBodies ? .start : .whole
        for sequence in try PageQuery(filter, places, foldedThrough).sequences(database) {
            do {
                if let row = try row(at: sequence, part) { rows.append(row) }
            } catch {
                guard error.code == .corrupt else { throw error }
                damaged(error)
                // It is shown with nothing but its id, so that a person can delete it.
                guard var outline = try row(at: sequence, .outline) else { continue }
                outline.damage = error.detail
                rows.append(outline)
            }
        }
        return rows
    }
}
