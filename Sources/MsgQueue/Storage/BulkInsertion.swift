/// The insertion of many messages in one transaction: with their index entries at once instead of in a later fold, with one update of the
/// counts for each conversation, and with one statement for several rows.
struct BulkInsertion {
    /// The number of rows that one statement inserts.
    static let rowsPerStatement = 64

    /// Per conversation: what its counts increase by, and its newest message.
    private var conversations: [Name: (counts: Counts, last: Int64)] = [:]
    /// The conversation of the last rows, what its counts increase by and its newest message: not in `conversations` yet.
    private var current: (name: Name, counts: Counts, last: Int64)?
    /// Rows to be inserted by the next statement. Their bodies stay in the caller's memory until the transaction ends.
    fileprivate var waiting: [(row: Row, body: UnsafeRawBufferPointer)] = []
    /// There are recorded messages among the rows, which need entries in the index of the history.
    fileprivate private(set) var hasHistory = false

    fileprivate mutating func count(_ row: Row, _ delta: Counts) {
        if row.progress.status != .queued { hasHistory = true }
        if current?.name != row.conversation {
            endCurrent()
            current = (row.conversation, Counts(), 0)
        }
        current?.counts += delta
        current?.last = row.sequence
    }

    private mutating func endCurrent() {
        guard let current else { return }
        conversations[current.name, default: (Counts(), 0)].counts += current.counts
        conversations[current.name]?.last = current.last
    }

    /// Returns what was counted for each conversation.
    fileprivate mutating func counted() -> [Name: (counts: Counts, last: Int64)] {
        endCurrent()
        current = nil
        return conversations
    }
}

extension MessageInsertion {
    /// A transaction with at least so many messages inserts them in bulk.
    static let bulkThreshold = 64

    /// From now until `endBulk` or the end of the transaction, `insert` inserts in bulk. Inside the caller's transaction.
    func beginBulk() throws(QueueError) {
        try counts.fold()
        bulk = BulkInsertion()
    }

    /// Adds a row that belongs to a bulk insertion.
    func insertInBulk(_ row: Row, _ body: UnsafeRawBufferPointer, _ delta: Counts) throws(QueueError) {
        counts.countIndexed(row, delta)
        bulk?.count(row, delta)
        guard row.isPlain, body.count <= Self.inlineBody else {
            unsentSums.note(from: nil, to: row)
            try insertWaiting()
            return try insertRow(row, body, isIndexed: true)
        }
        bulk?.waiting.append((row, body))
        if bulk?.waiting.count == BulkInsertion.rowsPerStatement { try insertWaiting() }
    }

    /// Inserts what is waiting, and updates the counts of the conversations.
    func endBulk() throws(QueueError) {
        guard bulk != nil else { return }
        try insertWaiting()
        let conversations = bulk?.counted() ?? [:]
        if bulk?.hasHistory ?? false { try history.add(after: state.foldedThrough, through: state.nextSequence - 1) }
        bulk = nil
        for (conversation, (counts, last)) in conversations { try self.counts.add(counts, last: last, to: conversation) }
        state.foldedThrough = state.nextSequence - 1
    }

    /// Ends the bulk insertion and begins another one, so that the rows after `sequence` can be changed.
    func settleBulk(from sequence: Int64) throws(QueueError) {
        guard bulk != nil, sequence > state.foldedThrough else { return }
        try endBulk()
        bulk = BulkInsertion()
    }

    private func insertWaiting() throws(QueueError) {
        guard let waiting = bulk?.waiting, !waiting.isEmpty else { return }
        bulk?.waiting.removeAll(keepingCapacity: true)
        guard waiting.count == BulkInsertion.rowsPerStatement else {
            for (row, body) in waiting { try insertPlain(row, body, isIndexed: true) }
            return
        }
        try insertPlain(
            waiting, isIndexed: true,
            try database.statement(
                """
                INSERT INTO message(indexed, \(names: MessageColumn.plain + MessageColumn.zeroInPlain))
                SELECT ?\(number: MessageColumn.plain.count * BulkInsertion.rowsPerStatement + 1), *, \(zeros: MessageColumn.zeroInPlain)
                FROM (VALUES \(rows: BulkInsertion.rowsPerStatement, of: MessageColumn.plain))
                """))
    }

