/// The fold, and the counts by conversation. Follows the transaction.
final class ConversationCounts {
    let database: Database
    private let state: StateRow
    private let times: TimeIndex
    private let history: HistoryIndex
    private let failures: FailureIndex
    private let unsentSums: UnsentSumsIndex
    private let checks: RunningChecks
    private let repairs: Repairs
    private(set) var counters = Counters()
    /// What `start` added up for all conversations; nil: it did not, or some counts were damaged.
    private(set) var foldedSum: Counts?
    /// Changes of the current transaction that the table `conversation` does not have yet.
    private var changed: [Name: Counts] = [:]
    /// The newest folded message of each conversation that the current transaction removed and `write` has not handled yet.
    private var removedNewest: [Name: Int64] = [:]

    init(
        _ database: Database, _ state: StateRow, _ times: TimeIndex, _ history: HistoryIndex, _ failures: FailureIndex,
        _ unsentSums: UnsentSumsIndex, _ checks: RunningChecks, _ repairs: Repairs
    ) {
        (self.database, self.state, self.times, self.history, self.failures) = (database, state, times, history, failures)
        (self.unsentSums, self.checks, self.repairs) = (unsentSums, checks, repairs)
    }

    /// Begins with the totals of a closed store; nil: adds up those of the conversations, if `folded` is not their sum, and the other
    /// messages.
    func start(_ totals: Counts?, folded: Counts? = nil) throws(QueueError) {
        if let totals {
            counters = Counters(totals: totals)
        } else {
            let unfolded = try unfolded()
            let (sum, isRebuilt) = if let folded { (folded, false) } else { try addUp() }
            counters = Counters(totals: unfolded.values.reduce(sum, +), unfolded: unfolded)
            foldedSum = isRebuilt ? nil : sum
        }
    }

    /// The caller has folded all rows.
    func clearUnfolded() { counters.clearUnfolded() }

    func commit() { counters.commit() }

