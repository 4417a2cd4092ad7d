/// The order of messages by their own times.
///
/// Rows with `time_at` = 0 are *plain*: their time is `created_at`, and no plain row before them was created later, so that their order by
/// time is that of their sequence numbers. The others are in the indexes `message_time` and `message_time_in`. From `state.timed_from` on there
/// are no plain rows, so that a page by time reads past few rows of the other kind.
final class TimeIndex {
    private let database: Database
    private let state: StateRow
    /// Some message may have a `time_at`.
    private(set) var hasTimes = false
    /// No message with a `time_at` of 0 was created later. Not used when there is a `timedFrom`.
    private var latestPlain = Int64.min
    /// Conversations whose newest message by time `writeNewest` determines.
    private var changed: Set<Name> = []

    init(_ database: Database, _ state: StateRow) { (self.database, self.state) = (database, state) }

    func rollback() { changed = [] }

    /// The newest message of this conversation may be another one.
    func noteChange(of conversation: Name) { if hasTimes { changed.insert(conversation) } }

    /// So many rows out of order get a `time_at` alone; if there are more, all rows get one.
    private static let mostDisplaced = 1_000
    /// So many plain rows get a `time_at` when one before them gets a time of its own.
    private static let extended: Int64 = 32

    /// Returns the `time_at` of a new row. `given`: the time of its draft; 0: none.
    func take(_ given: Int64, at sequence: Int64, now: Int64) -> Int64 {
        if state.timedFrom == nil {
            switch TimeOrder.place(given: given, now: now, latest: latestPlain) {
            case .plain:
                latestPlain = now
                return 0
            case .displaced: break
            case .timed: state.timedFrom = sequence
            }
        }
        hasTimes = true
        return given != 0 ? given : max(now, 1)
    }

    /// The same for a row that replaces the one with this sequence number.
    func take(_ given: Int64, inPlaceOf sequence: Int64, now: Int64) -> Int64 {
        if sequence == state.lastSequence, state.timedFrom == nil { return take(given, at: sequence, now: now) }
        if state.timedFrom == nil { state.timedFrom = state.lastSequence + 1 }
        hasTimes = true
        return given != 0 ? given : max(now, 1)
    }

    /// Gives the last plain rows a `time_at`. Called for each row before them that gets a time of its own, so that the plain rows come to an
    /// end before pages by time read past many others among them.
    func extend() throws(QueueError) {
        guard let end = state.timedFrom else { return }
        let plain = try database.statement(
            "SELECT seq, conversation FROM message NOT INDEXED WHERE seq < ?1 AND time_at = 0 ORDER BY seq DESC LIMIT ?2")
        plain.bind(1, end)
        plain.bind(2, Self.extended)
        var first: Int64 = 1
        try plain.forEach { () throws(QueueError) in
            first = plain.int(0)
            changed.insert(Name(plain.text(1)))
            return true
        }
        let update = try database.statement("UPDATE message SET time_at = max(created_at, 1) WHERE seq >= ?1 AND seq < ?2 AND time_at = 0")
        update.bind(1, first)
        update.bind(2, end)
        try update.run()
        state.timedFrom = first
    }

    /// Reads whether there are rows in the indexes by time, and the time of the last plain row.
    func read() throws(QueueError) {
        let timed = try database.statement(
            """
            SELECT EXISTS (SELECT 1 FROM message INDEXED BY message_time WHERE indexed = 1 AND time_at != 0)
              OR EXISTS (SELECT 1 FROM message NOT INDEXED WHERE seq > ?1 AND time_at != 0)
            """)
        timed.bind(1, state.foldedThrough)
        let hasEntries = try timed.first { () throws(QueueError) in timed.bool(0) } ?? false
        hasTimes = hasEntries || state.timedFrom != nil
        guard state.timedFrom == nil else { return }
        let last = try database.statement("SELECT created_at FROM message NOT INDEXED WHERE time_at = 0 ORDER BY seq DESC LIMIT 1")
        latestPlain = try last.first { () throws(QueueError) in last.int(0) } ?? Int64.min
    }

    /// Gives each row that is out of order a `time_at`, inside the caller's transaction. The rows of earlier layouts have none, and the wall
    /// clock may have been set back between two of them.
    func arrange() throws(QueueError) {
        var (latest, lastPlain, lastTimed) = (Int64.min, Int64(0), Int64(0))
        var displaced: [Int64] = []
        let rows = try database.statement("SELECT seq, created_at, time_at FROM message NOT INDEXED ORDER BY seq")
        try rows.forEach { () throws(QueueError) in
            if rows.int(2) != 0 {
                lastTimed = rows.int(0)
            } else if rows.int(1) < latest {
                displaced.append(rows.int(0))
            } else {
                (latest, lastPlain) = (rows.int(1), rows.int(0))
            }
            return displaced.count <= Self.mostDisplaced
        }
        if displaced.count > Self.mostDisplaced {
            try database.execute("UPDATE message SET time_at = max(created_at, 1) WHERE time_at = 0")
            state.timedFrom = 1
        } else {
            let update = try database.statement("UPDATE message SET time_at = max(created_at, 1) WHERE seq = ?1")
            for sequence in displaced {
                update.bind(1, sequence)
                try update.run()
            }
            state.timedFrom = lastTimed > lastPlain ? lastPlain + 1 : nil
        }
        try read()
        if hasTimes { try rereadNewest() }
    }

