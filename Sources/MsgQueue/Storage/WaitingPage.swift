/// A page of the queued messages that wait for a time, in the order of these times, which is read in steps.
struct WaitingPage {
    /// The number of entries that one step reads: a few milliseconds.
    private static let step: Int64 = 5_000
    /// A step ends after bodies of so many bytes.
    private static let bytes = 1 << 20

    private var filter: Filter
    private let now: Int64
    /// Messages of these conversations are left out; nil: all.
    private let excluded: Set<Name>?
    /// The last entry that was read.
    private var place: TimePlace
    private(set) var rows: [Row] = []

    /// Reads those that wait for a time after `now`.
    init(_ filter: Filter, after now: Int64, excluding excluded: Set<Name>?) {
        (self.filter, self.now, self.excluded) = (filter, now, excluded)
        self.filter.statuses = StatusSet(.queued)
        let first = TimePlace(now, Int64.max)
        place = filter.newestFirst ? filter.timePlace ?? .end : max(filter.timePlace ?? first, first)
    }

    /// Runs one step. Returns false when the page is complete.
    mutating func step(_ pages: MessagePages, sending: Set<Int64>, damaged: (QueueError) -> Void) throws(QueueError) -> Bool {
        guard let excluded else { return false }
        let statement = try statement(pages.database)
        statement.bind(1, place.time)
        statement.bind(2, place.sequence)
        statement.bind(3, Self.step)
        statement.bind(4, now)
        var (read, found, last) = (Int64(0), [TimePlace](), place)
        let room = filter.limit - rows.count
        try statement.forEach { () throws(QueueError) in
            read += 1
            last = TimePlace(statement.int(0), statement.int(1))
            if !sending.contains(last.sequence), !excluded.contains(Name(statement.text(2))) { found.append(last) }
            return found.count < room
        }
        let part = try pages.rows(found[...], filter, sending: [], mayDiffer: true, bytes: Self.bytes, damaged: damaged)
        let isCut = part.map { $0.read < found.count } ?? false
        place = isCut ? found[..<(part?.read ?? 0)].last ?? last : last
        // One that waits for `not_before`, too, is scheduled.
        let isScheduled = filter.waitingFor == .scheduled
        rows += (part?.rows ?? []).filter { isScheduled || $0.notBefore <= now }
        return rows.count < filter.limit && (isCut || read == Self.step || found.count == room)
    }

    private func statement(_ database: Database) throws(QueueError) -> Statement {
        switch (filter.waitingFor == .scheduled, filter.newestFirst) {
        case (true, false): try database.statement(Self.entries("not_before", "message_deferred", newestFirst: false))
        case (true, true): try database.statement(Self.entries("not_before", "message_deferred", newestFirst: true))
        case (false, false): try database.statement(Self.entries("due_at", "message_due", newestFirst: false))
        case (false, true): try database.statement(Self.entries("due_at", "message_due", newestFirst: true))
        }
    }

    private static func entries(_ time: SQL, _ index: SQL, newestFirst: Bool) -> SQL {
        let (follows, order): (SQL, SQL) = newestFirst ? ("<", "1 DESC, 2 DESC") : (">", "1, 2")
        let source: SQL = """
            SELECT \(time), seq, conversation FROM message INDEXED BY \(index)
            WHERE \(time) != 0 AND status = \(.queued) AND \(time) > ?4 AND
            """
        return """
            \(source) \(time) = ?1 AND seq \(follows) ?2
            UNION ALL \(source) \(time) \(follows) ?1 ORDER BY \(order) LIMIT ?3
            """
    }
}
