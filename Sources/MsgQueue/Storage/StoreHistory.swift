/// The list of conversations.
extension Store {
    /// A conversation with its newest message.
    package struct Outline {
        package let name: Name
        package let counts: Counts
        package let last: Row
    }

    /// Returns conversations in the order of their newest messages, newest first: those before the sequence number `before` (0: from the
    /// first). Only the last page has fewer than `limit`. A damaged newest message contains only what can be read of it, and is also passed to
    /// `damaged`.
    package func conversations(before: Int64, limit: Int, damaged: (QueueError) -> Void) throws(QueueError) -> [Outline] {
        try writeCounts()
        let first = before == 0 ? Int64.max : before
        if let outlines = try readConversations(before: first, limit, damaged) { return outlines }
        return try readConversations(before: first, limit, mayDiffer: true, damaged) ?? []
    }

    /// Returns nil when the table names a newest message that is gone, unless `mayDiffer`. The row of this conversation is then corrected.
    private func readConversations(
        before first: Int64, _ limit: Int, mayDiffer: Bool = false, _ damaged: (QueueError) -> Void
    ) throws(QueueError) -> [Outline]? {
        // Unfolded rows are not in the table `conversation` yet, and are newer than all folded ones.
        let newest = try newestUnfolded()
        var outlines: [Outline] = []
        var (end, isAtEnd, isCorrected) = (first, false, false)
        while outlines.count < limit, !isAtEnd {
            let found = try newestMessages(before: end, limit: limit - outlines.count, newest)
            isAtEnd = found.count < limit - outlines.count
            for (name, sequence) in found {
                end = sequence
                if let row = try newestRow(at: sequence, damaged), row.conversation == name {
                    outlines.append(Outline(name: name, counts: try counts(of: name), last: row))
                } else if !mayDiffer {
                    _ = try recount(name)
                    isCorrected = true
                }
            }
        }
        return isCorrected ? nil : outlines
    }

    /// Returns a message to be shown. A damaged one has only an outline.
    private func newestRow(at sequence: Int64, _ damaged: (QueueError) -> Void) throws(QueueError) -> Row? {
        do throws(QueueError) { return try row(at: sequence, .start) } catch {
            guard error.code == .corrupt, var outline = try row(at: sequence, .outline) else { throw error }
            damaged(error)
            outline.damage = error.detail
            return outline
        }
    }

    /// Returns the conversations whose newest message is before this sequence number, newest first. `newest`: the newest unfolded messages.
    private func newestMessages(
        before end: Int64, limit: Int, _ newest: [Name: Int64]
    ) throws(QueueError) -> [(name: Name, sequence: Int64)] {
        var found = newest.filter { $0.value < end }.sorted { $0.value > $1.value }.prefix(limit).map { (name: $0.key, sequence: $0.value) }
        let statement = try database.statement(
            """
            SELECT name, last_seq FROM conversation INDEXED BY conversation_recent
            WHERE last_seq < ?1 AND last_seq > 0 ORDER BY last_seq DESC
            """)
        statement.bind(1, end)
        try statement.forEach { () throws(QueueError) in
            guard found.count < limit else { return false }
            let name = Name(statement.text(0))
            if newest[name] == nil { found.append((name, statement.int(1))) }
            return true
        }
        return found
    }

    /// Returns the newest row of each conversation that has unfolded rows.
    private func newestUnfolded() throws(QueueError) -> [Name: Int64] {
        guard unfoldedRows > 0 else { return [:] }
        let statement = try database.statement("SELECT seq, conversation FROM message NOT INDEXED WHERE seq > ?1 ORDER BY seq")
        statement.bind(1, foldedThrough)
        var newest: [Name: Int64] = [:]
        try statement.forEach { () throws(QueueError) in
            newest[Name(statement.text(1))] = statement.int(0)
            return true
        }
        return newest
    }

    /// Updates `conversation` after messages were removed, the newest of which was `removed`: sets the newest message that is left, or deletes
    /// the row of an empty conversation. The changes of the counts are written already.
    func updateNewest(of conversation: Name, afterRemoving removed: Int64) throws(QueueError) {
        guard try isNewest(removed, of: conversation) else { return }
        let newest = try database.statement(
            """
            UPDATE conversation SET last_seq = ?3, proof = proof + 29 * (?3 - last_seq) WHERE name = ?1 AND last_seq = ?2
            """)
        try newest.bind(1, conversation.text)
        newest.bind(2, removed)
        let last = try newestSequence(in: conversation)
        newest.bind(3, last)
        try newest.run()
        guard last == 0 else { return }
        // Counts that remain come from damaged messages.
        guard let left = try foldedCounts(of: conversation) else { throw mismatch(removed) }
        counters.add(left.negated, conversation, unfolded: false)
        try deleteEmpty(conversation)
    }

    /// Deletes the row of a conversation without folded messages.
    func deleteEmpty(_ conversation: Name) throws(QueueError) {
        let empty = try database.statement("DELETE FROM conversation WHERE name = ?1 AND last_seq = 0")
        try empty.bind(1, conversation.text)
        try empty.run()
    }

    /// Whether this is the newest folded message of the conversation by the table `conversation`.
    private func isNewest(_ sequence: Int64, of conversation: Name) throws(QueueError) -> Bool {
        let statement = try database.statement("SELECT 1 FROM conversation WHERE name = ?1 AND last_seq = ?2")
        try statement.bind(1, conversation.text)
        statement.bind(2, sequence)
        return try statement.first { () throws(QueueError) in true } ?? false
    }

    /// Returns the newest folded message of a conversation; 0: there is none.
    private func newestSequence(in conversation: Name) throws(QueueError) -> Int64 {
        let statement = try database.statement(
            "SELECT max(seq) FROM message INDEXED BY message_conversation WHERE indexed = 1 AND conversation = ?1")
        try statement.bind(1, conversation.text)
        return try statement.first { () throws(QueueError) in statement.int(0) } ?? 0
    }
}
