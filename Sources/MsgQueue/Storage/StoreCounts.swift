/// The fold, and the counts by conversation.
extension Store {
    /// Adds the rows after `folded_through` to the indexes and to the counts by conversation, inside the caller's transaction.
    func fold() throws(QueueError) {
        guard state.unfoldedRows > 0 else { return }
        let first = state.foldedThrough
        try countRows(after: state.foldedThrough)
        if counters.hasUnfoldedHistory { try history.add(after: state.foldedThrough, through: state.nextSequence - 1) }
        let rows = try database.statement("UPDATE message SET indexed = 1 WHERE seq > ?1")
        rows.bind(1, state.foldedThrough)
        try rows.run()
        state.foldedThrough = state.nextSequence - 1
        counters.clearUnfolded()
        try times.noteFolded(after: first)
    }

    /// Adds the rows after a sequence number to the counts by conversation.
    func countRows(after sequence: Int64) throws(QueueError) {
        let counts = try database.statement(
            """
            INSERT INTO conversation(name, queued, sent, delivered, "read", failed, received, unread, unsent_bytes, last_seq, proof)
            SELECT name, q, s, d, r, f, x, u, b, l, 3 * q + 5 * s + 7 * d + 11 * r + 13 * f + 17 * x + 19 * u + 23 * b + 29 * l FROM (
              SELECT conversation AS name, sum(status = \(.queued)) AS q, sum(status = \(.sent)) AS s,
                sum(status = \(.delivered)) AS d, sum(status = \(.read)) AS r, sum(status = \(.failed)) AS f,
                sum(status IN (\([.received, .receivedRead]))) AS x, sum(status = \(.received)) AS u,
                sum(CASE WHEN status IN (\([.queued, .failed])) AND body_size BETWEEN 0 AND 268435456 THEN body_size ELSE 0 END) AS b, max(seq) AS l
              FROM message WHERE seq > ?1 GROUP BY conversation) WHERE true
            \(Self.addToExisting)
            """)
        counts.bind(1, sequence)
        try counts.run()
    }

    /// Adds the counts of new rows of a conversation, the newest of which has the sequence number `last`.
    func addCounts(_ counts: Counts, last: Int64, to conversation: Name) throws(QueueError) {
        let statement = try database.statement(
            """
            INSERT INTO conversation(\(ConversationColumn.self)) VALUES(\(parameters: ConversationColumn.self)) \(Self.addToExisting)
            """)
        let fields = Fields<ConversationColumn>(statement)
        try fields.bind(.name, conversation.text)
        counts.bind(to: fields)
        fields.bind(.lastSeq, last)
        fields.bind(.lastTime, 0)
        fields.bind(.timeSeq, 0)
        fields.bind(.proof, Self.proof(counts, last: last))
        try statement.run()
        times.noteChange(of: conversation)
    }

    /// For an INSERT into `conversation`: where the conversation has a row, the new counts are added to it.
    private static let addToExisting: SQL = """
        ON CONFLICT(name) DO UPDATE SET queued = queued + excluded.queued, sent = sent + excluded.sent,
          delivered = delivered + excluded.delivered, "read" = "read" + excluded."read", failed = failed + excluded.failed,
          received = received + excluded.received, unread = unread + excluded.unread,
          unsent_bytes = unsent_bytes + excluded.unsent_bytes, last_seq = max(last_seq, excluded.last_seq),
          proof = proof + excluded.proof - 29 * excluded.last_seq + 29 * (max(last_seq, excluded.last_seq) - last_seq)
        """

    /// Folds in a transaction of its own. It needs no flush: after a power failure it is repeated.
    func foldNow() throws(QueueError) {
        guard state.unfoldedRows > 0 else { return }
        guard !isInTransaction else { return try fold() }
        do throws(QueueError) { try foldAlone() } catch {
            // The log may have no space to grow. After a checkpoint it is reused from its start.
            guard error.isFull, !database.isLogFresh, checkpoint() else { throw error }
            try foldAlone()
        }
    }

    private func foldAlone() throws(QueueError) {
        try begin()
        do throws(QueueError) {
            try fold()
            try commit(durable: false)
        } catch {
            rollback()
            throw error
        }
    }

    package func foldIfDue() throws(QueueError) {
        if state.unfoldedRows >= Self.foldEvery { try foldNow() }
    }

