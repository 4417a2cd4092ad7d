/// What changes messages. Each runs inside the caller's transaction.
extension Store {
    /// Bodies beyond so many bytes lie in a table of their own.
    static let inlineBody = 1024

    /// Puts one message behind all others; gives its id and place.
    package func insert(_ draft: borrowing BorrowedDraft, now: Int64, random: () -> UInt64) throws(QueueError) -> Row {
        let sequence = try takeSequence()
        var row = Row(
            sequence: sequence, id: draft.id ?? MessageID.make(sequence: sequence, now: now, random: random()),
            isNamed: draft.id != nil, conversation: draft.conversation, createdAt: now, editedAt: 0,
            metadataText: draft.metadata.isEmpty ? nil : MetadataCodec.encode(draft.metadata), notBefore: draft.notBefore,
            expiresAt: draft.expiresAt, unmeteredOnly: draft.unmeteredOnly, progress: Progress(), bodySize: Int64(draft.body.count))
        row.contentHash = row.hashOfContent(draft.body)
        row.stateHash = Row.hash(sequence, row.progress)
        let statement = try database.statement(
            """
            INSERT INTO message(seq, indexed, status, id, named, conversation, created_at, edited_at, metadata, not_before, expires_at,
              unmetered_only, attempts, retries_used, due_at, due_delay, last_attempt_at, sent_at, sent_duration, sent_code, flags,
              state_hash, content_hash, body_size, body)
            VALUES(?1, 0, 0, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8, ?9, 0, 0, 0, 0, 0, 0, 0, 0, 0, ?10, ?11, ?12, ?13)
            """)
        statement.bind(1, sequence)
        try statement.bind(2, row.id)
        statement.bind(3, row.isNamed)
        try statement.bind(4, row.conversation)
        statement.bind(5, now)
        try statement.bind(6, row.metadataText)
        statement.bind(7, row.notBefore)
        statement.bind(8, row.expiresAt)
        statement.bind(9, row.unmeteredOnly)
        statement.bind(10, row.stateHash)
        statement.bind(11, row.contentHash)
        statement.bind(12, row.bodySize)
        let isLarge = draft.body.count > Self.inlineBody
        try statement.bind(13, borrowing: isLarge ? nil : draft.body)
        try statement.run()
        if isLarge { try insertLarge(sequence, draft.body) }
        try count(sequence, row.conversation, .queued, amount: 1, bytes: row.bodySize)
        return row
    }

    private func insertLarge(_ sequence: Int64, _ body: UnsafeRawBufferPointer) throws(QueueError) {
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
              sent_at = ?8, sent_duration = ?9, sent_code = ?10, flags = ?11, state_hash = ?12 WHERE seq = ?1
            """)
        statement.bind(1, row.sequence)
        for (index, value) in [
            Int64(progress.status.rawValue), Int64(progress.attempts), Int64(progress.retriesUsed), progress.dueAt, progress.dueDelay,
            progress.lastAttemptAt, progress.sentAt, progress.sentDuration, Int64(progress.sentCode), Row.flags(progress),
            Row.hash(row.sequence, progress),
        ].enumerated() {
            statement.bind(Int32(index + 2), value)
        }
        try statement.run()
        guard progress.status != row.progress.status else { return }
        try count(row.sequence, row.conversation, row.progress.status, amount: -1, bytes: -row.bodySize)
        try count(row.sequence, row.conversation, progress.status, amount: 1, bytes: row.bodySize)
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
        try count(row.sequence, row.conversation, row.progress.status, amount: 0, bytes: row.bodySize - old.bodySize)
    }

    private func deleteLarge(_ sequence: Int64) throws(QueueError) {
        let statement = try database.statement("DELETE FROM large_body WHERE seq = ?1")
        statement.bind(1, sequence)
        try statement.run()
    }

    /// Removes one message and all that belongs to it.
    package func delete(_ row: Row) throws(QueueError) {
        for statement in [
            try database.statement("DELETE FROM message WHERE seq = ?1"),
            try database.statement("DELETE FROM large_body WHERE seq = ?1"),
            try database.statement("DELETE FROM attempt WHERE seq = ?1"),
            try database.statement("DELETE FROM in_flight WHERE seq = ?1"),
        ] {
            statement.bind(1, row.sequence)
            try statement.run()
        }
        try count(row.sequence, row.conversation, row.progress.status, amount: -1, bytes: -row.bodySize)
    }

    /// Removes what is queued or failed, of one conversation or of all, except what is being sent.
    package func deleteUnsent(of conversation: String?) throws(QueueError) -> Int {
        try fold()
        var removed = 0
        while true {
            let rows = try unsentRows(of: conversation, limit: 256)
            for row in rows { try delete(row) }
            removed += rows.count
            if rows.count < 256 { return removed }
        }
    }

    private func unsentRows(of conversation: String?, limit: Int64) throws(QueueError) -> [Row] {
        let statement: Statement
        if let conversation {
            statement = try database.statement(
                """
                SELECT seq, status, conversation, body_size FROM message INDEXED BY message_conversation
                WHERE indexed = 1 AND conversation = ?2 AND status IN (0, 5) AND seq NOT IN (SELECT seq FROM in_flight) LIMIT ?1
                """)
            try statement.bind(2, conversation)
        } else {
            statement = try database.statement(
                """
                SELECT seq, status, conversation, body_size FROM message WHERE seq IN (
                  SELECT seq FROM message WHERE indexed = 1 AND status = 0 UNION ALL SELECT seq FROM message WHERE status = 5 LIMIT ?1 + 64)
                AND seq NOT IN (SELECT seq FROM in_flight) LIMIT ?1
                """)
        }
        statement.bind(1, limit)
        var rows: [Row] = []
        try statement.forEach { () throws(QueueError) in
            rows.append(outline(statement))
            return true
        }
        return rows
    }

    /// What must be known of a message to remove it, whatever state it is in.
    package func outline(at sequence: Int64) throws(QueueError) -> Row? {
        let statement = try database.statement("SELECT seq, status, conversation, body_size FROM message WHERE seq = ?1")
        statement.bind(1, sequence)
        return try statement.first { () throws(QueueError) in outline(statement) }
    }

    private func outline(_ statement: Statement) -> Row {
        var progress = Progress()
        progress.status = Row.status(statement.int(1)) ?? .failed
        return Row(
            sequence: statement.int(0), id: "", isNamed: false, conversation: statement.text(2), createdAt: 0, editedAt: 0,
            notBefore: 0, expiresAt: 0, unmeteredOnly: false, progress: progress, bodySize: statement.int(3))
    }
}

extension Row {
    /// A status as it lies on disk; nil: none.
    static func status(_ number: Int64) -> MessageStatus? {
        guard let small = Int32(exactly: number), small != MessageStatus.sending.rawValue else { return nil }
        return MessageStatus(rawValue: small)
    }
}
