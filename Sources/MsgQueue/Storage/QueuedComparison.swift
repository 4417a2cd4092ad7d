/// A comparison of the two indexes of queued messages with each other and with the counts, made in steps while messages come and go. A
/// message that is missing from one of them might never be sent.
///
/// Both indexes are read once, one behind the other; changes to the part that was read already are added as they happen. Only rows that
/// were folded when it began are compared: what is put into the indexes later is known to be whole.
struct QueuedComparison {
    private enum Stage { case waiting, queued, done }

    /// Number of entries, and the sum of their sequence numbers, which may overflow.
    private struct Sum: Equatable {
        var count: Int64 = 0
        var sequences: Int64 = 0

        mutating func add(_ sequence: Int64, _ amount: Int64) {
            count &+= amount
            sequences &+= amount &* sequence
        }
    }

    private var stage = Stage.waiting
    /// Rows up to this one are compared.
    private let end: Int64
    private var waitingCursor: (conversation: String, sequence: Int64) = ("", 0)
    private var queuedCursor: Int64 = 0
    private var (waiting, queued) = (Sum(), Sum())
    /// Queued messages up to `end`, as they are counted.
    private var counted: Int64

    var isDone: Bool { stage == .done }

    init(through end: Int64, counted: Int64) {
        self.end = end
        self.counted = counted
    }

    /// A message came into the queued ones or left them.
    mutating func changed(_ sequence: Int64, _ conversation: Name, by amount: Int64) {
        guard amount != 0, sequence <= end, !isDone else { return }
        counted &+= amount
        if stage != .waiting || isBehind(sequence, conversation.text) { waiting.add(sequence, amount) }
        if sequence <= queuedCursor { queued.add(sequence, amount) }
    }

    private func isBehind(_ sequence: Int64, _ conversation: String) -> Bool {
        let place = waitingCursor
        guard conversation != place.conversation else { return sequence <= place.sequence }
        // As SQLite compares text.
        return conversation.utf8.lexicographicallyPrecedes(place.conversation.utf8)
    }

    /// Everything was made anew from the messages.
    mutating func finish() { stage = .done }

    /// Reads so many entries. False: the indexes do not fit.
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
        let statement = try database.statement(
            """
            SELECT conversation, seq FROM message INDEXED BY message_waiting
            WHERE indexed = 1 AND status = \(.queued) AND (conversation, seq) > (?1, ?2) ORDER BY conversation, seq LIMIT ?3
            """)
        try statement.bind(1, waitingCursor.conversation)
        statement.bind(2, waitingCursor.sequence)
        statement.bind(3, limit)
        var (found, place) = (Int64(0), waitingCursor)
        var sum = waiting
        try statement.forEach { () throws(QueueError) in
            found += 1
            place.sequence = statement.int(1)
            if found == limit { place.conversation = statement.text(0) }
            if place.sequence <= end { sum.add(place.sequence, 1) }
            return true
        }
        (waiting, waitingCursor) = (sum, place)
        return found
    }

    private mutating func readQueued(_ database: Database, _ limit: Int64) throws(QueueError) -> Int64 {
        let statement = try database.statement(
            """
            SELECT seq FROM message INDEXED BY message_queued WHERE indexed = 1 AND status = \(.queued) AND seq > ?1 AND seq <= ?2
            ORDER BY seq LIMIT ?3
            """)
        statement.bind(1, queuedCursor)
        statement.bind(2, end)
        statement.bind(3, limit)
        var found: Int64 = 0
        var (sum, place) = (queued, queuedCursor)
        try statement.forEach { () throws(QueueError) in
            found += 1
            place = statement.int(0)
            sum.add(place, 1)
            return true
        }
        (queued, queuedCursor) = (sum, found < limit ? end : place)
        return found
    }
}
