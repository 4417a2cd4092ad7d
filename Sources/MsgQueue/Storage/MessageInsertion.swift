/// The insertion of messages, inside the caller's transaction: one by one, or in bulk.
final class MessageInsertion {
    let database: Database
    let state: StateRow
    let times: TimeIndex
    let history: HistoryIndex
    let counts: ConversationCounts
    let unsentSums: UnsentSumsIndex
    /// nil: the changes of messages are not kept.
    var feed: ChangeFeed?
    /// The bulk insertion in the current transaction.
    var bulk: BulkInsertion?

    init(
        _ database: Database, _ state: StateRow, _ times: TimeIndex, _ history: HistoryIndex, _ counts: ConversationCounts,
        _ unsentSums: UnsentSumsIndex
    ) {
        (self.database, self.state, self.times) = (database, state, times)
        (self.history, self.counts, self.unsentSums) = (history, counts, unsentSums)
    }

    func rollback() {
        bulk = nil
        feed?.rollback()
    }

    /// Larger bodies, in bytes, are stored in the table `large_body`.
    static let inlineBody = 1024

    /// Inserts a message to send after all others and returns its row.
    func insert(
        _ draft: borrowing BorrowedDraft, times: DraftTimes? = nil, now: Int64, random: UInt64
    ) throws(QueueError) -> Row {
        let sequence = try state.takeSequence()
        let time = self.times.take(draft.time, at: sequence, now: now)
        let row = row(of: draft, at: sequence, time: time, times ?? DraftTimes(draft), now: now, random: random)
        try insert(row, draft.body)
        return row
    }

    /// Inserts a new row into the table, the counts and, in a bulk insertion, the indexes.
    func insert(_ row: Row, _ body: UnsafeRawBufferPointer) throws(QueueError) {
        try feed?.note(.status, row.progress.status, of: row)
        var delta = Counts()
        delta.add(row.progress.status, isReceived: row.isReceived, amount: 1, bytes: row.bodySize)
        if bulk != nil {
            try insertInBulk(row, body, delta)
        } else {
            try insertRow(row, body, isIndexed: false)
            counts.count(row, delta)
            if unsentSums.sums.isInUse { unsentSums.note(from: nil, to: row) }
        }
    }

    /// Returns the row of a new message. `time`: its `time_at`. The sender of the draft counts only if `isRecorded`.
    func row(
        of draft: borrowing BorrowedDraft, at sequence: Int64, time: Int64, isRecorded: Bool = false, _ times: DraftTimes, now: Int64,
        random: UInt64
    ) -> Row {
        let sender = isRecorded ? draft.sender : nil
        let progress = isRecorded ? StatusRule.recorded(isOwn: sender == nil, now: now) : Progress()
        var row = Row(
            sequence: sequence, id: draft.id ?? MessageID.make(sequence: sequence, now: now, random: random),
            isNamed: draft.id != nil, conversation: draft.conversation, sender: sender, createdAt: now, editedAt: 0,
            metadataText: draft.metadata.isEmpty ? nil : MetadataCodec.encode(draft.metadata), notBefore: times.notBefore,
            expiresAt: times.expiresAt, unmeteredOnly: draft.unmeteredOnly, progress: progress, bodySize: Int64(draft.body.count))
        row.replaceKey = draft.replaceKey
        row.priority = Int64(draft.priority)
        row.timeAt = time
        row.bootTimes = times.bootTimes
        (row.startUptime, row.expiryUptime) = (times.bootTimes.start, times.bootTimes.expiry)
        if times.bootTimes != BootTimes() { row.spanBoot = state.clock.boot }
        row.contentHash = row.hashOfContent(draft.body)
        row.stateHash = Row.hash(sequence, row.progress)
        return row
    }

    /// `isIndexed`: the row gets its index entries at once instead of in a later fold.
    func insertRow(_ row: Row, _ body: UnsafeRawBufferPointer, isIndexed: Bool) throws(QueueError) {
        guard !row.isPlain || body.count > Self.inlineBody else { return try insertPlain(row, body, isIndexed: isIndexed) }
        let statement = try database.statement(
            """
            INSERT INTO message(indexed, \(MessageColumn.self))
            VALUES(?\(number: MessageColumn.allCases.count + 1), \(parameters: MessageColumn.self))
            """)
        statement.bind(MessageColumn.count + 1, isIndexed)
        row.progress.bind(to: Fields(statement))
        try insert(row, body, statement)
    }

    /// Runs a statement that inserts a row. Returns false when the statement ignored the row because its id or sequence number exists.
    @discardableResult
    func insert(_ row: Row, _ body: UnsafeRawBufferPointer, _ statement: Statement) throws(QueueError) -> Bool {
        let fields = Fields<MessageColumn>(statement)
        try row.bind(to: fields)
        let isLarge = body.count > Self.inlineBody
        try fields.bind(.body, borrowing: isLarge ? nil : body)
        try statement.run()
        guard database.changes == 1 else { return false }
        if isLarge { try insertLarge(row.sequence, body) }
        return true
    }

    func insertLarge(_ sequence: Int64, _ body: UnsafeRawBufferPointer) throws(QueueError) {
        let statement = try database.statement("INSERT OR REPLACE INTO large_body(seq, body) VALUES(?1, ?2)")
        statement.bind(1, sequence)
        try statement.bind(2, borrowing: body)
        try statement.run()
    }

    /// Inserts a message into the history after all others, inside the caller's transaction, and returns its row.
    func record(_ draft: borrowing BorrowedDraft, now: Int64, random: UInt64) throws(QueueError) -> Row {
        let sequence = try state.takeSequence()
        let time = times.take(draft.time, at: sequence, now: now)
        let row = row(of: draft, at: sequence, time: time, isRecorded: true, DraftTimes(draft), now: now, random: random)
        try insert(row, draft.body)
        return row
    }

    /// Inserts an intact row unchanged, with its sequence number. Returns false when its id is already used.
    func insertSalvaged(_ row: Row) throws(QueueError) -> Bool {
        var row = row
        // An id that does not contain its sequence number can only be found by the index.
        row.isNamed = row.isNamed || MessageID.sequence(in: row.id) != row.sequence
        let statement = try database.statement(
            """
            INSERT OR IGNORE INTO message(indexed, \(MessageColumn.self)) VALUES(1, \(parameters: MessageColumn.self))
            """)
        row.progress.bind(to: Fields(statement))
        return try row.body.withBytes { bytes throws(QueueError) in try insert(row, bytes, statement) }
    }

    func deleteLarge(_ sequence: Int64) throws(QueueError) {
        let statement = try database.statement("DELETE FROM large_body WHERE seq = ?1")
        statement.bind(1, sequence)
        try statement.run()
    }
}
