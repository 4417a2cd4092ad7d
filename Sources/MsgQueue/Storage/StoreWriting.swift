/// What changes messages. Each runs inside the caller's transaction.
extension Store {
    /// Bodies beyond so many bytes lie in a table of their own.
    static let inlineBody = 1024

    /// Puts one message behind all others; gives its id and place. With a `sender` it is somebody else's, for the history.
    package func insert(
        _ draft: borrowing BorrowedDraft, sender: String? = nil, expiresAt: Int64? = nil, now: Int64, random: UInt64
    ) throws(QueueError) -> Row {
        let sequence = try takeSequence()
        var progress = Progress()
        if sender != nil { progress.status = .delivered }
        var row = Row(
            sequence: sequence, id: draft.id ?? MessageID.make(sequence: sequence, now: now, random: random),
            isNamed: draft.id != nil, conversation: draft.conversation, sender: sender, createdAt: now, editedAt: 0,
            metadataText: draft.metadata.isEmpty ? nil : MetadataCodec.encode(draft.metadata), notBefore: draft.notBefore,
            expiresAt: expiresAt ?? draft.expiresAt, unmeteredOnly: draft.unmeteredOnly, progress: progress,
            bodySize: Int64(draft.body.count))
        row.contentHash = row.hashOfContent(draft.body)
        row.stateHash = Row.hash(sequence, row.progress)
        let statement = try database.statement(
            """
            INSERT INTO message(seq, indexed, status, id, named, conversation, sender, created_at, edited_at, metadata, not_before,
              expires_at, unmetered_only, attempts, retries_used, due_at, due_delay, last_attempt_at, sent_at, sent_duration, sent_code,
              flags, state_hash, content_hash, body_size, body)
            VALUES(?1, 0, ?14, ?2, ?3, ?4, ?15, ?5, 0, ?6, ?7, ?8, ?9, 0, 0, 0, 0, 0, 0, 0, 0, 0, ?10, ?11, ?12, ?13)
            """)
        statement.bind(1, sequence)
        try statement.bind(2, row.id)
        statement.bind(3, row.isNamed)
        try statement.bind(4, row.conversation.text)
        statement.bind(5, now)
        try statement.bind(6, row.metadataText)
        statement.bind(7, row.notBefore)
        statement.bind(8, row.expiresAt)
        statement.bind(9, row.unmeteredOnly)
        statement.bind(10, row.stateHash)
        statement.bind(11, row.contentHash)
        statement.bind(12, row.bodySize)
        statement.bind(14, Row.number(progress.status, isReceived: sender != nil))
        try statement.bind(15, sender)
        let isLarge = draft.body.count > Self.inlineBody
        try statement.bind(13, borrowing: isLarge ? nil : draft.body)
        try statement.run()
        if isLarge { try insertLarge(sequence, draft.body) }
        var delta = Counts()
        delta.add(row.progress.status, isReceived: row.isReceived, amount: 1, bytes: row.bodySize)
        try count(row, delta)
        return row
    }

    func insertLarge(_ sequence: Int64, _ body: UnsafeRawBufferPointer) throws(QueueError) {
        let statement = try database.statement("INSERT OR REPLACE INTO large_body(seq, body) VALUES(?1, ?2)")
        statement.bind(1, sequence)
        try statement.bind(2, borrowing: body)
        try statement.run()
    }

    /// Writes what attempts, receipts and people made of a message; `row` is as it was read.
    package func update(_ row: Row, to progress: Progress) throws(QueueError) {
        let statement = try database.statement(
            """
            UPDATE message SET status = ?2, attempts = ?3, retries_used = ?4, due_at = ?5, due_delay = ?6, last_attempt_at = ?7,
              sent_at = ?8, sent_duration = ?9, sent_code = ?10, flags = ?11, state_hash = ?12, delivered_at = ?13, read_at = ?14,
              due_boot = ?15, due_uptime = ?16 WHERE seq = ?1
            """)
        statement.bind(1, row.sequence)
        statement.bind(2, Row.number(progress.status, isReceived: row.isReceived))
        statement.bind(3, Int64(progress.attempts))
        statement.bind(4, Int64(progress.retriesUsed))
        statement.bind(5, progress.dueAt)
        statement.bind(6, progress.dueDelay)
        statement.bind(7, progress.lastAttemptAt)
        statement.bind(8, progress.sentAt)
        statement.bind(9, progress.sentDuration)
        statement.bind(10, Int64(progress.sentCode))
        statement.bind(11, Row.flags(progress))
        statement.bind(12, Row.hash(row.sequence, progress))
        statement.bind(13, progress.deliveredAt)
        statement.bind(14, progress.readAt)
        statement.bind(15, progress.dueBoot)
        statement.bind(16, progress.dueUptime)
        try statement.run()
        // A row that is gone by now is in no count any more.
        guard database.changes == 1, progress.status != row.progress.status else { return }
        // The pruning goes through the history in order: what joins it behind its back makes it begin anew.
        if progress.status == .sent || row.isReceived { pruneCursor = min(pruneCursor, row.sequence - 1) }
        try count(row, row.change(to: progress.status))
    }

