/// The rows of the table `conversation` other than their counts: the newest message, and which conversations have unsent messages.
extension ConversationCounts {
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
        guard let left = try folded(of: conversation) else { throw .mismatch(removed) }
        takeOff(left, conversation)
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

    /// The conversations with messages that are not folded.
    var unfoldedConversations: [Name] { Array(counters.unfolded.keys) }

    /// Returns how many of the conversations after `name` have queued messages, or failed ones with `includesFailed`, and the last
    /// conversation that was looked at; nil: there are no more.
    func conversationsUnsent(
        after name: Name?, includesFailed: Bool, limit: Int
    ) throws(QueueError) -> (count: Int64, last: Name?) {
        try write()
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