    /// Inserts a row of which only the columns `MessageColumn.plain` differ from those of every plain new message.
    func insertPlain(_ row: Row, _ body: UnsafeRawBufferPointer, isIndexed: Bool) throws(QueueError) {
        let statement = try database.statement(
            """
            INSERT INTO message(\(names: MessageColumn.plain), indexed, \(names: MessageColumn.zeroInPlain))
            VALUES(\(first: MessageColumn.plain.count + 1), \(zeros: MessageColumn.zeroInPlain))
            """)
        var (id, conversation) = (row.id, row.conversation.text)
        try id.withBytes { id throws(QueueError) in
            try conversation.withBytes { conversation throws(QueueError) in
                try row.bindPlain(to: statement, 1, id: id, conversation, body)
                statement.bind(Int32(MessageColumn.plain.count) + 1, isIndexed)
                try statement.run()
            }
        }
    }

    private func insertPlain(
        _ rows: [(row: Row, body: UnsafeRawBufferPointer)], isIndexed: Bool, _ statement: Statement
    ) throws(QueueError) {
        // All texts in one piece of memory, so that SQLite need not copy each of them.
        var texts: [UInt8] = []
        texts.reserveCapacity(rows.reduce(0) { $0 + $1.row.id.utf8.count + $1.row.conversation.text.utf8.count })
        for (row, _) in rows {
            texts += row.id.utf8
            texts += row.conversation.text.utf8
        }
        try texts.withBytes { texts throws(QueueError) in
            var (first, left): (Int32, Slice<UnsafeRawBufferPointer>) = (1, texts[...])
            func take(_ count: Int) -> UnsafeRawBufferPointer {
                defer { left = left.dropFirst(count) }
                return UnsafeRawBufferPointer(rebasing: left.prefix(count))
            }
            for (row, body) in rows {
                let id = take(row.id.utf8.count)
                try row.bindPlain(to: statement, first, id: id, take(row.conversation.text.utf8.count), body)
                first += Int32(MessageColumn.plain.count)
            }
            statement.bind(first, isIndexed)
            try statement.run()
        }
    }
}

extension String {
    /// `withUTF8` with typed throws.
    fileprivate mutating func withBytes(_ body: (UnsafeRawBufferPointer) throws(QueueError) -> Void) throws(QueueError) {
        let result = withUTF8 { bytes -> Result<Void, QueueError> in
            do throws(QueueError) { return .success(try body(UnsafeRawBufferPointer(bytes))) } catch { return .failure(error) }
        }
        try result.get()
    }
}

extension Row {
    /// Whether the row differs from every other plain new message only in the columns `MessageColumn.plain`.
    var isPlain: Bool {
        !isNamed && progress.status == .queued && metadataText == nil && notBefore == 0 && expiresAt == 0 && !unmeteredOnly && priority == 0
            && replaceKey == nil && timeAt == 0 && spanBoot == 0 && startUptime == 0 && expiryUptime == 0
    }

    /// Binds the columns `MessageColumn.plain` to the parameters from `first` on. The bytes must stay valid until the statement has run.
    fileprivate func bindPlain(
        to statement: Statement, _ first: Int32, id: UnsafeRawBufferPointer, _ conversation: UnsafeRawBufferPointer,
        _ body: UnsafeRawBufferPointer
    ) throws(QueueError) {
        for (parameter, column) in zip(first..., MessageColumn.plain) {
            switch column {
            case .seq: statement.bind(parameter, sequence)
            case .id: try statement.bind(parameter, borrowing: id.assumingMemoryBound(to: UInt8.self))
            case .conversation: try statement.bind(parameter, borrowing: conversation.assumingMemoryBound(to: UInt8.self))
            case .createdAt: statement.bind(parameter, createdAt)
            case .stateHash: statement.bind(parameter, stateHash)
            case .contentHash: statement.bind(parameter, contentHash)
            case .bodySize: statement.bind(parameter, bodySize)
            default: try statement.bind(parameter, borrowing: body)
            }
        }
    }
}
