/// The list of conversations.
extension Store {
    /// A conversation with its newest message.
    package struct Outline {
        package let name: Name
        package let counts: Counts
        package let last: Row
    }

    /// Returns conversations in the order of their newest messages, newest first: those before the sequence number `before` (0: from the
    /// first). Calls `damaged` for each that is left out because its newest message is damaged.
    package func conversations(before: Int64, limit: Int, damaged: (QueueError) -> Void) throws(QueueError) -> [Outline] {
        try writeCounts()
        // Unfolded rows are not in the table `conversation` yet, and are newer than all folded ones.
        let newest = try newestUnfolded()
        let end = before == 0 ? Int64.max : before
        var found: [(Name, Counts?, Int64)] = []
        for (name, sequence) in newest.sorted(by: { $0.value > $1.value }) where sequence < end && found.count < limit {
            found.append((name, try foldedCounts(of: name), sequence))
        }
        let statement = try database.statement(
            """
            SELECT \(ConversationColumn.self) FROM conversation INDEXED BY conversation_recent
            WHERE last_seq < ?1 AND last_seq > 0 ORDER BY last_seq DESC
            """)
        statement.bind(1, end)
        try statement.forEach { () throws(QueueError) in
            guard found.count < limit else { return false }
            let fields = Fields<ConversationColumn>(statement)
            let name = Name(fields.text(.name))
            if newest[name] == nil { found.append((name, checkedCounts(fields), fields.int(.lastSeq))) }
            return true
        }
        var outlines: [Outline] = []
        for (name, counts, sequence) in found {
            do throws(QueueError) {
                guard let row = try row(at: sequence, .start) else { continue }
                let folded: Counts
                if let counts { folded = counts } else { folded = try recount(name) }
                outlines.append(Outline(name: name, counts: folded + (counters.unfolded[name] ?? Counts()), last: row))
            } catch {
                guard error.code == .corrupt else { throw error }
                damaged(error)
            }
        }
        return outlines
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

    /// Updates `conversation` after a message was removed: sets the newest message, or deletes the row of an empty conversation.
    func updateNewest(afterRemoving row: Row) throws(QueueError) {
        guard row.sequence <= foldedThrough, try isNewest(row) else { return }
        let newest = try database.statement(
            """
            UPDATE conversation SET last_seq = ?3, proof = proof + 29 * (?3 - last_seq) WHERE name = ?1 AND last_seq = ?2
            """)
        try newest.bind(1, row.conversation.text)
        newest.bind(2, row.sequence)
        let last = try newestSequence(in: row.conversation)
        newest.bind(3, last)
        try newest.run()
        guard last == 0 else { return }
        // Counts that remain come from damaged messages.
        guard let left = try foldedCounts(of: row.conversation) else { throw mismatch(row) }
        counters.add(left.negated, row.conversation, unfolded: false)
        let empty = try database.statement("DELETE FROM conversation WHERE name = ?1 AND last_seq = 0")
        try empty.bind(1, row.conversation.text)
        try empty.run()
    }

    /// Whether the message is the newest folded one of its conversation by the table `conversation`.
    private func isNewest(_ row: Row) throws(QueueError) -> Bool {
        let statement = try database.statement("SELECT 1 FROM conversation WHERE name = ?1 AND last_seq = ?2")
        try statement.bind(1, row.conversation.text)
        statement.bind(2, row.sequence)
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