    /// Another body in the same place.
    package func replaceBody(of old: Row, _ body: UnsafeRawBufferPointer, now: Int64) throws(QueueError) {
        var row = old
        row.editedAt = max(now, 1)
        row.bodySize = Int64(body.count)
        let statement = try database.statement(
            "UPDATE message SET body = ?2, body_size = ?3, edited_at = ?4, content_hash = ?5 WHERE seq = ?1")
        statement.bind(1, row.sequence)
        let isLarge = body.count > Self.inlineBody
        try statement.bind(2, borrowing: isLarge ? nil : body)
        statement.bind(3, row.bodySize)
        statement.bind(4, row.editedAt)
        statement.bind(5, row.hashOfContent(body))
        try statement.run()
        if isLarge { try insertLarge(row.sequence, body) } else { try deleteLarge(row.sequence) }
        var delta = Counts()
        delta.add(row.progress.status, amount: 0, bytes: row.bodySize &- old.bodySize)
        try count(row, delta)
    }

    private func deleteLarge(_ sequence: Int64) throws(QueueError) {
        let statement = try database.statement("DELETE FROM large_body WHERE seq = ?1")
        statement.bind(1, sequence)
        try statement.run()
    }

    /// Removes one message and all that belongs to it.
    package func delete(_ row: Row) throws(QueueError) {
        var (isFirst, existed) = (true, false)
        for statement in [
            try database.statement("DELETE FROM message WHERE seq = ?1"),
            try database.statement("DELETE FROM large_body WHERE seq = ?1"),
            try database.statement("DELETE FROM attempt WHERE seq = ?1"),
            try database.statement("DELETE FROM in_flight WHERE seq = ?1"),
        ] {
            statement.bind(1, row.sequence)
            try statement.run()
            if isFirst { existed = database.changes == 1 }
            isFirst = false
        }
        guard existed else { return }
        try count(row, row.change(to: nil))
        try conversationLost(row)
    }

    /// Removes what is queued or failed, of one conversation or of all, except what is being sent.
    package func deleteUnsent(of conversation: Name?, atMost limit: Int = .max) throws(QueueError) -> Int {
        try fold()
        var removed = 0
        var last: Int64 = 0
        while true {
            let rows = try unsentRows(of: conversation, after: last, limit: Int64(min(256, limit - removed)))
            guard let end = rows.last else {
                if removed > 0, removed < limit { try checkCleared(conversation) }
                return removed
            }
            for row in rows { try delete(row) }
            removed += rows.count
            last = end.sequence
        }
    }

    /// A page of what is queued or failed and not being sent, in order, behind a sequence.
    private func unsentRows(of conversation: Name?, after sequence: Int64, limit: Int64) throws(QueueError) -> [Row] {
        let statement: Statement
        if let conversation {
            statement = try database.statement(
                """
                SELECT seq, status, conversation, body_size, sender, id FROM message INDEXED BY message_conversation
                WHERE indexed = 1 AND conversation = ?3 AND seq > ?2 AND status IN (0, 5) AND seq NOT IN (SELECT seq FROM in_flight)
                ORDER BY seq LIMIT ?1
                """)
            try statement.bind(3, conversation.text)
        } else {
            statement = try database.statement(
                """
                SELECT seq, status, conversation, body_size, sender, id FROM message WHERE seq IN (
                  SELECT seq FROM message INDEXED BY message_queued
                    WHERE indexed = 1 AND status = 0 AND seq > ?2 AND seq NOT IN (SELECT seq FROM in_flight)
                  UNION ALL SELECT seq FROM message INDEXED BY message_failed
                    WHERE status = 5 AND seq > ?2 AND seq NOT IN (SELECT seq FROM in_flight)
                  ORDER BY seq LIMIT ?1)
                ORDER BY seq
                """)
        }
        statement.bind(1, limit)
        statement.bind(2, sequence)
        var rows: [Row] = []
        try statement.forEach { () throws(QueueError) in
            rows.append(outline(statement))
            return true
        }
        return rows
    }

    /// What must be known of a message to remove it, whatever state it is in.
    package func outline(at sequence: Int64) throws(QueueError) -> Row? {
        let statement = try database.statement("SELECT seq, status, conversation, body_size, sender, id FROM message WHERE seq = ?1")
        statement.bind(1, sequence)
        return try statement.first { () throws(QueueError) in outline(statement) }
    }

    func outline(_ statement: Statement) -> Row {
        var progress = Progress()
        progress.status = Row.status(statement.int(1)) ?? .failed
        return Row(
            sequence: statement.int(0), id: statement.text(5), isNamed: false, conversation: Name(statement.text(2)),
            // Whose message it is counted as, whatever the sender has become.
            sender: statement.int(1) >= 6 ? statement.text(4) : nil, createdAt: 0, editedAt: 0, notBefore: 0, expiresAt: 0,
            unmeteredOnly: false, progress: progress, isCounted: Row.status(statement.int(1)) != nil,
            bodySize: Row.countedSize(statement.int(3)))
    }
}

extension Row {
    /// What the counts change by when the message takes this status, or (nil) goes.
    func change(to status: MessageStatus?) -> Counts {
        var delta = Counts()
        if isCounted { delta.add(progress.status, isReceived: isReceived, amount: -1, bytes: 0 &- bodySize) }
        if let status { delta.add(status, isReceived: isReceived, amount: 1, bytes: bodySize) }
        return delta
    }

    /// What a message's body counts for; one of an impossible size counts for nothing.
    static func countedSize(_ bytes: Int64) -> Int64 { (0...Options.bodyCeiling).contains(bytes) ? bytes : 0 }

    /// A status as it lies on disk; nil: none.
    static func status(_ number: Int64) -> MessageStatus? {
        if number == 6 { return .delivered }
        if number == 7 { return .read }
        guard let small = Int32(exactly: number), small != MessageStatus.sending.rawValue else { return nil }
        return MessageStatus(rawValue: small)
    }
}
