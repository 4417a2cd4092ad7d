/// The pages by time. They merge the rows in the indexes by time, the plain rows, whose order is that of their sequence numbers, and the rows
/// that are not folded.
extension PageQuery {
    /// Whether a place belongs to the page, if the page is long enough.
    private func isAfterCursor(_ place: TimePlace) -> Bool {
        guard let cursor = filter.timePlace else { return true }
        return filter.newestFirst ? place < cursor : place > cursor
    }

    /// Returns nil when an index has an entry for a message that is gone, unless `mayDiffer`.
    func placesByTime(mayDiffer: Bool = false) throws(QueueError) -> [TimePlace]? {
        guard var places = try plainPlaces(mayDiffer) else { return nil }
        if pages.times.hasTimes {
            places += try timedPlaces()
            places += try unfoldedPlaces()
        }
        places.sort(by: filter.newestFirst ? { $0 > $1 } : { $0 < $1 })
        return Array(places.prefix(filter.limit))
    }

    /// Returns the first plain rows after the cursor; nil: an index has an entry for a message that is gone.
    private func plainPlaces(_ mayDiffer: Bool) throws(QueueError) -> [TimePlace]? {
        var page = filter
        (page.order, page.afterTime) = (.sequence, 0)
        page.after = try plainCursor()
        guard !filter.newestFirst || page.after > 1 else { return [] }
        var places: [TimePlace] = []
        while true {
            let sequences = try PageQuery(page, sending, pages, only: only).sequences()
            for sequence in sequences {
                guard sequence < pages.times.plainEnd else { return places }
                guard let (place, isPlain) = try pages.times.place(of: sequence) else {
                    guard mayDiffer else { return nil }
                    continue
                }
                if isPlain { places.append(place) }
                if places.count == filter.limit { return places }
            }
            guard sequences.count == filter.limit, let last = sequences.last else { return places }
            page.after = last
        }
    }

    /// Returns the sequence number after which the plain rows of the page begin, or before it, if newest first.
    private func plainCursor() throws(QueueError) -> Int64 {
        guard let cursor = filter.timePlace else { return filter.newestFirst ? pages.times.plainEnd : 0 }
        // The time of a damaged row may be anything. With its sequence number the pages come to an end.
        if let (_, isPlain) = try pages.times.place(of: cursor.sequence), isPlain { return cursor.sequence }
        if filter.newestFirst { return try pages.times.firstPlain(from: cursor) }
        return try pages.times.firstPlain(from: TimePlace(cursor.time, cursor.sequence.addingClamped(1))) - 1
    }

    /// Returns the first rows after the cursor in an index by time.
    private func timedPlaces() throws(QueueError) -> [TimePlace] {
        let statement: Statement
        switch (filter.conversation != nil, filter.newestFirst) {
        case (true, true): statement = try pages.database.statement(Self.byTime(inConversation: true, newestFirst: true))
        case (true, false): statement = try pages.database.statement(Self.byTime(inConversation: true, newestFirst: false))
        case (false, true): statement = try pages.database.statement(Self.byTime(inConversation: false, newestFirst: true))
        case (false, false): statement = try pages.database.statement(Self.byTime(inConversation: false, newestFirst: false))
        }
        let cursor = filter.timePlace ?? (filter.newestFirst ? .end : .start)
        statement.bind(1, cursor.time)
        statement.bind(2, cursor.sequence)
        statement.bind(3, mask)
        if let conversation = filter.conversation { try statement.bind(4, conversation) }
        var places: [TimePlace] = []
        try statement.forEach { () throws(QueueError) in
            let place = TimePlace(statement.int(0), statement.int(1))
            if isWanted(statement.int(2), place.sequence) { places.append(place) }
            return places.count < filter.limit
        }
        return places
    }

    /// Returns the rows with a `time_at` that are in no index.
    private func unfoldedPlaces() throws(QueueError) -> [TimePlace] {
        let statement = try pages.database.statement(
            """
            SELECT time_at, seq, status FROM message NOT INDEXED
            WHERE seq > ?1 AND time_at != 0 AND (?4 IS NULL OR conversation = ?4) AND \(Self.statusBit) & ?3
            """)
        statement.bind(1, pages.state.foldedThrough)
        statement.bind(3, mask)
        try statement.bind(4, filter.conversation)
        var places: [TimePlace] = []
        try statement.forEach { () throws(QueueError) in
            let place = TimePlace(statement.int(0), statement.int(1))
            if isAfterCursor(place), isWanted(statement.int(2), place.sequence) { places.append(place) }
            return true
        }
        return places
    }

    /// Merges the entries of the wanted statuses. SQLite uses only the first column of `(time_at, seq) < (?1, ?2)`, so that each has two parts.
    private static func byTime(inConversation: Bool, newestFirst: Bool) -> SQL {
        let source: SQL = inConversation ? "message_time_in WHERE conversation = ?4 AND" : "message_time WHERE"
        let (places, order): ([SQL], SQL) =
            newestFirst
            ? (["time_at = ?1 AND seq < ?2", "time_at < ?1"], "1 DESC, 2 DESC") : (["time_at = ?1 AND seq > ?2", "time_at > ?1"], "1, 2")
        var sql: SQL?
        for status in StoredStatus.allCases {
            for place in places {
                let part: SQL = """
                    SELECT time_at, seq, \(status) FROM message INDEXED BY \(source) indexed = 1 AND time_at != 0 AND status = \(status)
                    AND \(place) AND ?3 & \(bit: status)
                    """
                sql = sql.map { "\($0) UNION ALL \(part)" } ?? part
            }
        }
        return "\(sql ?? "") ORDER BY \(order)"
    }
}
