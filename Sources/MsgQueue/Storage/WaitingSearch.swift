/// Counts the queued messages that wait for a time, in steps: their number is that of entries of an index. Those that are being sent do not
/// wait.
struct WaitingSearch {
    enum Wait: Sendable, Equatable {
        /// For `not_before`.
        case scheduled
        /// For the next attempt after a retryable failure. `withScheduled`: also those that wait for `not_before` as well, so that the index
        /// alone is read.
        case retrying(withScheduled: Bool)
    }

    /// The number of entries that one step reads: a few milliseconds.
    private static let step: Int64 = 5_000

    private let wait: Wait
    /// Messages of these conversations are not counted.
    private let excluded: Set<Name>
    private let now: Int64
    /// The last entry that was read.
    private var (time, sequence): (Int64, Int64)
    private(set) var count: Int64 = 0
    /// The first time that one of them waits for; 0: there is none.
    private(set) var first: Int64 = 0

    /// Counts those that wait for a time after `now`.
    init(_ wait: Wait, after now: Int64, excluding excluded: Set<Name>) {
        (self.wait, self.excluded, self.now) = (wait, excluded, now)
        (time, sequence) = (now, Int64.max)
    }

    /// Runs one step. Returns false when all were counted.
    mutating func step(_ queue: QueueIndex) throws(QueueError) -> Bool {
        let statement =
            switch (wait, excluded.isEmpty) {
            case (.scheduled, true): try queue.database.statement(Self.count("not_before", "message_deferred"))
            case (.retrying(withScheduled: true), true): try queue.database.statement(Self.count("due_at", "message_due"))
            case (.scheduled, false): try queue.database.statement(Self.entries("not_before", "message_deferred", "true"))
            case (.retrying, _): try queue.database.statement(Self.entries("due_at", "message_due", "not_before <= ?4"))
            }
        statement.bind(1, time)
        guard isInSteps else {
            (count, first) = try statement.first { () throws(QueueError) in (statement.int(0), statement.int(1)) } ?? (0, 0)
            return false
        }
        statement.bind(2, sequence)
        statement.bind(3, Self.step)
        if wait != .scheduled { statement.bind(4, now) }
        var read: Int64 = 0
        try statement.forEach { () throws(QueueError) in
            read += 1
            (time, sequence) = (statement.int(0), statement.int(1))
            if statement.bool(3), !excluded.contains(Name(statement.text(2))) {
                count += 1
                if first == 0 { first = time }
            }
            return true
        }
        return read == Self.step
    }

    private var isInSteps: Bool { !excluded.isEmpty || wait == .retrying(withScheduled: false) }

    private static func condition(_ time: SQL, _ index: SQL) -> SQL {
        """
        FROM message INDEXED BY \(index)
        WHERE \(time) != 0 AND status = \(.queued) AND seq NOT IN (SELECT seq FROM in_flight) AND \(time)
        """
    }

    /// The index alone is read.
    private static func count(_ time: SQL, _ index: SQL) -> SQL { "SELECT count(*), min(\(time)) \(condition(time, index)) > ?1" }

    private static func entries(_ time: SQL, _ index: SQL, _ counts: SQL) -> SQL {
        """
        SELECT \(time), seq, conversation, \(counts) \(condition(time, index)) = ?1 AND seq > ?2
        UNION ALL SELECT \(time), seq, conversation, \(counts) \(condition(time, index)) > ?1 ORDER BY 1, 2 LIMIT ?3
        """
    }
}