    // MARK: The newest message of each conversation

    /// Determines the newest message by time of all conversations with rows in the indexes.
    func rereadNewest() throws(QueueError) {
        let names = try database.statement(
            "SELECT DISTINCT conversation FROM message INDEXED BY message_time_in WHERE indexed = 1 AND time_at != 0")
        try names.forEach { () throws(QueueError) in
            changed.insert(Name(names.text(0)))
            return true
        }
        let others = try database.statement("SELECT name FROM conversation INDEXED BY conversation_time WHERE last_time != 0")
        try others.forEach { () throws(QueueError) in
            changed.insert(Name(others.text(0)))
            return true
        }
    }

    /// Notes the rows that a fold adds, which are those after `first`.
    func noteFolded(after first: Int64) throws(QueueError) {
        guard hasTimes else { return }
        let rows = try database.statement(
            """
            SELECT m.conversation, max(m.time_at != 0), ifnull(c.last_time, 0) FROM message AS m NOT INDEXED
            LEFT JOIN conversation AS c ON c.name = m.conversation WHERE m.seq > ?1 GROUP BY m.conversation
            """)
        rows.bind(1, first)
        try rows.forEach { () throws(QueueError) in
            if rows.bool(1) || rows.int(2) != 0 { changed.insert(Name(rows.text(0))) }
            return true
        }
    }

    /// Writes the newest messages by time of the conversations in `changed`.
    func writeNewest() throws(QueueError) {
        guard !changed.isEmpty else { return }
        let names = changed
        changed.removeAll(keepingCapacity: true)
        let mask: SQL = "\(number: TimePlace.proofMask)"
        let update = try database.statement(
            """
            UPDATE conversation SET last_time = ?2, time_seq = ?3,
              proof = proof + 31 * ((?2 & \(mask)) - (last_time & \(mask))) + 37 * (?3 - time_seq)
            WHERE name = ?1 AND (last_time != ?2 OR time_seq != ?3)
            """)
        for name in names {
            let newest = try newest(in: name) ?? TimePlace(0, 0)
            try update.bind(1, name.text)
            update.bind(2, newest.time)
            update.bind(3, newest.sequence)
            try update.run()
        }
    }

    /// Returns the newest folded message of a conversation by time; nil: no row of it is in the index.
    func newest(in conversation: Name) throws(QueueError) -> TimePlace? {
        let timed = try database.statement(Self.newestOfEachStatus)
        try timed.bind(1, conversation.text)
        var newest: TimePlace?
        try timed.forEach { () throws(QueueError) in
            let place = TimePlace(timed.int(0), timed.int(1))
            newest = max(newest ?? place, place)
            return true
        }
        guard let newest else { return nil }
        return max(newest, try newestPlain(in: conversation) ?? newest)
    }

    private static let newestOfEachStatus: SQL = StoredStatus.allCases.dropFirst().reduce(newest(with: .queued)) {
        "\($0) UNION ALL \(newest(with: $1))"
    }

    private static func newest(with status: StoredStatus) -> SQL {
        """
        SELECT * FROM (SELECT time_at, seq FROM message INDEXED BY message_time_in
          WHERE indexed = 1 AND time_at != 0 AND conversation = ?1 AND status = \(status) ORDER BY time_at DESC, seq DESC LIMIT 1)
        """
    }

    /// Returns the last plain folded row of a conversation.
    private func newestPlain(in conversation: Name) throws(QueueError) -> TimePlace? {
        let plain = try database.statement(
            """
            SELECT created_at, seq FROM message INDEXED BY message_conversation
            WHERE indexed = 1 AND conversation = ?1 AND seq < ?2 AND time_at = 0 ORDER BY seq DESC LIMIT 1
            """)
        try plain.bind(1, conversation.text)
        plain.bind(2, plainEnd)
        return try plain.first { () throws(QueueError) in TimePlace(plain.int(0), plain.int(1)) }
    }

    /// All plain rows have lower sequence numbers.
    var plainEnd: Int64 { state.timedFrom ?? Int64.max }

    /// Returns the place of the message with this sequence number; nil: there is none.
    func place(of sequence: Int64) throws(QueueError) -> (place: TimePlace, isPlain: Bool)? {
        let row = try database.statement("SELECT created_at, time_at FROM message WHERE seq = ?1")
        row.bind(1, sequence)
        return try row.first { () throws(QueueError) in
            let isPlain = row.int(1) == 0
            return (TimePlace(isPlain ? row.int(0) : row.int(1), sequence), isPlain)
        }
    }

    /// Returns the sequence number of the first plain row that is not before a place; `plainEnd`: there is none. Plain rows are in order.
    func firstPlain(from place: TimePlace) throws(QueueError) -> Int64 {
        let next = try database.statement(
            "SELECT seq, created_at FROM message NOT INDEXED WHERE seq >= ?1 AND seq < ?2 AND time_at = 0 ORDER BY seq LIMIT 1")
        var (low, high, found) = (Int64(1), min(plainEnd, state.nextSequence), plainEnd)
        while low < high {
            let middle = low + (high - low) / 2
            next.bind(1, middle)
            next.bind(2, high)
            let row = try next.first { () throws(QueueError) in TimePlace(next.int(1), next.int(0)) }
            if let row, row < place {
                low = row.sequence + 1
            } else {
                if let row { found = row.sequence }
                high = middle
            }
        }
        return found
    }
}