    func rollback() {
        (changed, removedNewest) = ([:], [:])
        counters.rollback()
    }

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
    func add(_ counts: Counts, last: Int64, to conversation: Name) throws(QueueError) {
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

    /// Applies a change of the counts in memory. `write` adds it to the table, before the commit or before the table is read.
    func count(_ row: Row, _ delta: Counts) {
        let isFolded = row.sequence <= state.foldedThrough
        counters.add(delta, row.conversation, unfolded: !isFolded)
        guard isFolded else { return }
        checks.changed(row, by: delta)
        changed[row.conversation, default: Counts()] += delta
    }

    /// Applies the insertion of a row with its index entries.
    func countIndexed(_ row: Row, _ delta: Counts) { counters.add(delta, row.conversation, unfolded: false) }

    /// Subtracts counts that remain of damaged messages.
    func takeOff(_ counts: Counts, _ conversation: Name) { counters.add(counts.negated, conversation, unfolded: false) }

    /// Applies the removal of a message. `write` finds the newest message that is left in its conversation.
    func noteRemoved(_ row: Row) {
        checks.removed(row)
        count(row, row.change(to: nil))
        unsentSums.note(from: row, to: nil)
        guard row.sequence <= state.foldedThrough else { return }
        times.noteChange(of: row.conversation)
        removedNewest[row.conversation] = max(removedNewest[row.conversation] ?? 0, row.sequence)
    }

    /// Writes the changes of the counts by conversation, and of the newest messages.
    func write() throws(QueueError) {
        try writeChangedCounts()
        try failures.write()
        let removed = removedNewest
        removedNewest.removeAll(keepingCapacity: true)
        for (conversation, sequence) in removed { try updateNewest(of: conversation, afterRemoving: sequence) }
        try times.writeNewest()
    }

    private func writeChangedCounts() throws(QueueError) {
        guard !changed.isEmpty else { return }
        let statement = try database.statement(
            """
            UPDATE conversation SET \(add: ConversationColumn.counts), \(add: [ConversationColumn.proof])
            WHERE name = \(parameter: ConversationColumn.name)
            """)
        for (conversation, delta) in changed where delta != Counts() {
            let fields = Fields<ConversationColumn>(statement)
            try fields.bind(.name, conversation.text)
            delta.bind(to: fields)
            fields.bind(.proof, Self.proof(delta, last: 0))
            try statement.run()
        }
        changed.removeAll(keepingCapacity: true)
    }

    /// Returns the checksum of a row of `conversation`. It is linear, so that a change can update it without reading the row.
    private static func proof(_ counts: Counts, last: Int64, newest: TimePlace = TimePlace(0, 0)) -> Int64 {
        var proof = 3 &* counts.queued &+ 5 &* counts.sent &+ 7 &* counts.delivered
        proof = proof &+ 11 &* counts.read &+ 13 &* counts.failed &+ 17 &* counts.received
        proof = proof &+ 19 &* counts.unread &+ 23 &* counts.unsentBytes &+ 29 &* last
        return proof &+ 31 &* (newest.time & TimePlace.proofMask) &+ 37 &* newest.sequence
    }

    /// The counts of all messages. Those being sent count as queued.
    var totals: Counts { counters.totals }

    /// The number of all messages, by the counts.
    var messages: Int64 { totals.unsent &+ totals.history }

    /// Returns the counts of one conversation. Messages being sent count as queued.
    func counts(of conversation: Name) throws(QueueError) -> Counts {
        let kept: Counts
        if let found = try folded(of: conversation) { kept = found } else { kept = try recount(conversation) }
        return kept + (counters.unfolded[conversation] ?? Counts())
    }

    /// Returns the stored counts of the folded rows of a conversation; nil: they are damaged.
    func folded(of conversation: Name) throws(QueueError) -> Counts? {
        try write()
        let statement = try database.statement("SELECT \(ConversationColumn.self) FROM conversation WHERE name = ?1")
        try statement.bind(1, conversation.text)
        guard let kept = try statement.first({ () throws(QueueError) in checked(Fields(statement)) }) else { return Counts() }
        return kept
    }

    /// Reads the counts of a row of `conversation`; nil: they are damaged.
    func checked(_ fields: Fields<ConversationColumn>) -> Counts? {
        let counts = Counts(fields)
        let newest = TimePlace(fields.int(.lastTime), fields.int(.timeSeq))
        guard counts.isPlausible, Self.proof(counts, last: fields.int(.lastSeq), newest: newest) == fields.int(.proof) else { return nil }
        return counts
    }

    /// Replaces the damaged row of a conversation by one of its folded messages, and returns their counts.
    func recount(_ conversation: Name) throws(QueueError) -> Counts {
        try write()
        Log.warning("\(database.path): the counts of a conversation were damaged and are rebuilt from its messages")
        let (counts, last) = try countRows(in: conversation)
        let newest = try times.newest(in: conversation) ?? TimePlace(0, 0)
        let update = try database.statement(
            """
            UPDATE conversation SET \(set: ConversationColumn.counts + [.lastSeq, .proof, .lastTime, .timeSeq])
            WHERE name = \(parameter: ConversationColumn.name)
            """)
        try repairs.run { () throws(QueueError) in
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
    func countRows(in conversation: Name) throws(QueueError) -> (counts: Counts, last: Int64) {
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

    /// Rebuilds all counts from the messages, which are all folded.
    func rebuild() throws(QueueError) {
        (changed, removedNewest) = ([:], [:])
        try database.execute("DELETE FROM conversation")
        try countRows(after: 0)
        if times.hasTimes { try times.rereadNewest() }
        counters.add(try sum() + totals.negated, Name(""), unfolded: false)
    }

    /// Returns the sum of the counts of all conversations. Damaged counts are rebuilt.
    func sum() throws(QueueError) -> Counts { try addUp().sum }

    private func addUp() throws(QueueError) -> (sum: Counts, isRebuilt: Bool) {
        try write()
        let statement = try database.statement("SELECT \(ConversationColumn.self) FROM conversation ORDER BY name")
        var sum = Counts()
        var damaged: [Name] = []
        var last: [UInt8]?
        try statement.forEach { () throws(QueueError) in
            let fields = Fields<ConversationColumn>(statement)
            // The pages of a damaged b-tree may lead to the same rows again, and so without end.
            guard fields.follows(.name, &last) else {
                throw QueueError(.corrupt, "the names in the table conversation are not in order", .index)
            }
            if let counts = checked(fields) { sum += counts } else { damaged.append(Name(fields.text(.name))) }
            return true
        }
        for name in damaged { sum += try recount(name) }
        return (sum, !damaged.isEmpty)
    }

    /// Counts the rows that are not folded, by conversation.
    func unfolded() throws(QueueError) -> [Name: Counts] {
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
}

extension QueueError {
    /// Returns the error after which the indexes and counts are rebuilt.
    static func mismatch(_ sequence: Int64) -> QueueError {
        QueueError(.corrupt, "indexes or counts do not agree with message \(sequence)", .index)
    }
}