    /// Applies a change of the counts in memory. `writeCounts` adds it to the table, before the commit or before the table is read.
    func count(_ row: Row, _ delta: Counts) {
        let isFolded = row.sequence <= state.foldedThrough
        counters.add(delta, row.conversation, unfolded: !isFolded)
        guard isFolded else { return }
        comparison?.changed(row.sequence, row.conversation, by: delta.queued)
        check?.changed(row.sequence, row.conversation, by: delta)
        requestedCheck?.changed(row.sequence, row.conversation, by: delta)
        changedCounts[row.conversation, default: Counts()] += delta
    }

    /// Applies the removal of a message. `writeCounts` finds the newest message that is left in its conversation.
    func noteRemoved(_ row: Row) {
        check?.removed(row)
        requestedCheck?.removed(row)
        count(row, row.change(to: nil))
        unsentSums.note(from: row, to: nil)
        guard row.sequence <= state.foldedThrough else { return }
        times.noteChange(of: row.conversation)
        removedNewest[row.conversation] = max(removedNewest[row.conversation] ?? 0, row.sequence)
    }

    /// Writes the changes of the counts by conversation, and of the newest messages.
    func writeCounts() throws(QueueError) {
        try writeChangedCounts()
        try writeFailures()
        let removed = removedNewest
        removedNewest.removeAll(keepingCapacity: true)
        for (conversation, sequence) in removed { try updateNewest(of: conversation, afterRemoving: sequence) }
        try times.writeNewest()
    }

    private func writeChangedCounts() throws(QueueError) {
        guard !changedCounts.isEmpty else { return }
        let statement = try database.statement(
            """
            UPDATE conversation SET \(add: ConversationColumn.counts), \(add: [ConversationColumn.proof])
            WHERE name = \(parameter: ConversationColumn.name)
            """)
        for (conversation, delta) in changedCounts where delta != Counts() {
            let fields = Fields<ConversationColumn>(statement)
            try fields.bind(.name, conversation.text)
            delta.bind(to: fields)
            fields.bind(.proof, Self.proof(delta, last: 0))
            try statement.run()
        }
        changedCounts.removeAll(keepingCapacity: true)
    }

    /// Returns the checksum of a row of `conversation`. It is linear, so that a change can update it without reading the row.
    private static func proof(_ counts: Counts, last: Int64, newest: TimePlace = TimePlace(0, 0)) -> Int64 {
        var proof = 3 &* counts.queued &+ 5 &* counts.sent &+ 7 &* counts.delivered
        proof = proof &+ 11 &* counts.read &+ 13 &* counts.failed &+ 17 &* counts.received
        proof = proof &+ 19 &* counts.unread &+ 23 &* counts.unsentBytes &+ 29 &* last
        return proof &+ 31 &* (newest.time & TimePlace.proofMask) &+ 37 &* newest.sequence
    }

    /// The counts of all messages. Those being sent count as queued.
    package var totals: Counts { counters.totals }

    /// The number of all messages, by the counts.
    package var messages: Int64 { totals.unsent &+ totals.history }

    /// Returns the counts of one conversation. Messages being sent count as queued.
    package func counts(of conversation: Name) throws(QueueError) -> Counts {
        let folded: Counts
        if let kept = try foldedCounts(of: conversation) { folded = kept } else { folded = try recount(conversation) }
        return folded + (counters.unfolded[conversation] ?? Counts())
    }

    /// Returns the stored counts of the folded rows of a conversation; nil: they are damaged.
    func foldedCounts(of conversation: Name) throws(QueueError) -> Counts? {
        try writeCounts()
        let statement = try database.statement("SELECT \(ConversationColumn.self) FROM conversation WHERE name = ?1")
        try statement.bind(1, conversation.text)
        guard let kept = try statement.first({ () throws(QueueError) in checkedCounts(Fields(statement)) }) else { return Counts() }
        return kept
    }

    /// Reads the counts of a row of `conversation`; nil: they are damaged.
    func checkedCounts(_ fields: Fields<ConversationColumn>) -> Counts? {
        let counts = Counts(fields)
        let newest = TimePlace(fields.int(.lastTime), fields.int(.timeSeq))
        guard counts.isPlausible, Self.proof(counts, last: fields.int(.lastSeq), newest: newest) == fields.int(.proof) else { return nil }
        return counts
    }

