/// The messages: reading and changing them. Functions that change run inside the caller's transaction.
final class MessageTable {
    let database: Database
    let state: StateRow
    let times: TimeIndex
    let history: HistoryIndex
    let counts: ConversationCounts
    let unsentSums: UnsentSumsIndex
    let attempts: AttemptTable
    let failures: FailureIndex
    let insertion: MessageInsertion
    let recentIDs: RecentIDs
    let log: StoreLog
    private let checks: RunningChecks
    private let repairs: Repairs

    init(
        _ insertion: MessageInsertion, _ attempts: AttemptTable, _ failures: FailureIndex, _ recentIDs: RecentIDs, _ log: StoreLog,
        _ checks: RunningChecks, _ repairs: Repairs
    ) {
        (database, state, times, history) = (insertion.database, insertion.state, insertion.times, insertion.history)
        (counts, unsentSums, self.insertion) = (insertion.counts, insertion.unsentSums, insertion)
        (self.attempts, self.failures, self.recentIDs, self.log) = (attempts, failures, recentIDs, log)
        (self.checks, self.repairs) = (checks, repairs)
    }

    /// nil: the changes of messages are not kept.
    var feed: ChangeFeed? { insertion.feed }

    /// The bytes of a large body that its preview needs, and one more, which says that there are more.
    private static let startOfBody = Preview.bytes + 1

    /// The part of a message to read.
    enum Part {
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
                if part == .start, checks.session != nil { _ = try read(fields, .whole) }
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
    func find(_ id: String, _ part: Part) throws(QueueError) -> Row? {
        guard let sequence = try sequence(of: id) else { return nil }
        return try row(at: sequence, part)
    }

    /// Returns whether there is a message with this id.
    func contains(_ id: String) throws(QueueError) -> Bool { try sequence(of: id) != nil }

    /// Returns the message with this sequence number. A row that does not match its checksum is read again from the disk before it counts
    /// as damaged.
    func row(at sequence: Int64, _ part: Part) throws(QueueError) -> Row? {
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
        Log.warning("\(database.path): the index of ids is damaged and is rebuilt from the messages")
        try repairs.run { () throws(QueueError) in try database.execute("REINDEX message_named") }
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

    /// Returns when a message was enqueued; nil: it is gone.
    func createdAt(_ sequence: Int64) throws(QueueError) -> Int64? {
        let statement = try database.statement("SELECT created_at FROM message WHERE seq = ?1")
        statement.bind(1, sequence)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// What a message is whose id is in the store.
    enum Known { case recorded, toSend }

    /// Returns what the message with this id is; nil: there is none. A damaged one is there, too.
    func known(_ id: String) throws(QueueError) -> Known? {
        guard let sequence = try sequence(of: id) else { return nil }
        let statement = try database.statement("SELECT status, attempts FROM message WHERE seq = ?1")
        statement.bind(1, sequence)
        return try statement.first { () throws(QueueError) in
            guard let status = StoredStatus(rawValue: statement.int(0)) else { return .toSend }
            let attempts = UInt32(clamping: statement.int(1))
            return status.isReceived || StatusRule.isRecorded(own: status.status, attempts: attempts) ? .recorded : .toSend
        }
    }

    /// Called before a message that may be damaged is changed or removed. If it is damaged, checks that the counts of its conversation
    /// agree with the rows as they are now, because the change is computed from these. `part`: the part of the message that matters.
    /// Returns false when the message is damaged.
    @discardableResult
    func verifyCounts(for row: Row, _ part: Part) throws(QueueError) -> Bool {
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
        guard isIndexed, try counts.folded(of: row.conversation) == counts.countRows(in: row.conversation).counts else {
            throw .mismatch(row.sequence)
        }
    }
}
