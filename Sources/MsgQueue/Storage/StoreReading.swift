/// What reads messages.
extension Store {
    /// How much of the body a reader wants.
    package enum BodyPart { case whole, start, none }

    /// The row that a statement shows, with the columns of `readRow`.
    func read(_ statement: Statement, _ part: BodyPart) throws(QueueError) -> Row {
        guard let status = Row.status(statement.int(1)), let attempts = UInt32(exactly: statement.int(11)),
            let retries = Int(exactly: statement.int(12)), retries < Int(Int32.max), let code = Int32(exactly: statement.int(18)),
            (0...Options.bodyCeiling).contains(statement.int(22)), (statement.int(1) >= 6) != statement.isNull(24)
        else {
            throw QueueError(.corrupt, "message \(statement.int(0)) is damaged: a number in it cannot be, or contradicts another")
        }
        var progress = Progress()
        progress.status = status
        progress.attempts = attempts
        progress.retriesUsed = retries
        progress.dueAt = statement.int(13)
        progress.dueDelay = statement.int(14)
        progress.lastAttemptAt = statement.int(15)
        progress.sentAt = statement.int(16)
        progress.sentDuration = statement.int(17)
        progress.sentCode = code
        progress.doomed = statement.int(19) & 1 != 0
        progress.perhapsArrived = statement.int(19) & 2 != 0
        progress.waitsForNetwork = statement.int(19) & 4 != 0
        progress.isDamaged = statement.int(19) & 8 != 0
        progress.ignoresExpiry = statement.int(19) & 16 != 0
        progress.isRetriedByHand = statement.int(19) & 32 != 0
        progress.round = Row.round(statement.int(19))
        progress.deliveredAt = statement.int(25)
        progress.readAt = statement.int(26)
        progress.dueBoot = statement.int(27)
        progress.dueUptime = statement.int(28)
        var row = Row(
            sequence: statement.int(0), id: statement.text(2), isNamed: statement.bool(3), conversation: Name(statement.text(4)),
            sender: statement.isNull(24) ? nil : statement.text(24), createdAt: statement.int(5), editedAt: statement.int(6),
            metadataText: statement.isNull(7) ? nil : statement.text(7),
            notBefore: statement.int(8), expiresAt: statement.int(9), unmeteredOnly: statement.bool(10), progress: progress,
            stateHash: statement.int(20), contentHash: statement.int(21), bodySize: statement.int(22),
            priority: statement.int(29), replaceKey: statement.isNull(30) ? nil : statement.text(30))
        if part != .none {
            if statement.isNull(23) {
                row.body = try largeBody(row.sequence, part)
                row.hasWholeBody = part == .whole
            } else {
                row.body = statement.blob(23)
                row.hasWholeBody = true
            }
        }
        if row.hasWholeBody, Int64(row.body.count) != row.bodySize {
            throw QueueError(.corrupt, "message \(row.sequence) is damaged: its body has another size than was written")
        }
        try row.check()
        return row
    }