    /// Replaces the damaged row of a conversation by one of its folded messages, and returns their counts.
    func recount(_ conversation: Name) throws(QueueError) -> Counts {
        try writeCounts()
        Log.warning("\(path): the counts of a conversation were damaged and are rebuilt from its messages")
        let (counts, last) = try countRows(in: conversation)
        let newest = try times.newest(in: conversation) ?? TimePlace(0, 0)
        let update = try database.statement(
            """
            UPDATE conversation SET \(set: ConversationColumn.counts + [.lastSeq, .proof, .lastTime, .timeSeq])
            WHERE name = \(parameter: ConversationColumn.name)
            """)
        try repair { () throws(QueueError) in
            let fields = Fields<ConversationColumn>(update)
            try fields.bind(.name, conversation.text)
            counts.bind(to: fields)
            fields.bind(.lastSeq, last)
            fields.bind(.lastTime, newest.time)
            fields.bind(.timeSeq, newest.sequence)
            fields.bind(.proof, Self.proof(counts, last: last, newest: newest))
            try update.run()
            if last == 0 { try deleteEmpty(conversation) }
        }
        return counts
    }

    /// Counts the folded rows of a conversation, and finds the newest one.
    private func countRows(in conversation: Name) throws(QueueError) -> (counts: Counts, last: Int64) {
        let statement = try database.statement(
            """
            SELECT status, count(*), sum(CASE WHEN body_size BETWEEN 0 AND 268435456 THEN body_size ELSE 0 END), max(seq) FROM message INDEXED BY message_conversation
            WHERE indexed = 1 AND conversation = ?1 GROUP BY status
            """)
        try statement.bind(1, conversation.text)
        var counts = Counts()
        var last: Int64 = 0
        try statement.forEach { () throws(QueueError) in
            guard let stored = StoredStatus(rawValue: statement.int(0)) else { return true }
            counts.add(
                stored.status, isReceived: stored.isReceived, amount: statement.int(1), bytes: statement.int(2))
            last = max(last, statement.int(3))
            return true
        }
        return (counts, last)
    }

    /// Rebuilds the indexes and all counts from the messages, some of which may be damaged. Inside the caller's transaction.
    func rebuildIndexesAndCounts() throws(QueueError) {
        try database.execute("REINDEX")
        try convertTypes()
        try database.execute("UPDATE message SET indexed = 1 WHERE indexed != 1")
        state.foldedThrough = state.nextSequence - 1
        counters.clearUnfolded()
        comparison?.finish()
        check?.rebuilt()
        requestedCheck?.rebuilt()
        unsentSums.discard()
        try times.arrange()
        try rebuildConversations()
        try history.rebuild()
        try rebuildFailures()
        // What belongs to messages that are gone.
        for table in ["large_body", "attempt", "in_flight"] {
            try database.execute("DELETE FROM \(table) WHERE seq NOT IN (SELECT seq FROM message NOT INDEXED)")
        }
        try database.execute("DELETE FROM large_body WHERE seq IN (SELECT seq FROM message NOT INDEXED WHERE body IS NOT NULL)")
        try database.execute("DELETE FROM recent_own WHERE seq <= 0")
    }

    /// Rebuilds all counts from the messages, which are all folded.
    func rebuildConversations() throws(QueueError) {
        (changedCounts, removedNewest) = ([:], [:])
        try database.execute("DELETE FROM conversation")
        try countRows(after: 0)
        if times.hasTimes { try times.rereadNewest() }
        counters.add(try sumOfConversations() + totals.negated, Name(""), unfolded: false)
    }

    /// Called before a message that may be damaged is changed or removed. If it is damaged, checks that the counts of its conversation
    /// agree with the rows as they are now, because the change is computed from these. `part`: the part of the message that matters.
    /// Returns false when the message is damaged.
    @discardableResult
    package func verifyCounts(for row: Row, _ part: Part) throws(QueueError) -> Bool {
        do throws(QueueError) {
            _ = try self.row(at: row.sequence, part)
            return true
        } catch {
            guard error.code == .corrupt, !error.isIndex else { throw error }
            try verifyCounts(forDamaged: row)
            unsentSums.discard()
            return false
        }
    }

    private func verifyCounts(forDamaged row: Row) throws(QueueError) {
        guard row.sequence <= state.foldedThrough else { return }
        let statement = try database.statement(
            "SELECT count(*) FROM message INDEXED BY message_conversation WHERE indexed = 1 AND conversation = ?1 AND seq = ?2")
        try statement.bind(1, row.conversation.text)
        statement.bind(2, row.sequence)
        let isIndexed = try statement.first { () throws(QueueError) in statement.int(0) == 1 } ?? false
        guard isIndexed, try foldedCounts(of: row.conversation) == countRows(in: row.conversation).counts else {
            throw mismatch(row.sequence)
        }
    }

