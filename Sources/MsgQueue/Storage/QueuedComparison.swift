/// Compares the two indexes of queued messages with each other and with the counts, in steps, while messages are added and removed. A
/// message that is missing from an index might never be sent.
///
/// The indexes are read once, one after the other. Changes to the part that was already read are added as they happen. Only rows that were
/// folded at the start are compared: entries that this session adds later need no check.
struct QueuedComparison {
    private enum Stage { case waiting, queued, done }

    /// The number of entries, and the sum of their sequence numbers modulo 2^64.
    private struct Sum: Equatable {
        var count: Int64 = 0
        var sequences: Int64 = 0

        mutating func add(_ sequence: Int64, _ amount: Int64) {
            count &+= amount
            sequences &+= amount &* sequence
        }
    }

    private var stage = Stage.waiting
    /// The last sequence number that is compared.
    private let end: Int64
    private var waitingCursor: (conversation: String, sequence: Int64) = ("", 0)
    private var queuedCursor: Int64 = 0
    private var (waiting, queued) = (Sum(), Sum())
    /// The number of queued messages up to `end`, by the counts.
    private var counted: Int64

    var isDone: Bool { stage == .done }

    init(through end: Int64, counted: Int64) {
        self.end = end
        self.counted = counted
        if end == 0 { stage = .done }
    }

    /// Applies a change of the index entries: `amount` is 1 when the message became queued, -1 when it ceased to be.
    mutating func changed(_ sequence: Int64, _ conversation: Name, by amount: Int64) {
        guard amount != 0, sequence <= end, !isDone else { return }
        counted &+= amount
        if stage != .waiting || isRead(sequence, conversation.text) { waiting.add(sequence, amount) }
        if sequence <= queuedCursor { queued.add(sequence, amount) }
    }

    /// Whether the entry is in the part of `message_waiting` that was already read.
    private func isRead(_ sequence: Int64, _ conversation: String) -> Bool {
        let cursor = waitingCursor
        guard conversation != cursor.conversation else { return sequence <= cursor.sequence }
        // SQLite compares text by its bytes.
        return conversation.utf8.lexicographicallyPrecedes(cursor.conversation.utf8)
    }

    /// Ends the comparison, because the indexes were rebuilt from the messages.
    mutating func finish() { stage = .done }

    /// Reads at most `limit` entries. Returns false when the indexes do not agree.
    mutating func step(_ database: Database, limit: Int64) throws(QueueError) -> Bool {
        switch stage {
        case .waiting:
            if try readWaiting(database, limit) < limit { stage = .queued }
            return true
        case .queued:
            guard try readQueued(database, limit) < limit else { return true }
            stage = .done
            return waiting == queued && queued.count == counted
        case .done: return true
        }
    }

    private mutating func readWaiting(_ database: Database, _ limit: Int64) throws(QueueError) -> Int64 {
        // In two parts: for `(conversation, seq) > (?1, ?2)` SQLite would read the conversation from its start, because `seq` is the rowid.
        let statement = try database.statement(
            """
            SELECT conversation, seq FROM message INDEXED BY message_waiting
            WHERE indexed = 1 AND status = \(.queued) AND conversation = ?1 AND seq > ?2
            UNION ALL SELECT conversation, seq FROM message INDEXED BY message_waiting
            WHERE indexed = 1 AND status = \(.queued) AND conversation > ?1 ORDER BY 1, 2 LIMIT ?3
            """)
        try statement.bind(1, waitingCursor.conversation)
        statement.bind(2, waitingCursor.sequence)
        statement.bind(3, limit)
        var (found, cursor) = (Int64(0), waitingCursor)
        var sum = waiting
        try statement.forEach { () throws(QueueError) in
            found += 1
            cursor.sequence = statement.int(1)
            if found == limit { cursor.conversation = statement.text(0) }
            if cursor.sequence <= end { sum.add(cursor.sequence, 1) }
            return true
        }
        // The rest of the conversation is newer, too.
        if found == limit, cursor.sequence > end { cursor.sequence = .max }
        (waiting, waitingCursor) = (sum, cursor)
        return found
    }

    private mutating func readQueued(_ database: Database, _ limit: Int64) throws(QueueError) -> Int64 {
        let statement = try database.statement(
            """
            \(QueueIndex.ordered("seq", "seq > ?1 AND seq <= ?2")) ORDER BY seq LIMIT ?3
            """)
        statement.bind(1, queuedCursor)
        statement.bind(2, end)
        statement.bind(3, limit)
        var found: Int64 = 0
        var (sum, cursor) = (queued, queuedCursor)
        try statement.forEach { () throws(QueueError) in
            found += 1
            cursor = statement.int(0)
            sum.add(cursor, 1)
            return true
        }
        (queued, queuedCursor) = (sum, found < limit ? end : cursor)
        return found
    }
}