    private func largeBody(_ sequence: Int64, _ part: BodyPart) throws(QueueError) -> [UInt8] {
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

    /// The message in this place. What does not fit its checksum is read once more, from the disk: only then it is damaged.
    package func row(at sequence: Int64, _ part: BodyPart) throws(QueueError) -> Row? {
        do throws(QueueError) { return try readRow(at: sequence, part) } catch {
            guard error.code == .corrupt else { throw error }
            database.forgetPages()
            return try readRow(at: sequence, part)
        }
    }

    private func readRow(at sequence: Int64, _ part: BodyPart) throws(QueueError) -> Row? {
        let statement = try database.statement(
            """
            SELECT seq, status, id, named, conversation, created_at, edited_at, metadata, not_before, expires_at, unmetered_only,
              attempts, retries_used, due_at, due_delay, last_attempt_at, sent_at, sent_duration, sent_code, flags, state_hash,
              content_hash, body_size, body, sender, delivered_at, read_at, due_boot, due_uptime, priority, replace_key
            FROM message WHERE seq = ?1
            """)
        statement.bind(1, sequence)
        return try statement.first { () throws(QueueError) in try read(statement, part) }
    }

    /// The place of the message with this id. The index that knows it may be damaged: what it says is compared with the message.
    package func sequence(of id: String) throws(QueueError) -> Int64? {
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
            SELECT seq, due_at, due_delay, due_boot, due_uptime, flags, not_before, expires_at, unmetered_only, conversation
            FROM message INDEXED BY message_queued WHERE indexed = 1 AND status = 0 AND seq > ?1
            UNION ALL SELECT seq, due_at, due_delay, due_boot, due_uptime, flags, not_before, expires_at, unmetered_only, conversation
            FROM message NOT INDEXED
            WHERE seq > max(?1, ?3) AND status = 0 ORDER BY seq LIMIT ?2
            """)
        statement.bind(1, sequence)
        statement.bind(2, Int64(limit))
        statement.bind(3, foldedThrough)
        var heads: [(conversation: Name, head: Head)] = []
        try statement.forEach { () throws(QueueError) in
            heads.append((Name(statement.text(9)), head(statement)))
            return true
        }
        return heads
    }

    /// Queued messages of one conversation behind a place, in order.
    package func queued(in conversation: Name, after sequence: Int64, limit: Int) throws(QueueError) -> [Head] {
        let statement = try database.statement(
            """
            SELECT seq, due_at, due_delay, due_boot, due_uptime, flags, not_before, expires_at, unmetered_only
            FROM message INDEXED BY message_waiting WHERE indexed = 1 AND status = 0 AND conversation = ?1 AND seq > ?2
            UNION ALL SELECT seq, due_at, due_delay, due_boot, due_uptime, flags, not_before, expires_at, unmetered_only
            FROM message NOT INDEXED
            WHERE seq > max(?2, ?4) AND status = 0 AND conversation = ?1 ORDER BY seq LIMIT ?3
            """)
        statement.bind(4, foldedThrough)
        try statement.bind(1, conversation.text)
        statement.bind(2, sequence)
        statement.bind(3, Int64(limit))
        var heads: [Head] = []
        try statement.forEach { () throws(QueueError) in
            heads.append(head(statement))
            return true
        }
        return heads
    }

    private func head(_ statement: Statement) -> Head {
        Head(
            sequence: statement.int(0),
            due: Due(
                at: max(statement.int(1), 0), delay: max(statement.int(2), 0), boot: statement.int(3), uptime: max(statement.int(4), 0)),
            waitsForNetwork: statement.int(5) & 4 != 0, notBefore: max(statement.int(6), 0),
            expiresAt: statement.int(5) & 16 != 0 ? 0 : max(statement.int(7), 0), unmeteredOnly: statement.bool(8),
            round: Row.round(statement.int(5)))
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
            WHERE expires_at != 0 AND status = 0 AND expires_at <= ?1 AND flags & 16 = 0 AND seq NOT IN (SELECT seq FROM in_flight)
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
            WHERE expires_at != 0 AND status = 0 AND expires_at > ?1 AND flags & 16 = 0 ORDER BY expires_at LIMIT 1
            """)
        statement.bind(1, now)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// The first message of a conversation that failed for good.
    package func firstFailed(in conversation: Name) throws(QueueError) -> Int64? {
        let statement = try database.statement(
            "SELECT seq FROM message INDEXED BY message_failed_in WHERE status = 5 AND conversation = ?1 ORDER BY seq LIMIT 1")
        try statement.bind(1, conversation.text)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// Messages that failed for good, of one conversation or of all, in order: those behind one place, up to another.
    package func failed(in conversation: Name?, after: Int64, through: Int64, limit: Int) throws(QueueError) -> [Int64] {
        let statement: Statement
        if let conversation {
            statement = try database.statement(
                """
                SELECT seq FROM message INDEXED BY message_failed_in WHERE status = 5 AND conversation = ?4 AND seq > ?1 AND seq <= ?2
                ORDER BY seq LIMIT ?3
                """)
            try statement.bind(4, conversation.text)
        } else {
            statement = try database.statement(
                "SELECT seq FROM message INDEXED BY message_failed WHERE status = 5 AND seq > ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3")
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
        let statement = try database.statement("SELECT DISTINCT conversation FROM message INDEXED BY message_failed_in WHERE status = 5")
        var names = Set<Name>()
        try statement.forEach { () throws(QueueError) in
            names.insert(Name(statement.text(0)))
            return true
        }
        return names
    }

    /// Bytes of the bodies of failed messages: few, so they are added up.
    package func failedBytes() throws(QueueError) -> Int64 {
        let statement = try database.statement("SELECT sum(body_size) FROM message WHERE status = 5")
        return try statement.first { () throws(QueueError) in statement.int(0) } ?? 0
    }

    /// A page of messages in order. `sending` counts as queued here: `places` are those being sent, `isSending` whether they are wanted.
    /// Damaged rows come with their id alone, and are told to `damaged`.
    package func page(
        _ filter: Filter, sending places: Set<Int64>, damaged: (QueueError) -> Void
    ) throws(QueueError) -> [Row] {
        var rows: [Row] = []
        let part: BodyPart = filter.withoutBodies ? .start : .whole
        for sequence in try PageQuery(filter, places, foldedThrough).sequences(database) {
            do {
                if let row = try row(at: sequence, part) { rows.append(row) }
            } catch {
                guard error.code == .corrupt else { throw error }
                damaged(error)
                // It is shown with nothing but its id, so that a person can delete it.
                guard var outline = try outline(at: sequence) else { continue }
                outline.damage = error.detail
                rows.append(outline)
            }
        }
        return rows
    }
}