    /// Returns the error after which the indexes and counts are rebuilt.
    func mismatch(_ sequence: Int64) -> QueueError {
        QueueError(.corrupt, "indexes or counts do not agree with message \(sequence)", isIndex: true)
    }

    /// Called after all unsent messages were removed: only messages being sent may still be counted. Rebuilds the counts if they differ,
    /// because a removed message was damaged.
    func checkCleared(_ conversation: Name?) throws(QueueError) {
        try writeCounts()
        let statement = try database.statement(
            """
            SELECT total(status = \(.queued)), total(status = \(.failed)), total(body_size) FROM message
            WHERE seq IN (SELECT seq FROM in_flight) AND status IN (\([.queued, .failed])) AND (?1 IS NULL OR conversation = ?1)
            """)
        try statement.bind(1, conversation?.text)
        let left = try statement.first { () throws(QueueError) in (0..<3).map { Int64(statement.double($0)) } } ?? [0, 0, 0]
        let counts = try conversation.map { name throws(QueueError) in try self.counts(of: name) } ?? totals
        guard [counts.queued, counts.failed, counts.unsentBytes] == left else { return try rebuildIndexesAndCounts() }
        guard conversation == nil else { return }
        // A wrong count of one conversation may hide one of another.
        let sum = try database.statement(
            "SELECT count(*) FROM conversation WHERE queued < 0 OR failed < 0 OR unsent_bytes < 0 OR queued + failed > ?1")
        sum.bind(1, left[0] + left[1])
        if try sum.first({ () throws(QueueError) in sum.int(0) }) ?? 0 > 0 { try rebuildIndexesAndCounts() }
    }

    /// Runs a repair of indexes or counts, in the open transaction or in one of its own. If its own transaction fails, the repair is
    /// repeated the next time.
    func repair(_ body: () throws(QueueError) -> Void) throws(QueueError) {
        guard !isInTransaction else { return try body() }
        do throws(QueueError) {
            try begin()
            try body()
            try commit(durable: false)
        } catch {
            rollback()
            Log.warning("\(path): repairing indexes or counts failed: \(error.detail)")
        }
    }

    /// Returns the sum of the counts of all conversations. Damaged counts are rebuilt.
    func sumOfConversations() throws(QueueError) -> Counts {
        try writeCounts()
        let statement = try database.statement("SELECT \(ConversationColumn.self) FROM conversation ORDER BY name")
        var sum = Counts()
        var damaged: [Name] = []
        var last: [UInt8]?
        try statement.forEach { () throws(QueueError) in
            let fields = Fields<ConversationColumn>(statement)
            // The pages of a damaged b-tree may lead to the same rows again, and so without end.
            guard fields.follows(.name, &last) else {
                throw QueueError(.corrupt, "the names in the table conversation are not in order", isIndex: true)
            }
            if let counts = checkedCounts(fields) { sum += counts } else { damaged.append(Name(fields.text(.name))) }
            return true
        }
        for name in damaged { sum += try recount(name) }
        return sum
    }

    /// Counts the rows that are not folded, by conversation.
    func unfoldedCounts() throws(QueueError) -> [Name: Counts] {
        let statement = try database.statement("SELECT conversation, status, body_size FROM message WHERE seq > ?1")
        statement.bind(1, state.foldedThrough)
        var found: [Name: Counts] = [:]
        try statement.forEach { () throws(QueueError) in
            guard let stored = StoredStatus(rawValue: statement.int(1)) else { return true }
            found[Name(statement.text(0)), default: Counts()].add(
                stored.status, isReceived: stored.isReceived, amount: 1, bytes: Row.countedSize(statement.int(2)))
            return true
        }
        return found
    }

    /// The conversations with messages that are not folded.
    package var unfoldedConversations: [Name] { Array(counters.unfolded.keys) }

    /// Returns how many of the conversations after `name` have queued messages, or failed ones with `includesFailed`, and the last
    /// conversation that was looked at; nil: there are no more.
    package func conversationsUnsent(
        after name: Name?, includesFailed: Bool, limit: Int
    ) throws(QueueError) -> (count: Int64, last: Name?) {
        try writeCounts()
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
