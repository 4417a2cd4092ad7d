/// Selects the rows of a page. Uses the indexes that fit the filter, so that the cost of a page does not grow with the queue. Rows that are
/// not folded are in none of these indexes and are read from the table.
struct PageQuery {
    let filter: Filter
    let sending: Set<Int64>
    let pages: MessagePages

    /// nil: the wanted statuses are those of the filter.
    let only: [StoredStatus]?

    init(_ filter: Filter, _ sending: Set<Int64>, _ pages: MessagePages, only: [StoredStatus]? = nil) {
        self.filter = filter
        self.sending = sending
        self.pages = pages
        self.only = only
    }

    /// The table is read instead of the indexes when the page may contain messages of every status.
    private var wantsAll: Bool { filter.statuses.isSuperset(of: .all) }

    func sequences() throws(QueueError) -> [Int64] {
        if filter.isByFailure { return try pages.failures.sequences(filter) }
        var found: [Int64] = []
        let statement = try self.statement(pages.database)
        try statement.forEach { () throws(QueueError) in
            let sequence = statement.int(0)
            if isWanted(statement.int(1), sequence) { found.append(sequence) }
            return found.count < filter.limit
        }
        return adding(unsettled, to: found)
    }

    /// Whether a row with a status of the wanted ones belongs to the page: messages being sent are stored as queued.
    func isWanted(_ status: Int64, _ sequence: Int64) -> Bool {
        status != StoredStatus.queued.rawValue || filter.statuses.contains(sending.contains(sequence) ? .sending : .queued)
    }

    /// The wanted messages that are not in the index of the history yet.
    private var unsettled: [Int64] {
        guard !wantsAll, !pages.history.unsettled.isEmpty else { return [] }
        let conversation = filter.conversation.map { Name($0) }
        return pages.history.unsettled.messages.compactMap { message in
            let isAfter = filter.after == 0 || (filter.newestFirst ? message.sequence < filter.after : message.sequence > filter.after)
            let isWanted = filter.statuses.contains(message.status.status) && (conversation == nil || message.conversation == conversation)
            return isAfter && isWanted ? message.sequence : nil
        }
    }

    private func adding(_ others: [Int64], to found: [Int64]) -> [Int64] {
        guard !others.isEmpty else { return found }
        let all = Set(found).union(others)
        return Array((filter.newestFirst ? all.sorted(by: >) : all.sorted()).prefix(filter.limit))
    }

    /// Parameters: ?1 the sequence before the page, ?2 the statuses as a bit mask, ?3 the last folded sequence, ?4 the
    /// conversation, ?5 the last sequence that is not in the index of the history.
    private func statement(_ database: Database) throws(QueueError) -> Statement {
        let statement = try prepared(database)
        statement.bind(1, filter.after != 0 ? filter.after : (filter.newestFirst ? Int64.max : 0))
        statement.bind(2, mask)
        statement.bind(3, pages.state.foldedThrough)
        if let conversation = filter.conversation { try statement.bind(4, conversation) }
        if !wantsAll { statement.bind(5, pages.history.start) }
        return statement
    }

    /// The wanted statuses as they are stored, one bit each.
    var mask: Int64 {
        if let only { return only.reduce(0) { $0 | $1.bit } }
        let wanted = filter.statuses
        var mask = StoredStatus.allCases.reduce(0) { wanted.contains($1.status) ? $0 | $1.bit : $0 }
        if wanted.contains(.sending) { mask |= StoredStatus.queued.bit }
        return mask
    }

    /// The bit of a row's status. A row with an invalid status is damaged and is listed as failed.
    static let statusBit: SQL =
        "(1 << iif(status BETWEEN \(.sent) AND \(.receivedRead), status, iif(status = \(.queued), \(.queued), \(.failed))))"

    private func prepared(_ database: Database) throws(QueueError) -> Statement {
        switch (filter.conversation != nil, wantsAll, filter.newestFirst) {
        case (true, false, false): return try database.statement(Self.byStatus(inConversation: true, newestFirst: false))
        case (true, false, true): return try database.statement(Self.byStatus(inConversation: true, newestFirst: true))
        case (false, false, false): return try database.statement(Self.byStatus(inConversation: false, newestFirst: false))
        case (false, false, true): return try database.statement(Self.byStatus(inConversation: false, newestFirst: true))
        case (true, true, false):
            return try database.statement(
                """
                SELECT seq, status FROM message INDEXED BY message_conversation
                WHERE indexed = 1 AND conversation = ?4 AND seq > ?1 AND \(Self.statusBit) & ?2
                UNION ALL SELECT seq, status FROM message NOT INDEXED
                WHERE seq > max(?1, ?3) AND conversation = ?4 AND \(Self.statusBit) & ?2 ORDER BY 1
                """)
        case (true, true, true):
            return try database.statement(
                """
                SELECT seq, status FROM message INDEXED BY message_conversation
                WHERE indexed = 1 AND conversation = ?4 AND seq < ?1 AND \(Self.statusBit) & ?2
                UNION ALL SELECT seq, status FROM message NOT INDEXED
                WHERE seq > ?3 AND seq < ?1 AND conversation = ?4 AND \(Self.statusBit) & ?2 ORDER BY 1 DESC
                """)
        case (false, true, false):
            return try database.statement("SELECT seq, status FROM message WHERE seq > ?1 AND \(Self.statusBit) & ?2 ORDER BY seq")
        case (false, true, true):
            return try database.statement("SELECT seq, status FROM message WHERE seq < ?1 AND \(Self.statusBit) & ?2 ORDER BY seq DESC")
        }
    }

    /// Returns the statement that merges one index for each wanted status, and the rows that are in no index: those that are not folded,
    /// and those of an older store that are not in the index of the history yet.
    private static func byStatus(inConversation: Bool, newestFirst: Bool) -> SQL {
        let place: SQL = newestFirst ? "seq < ?1" : "seq > ?1"
        let unfolded: SQL = newestFirst ? "seq > ?3 AND seq < ?1" : "seq > max(?1, ?3)"
        // SQLite uses only one upper bound.
        let notIndexed: SQL = newestFirst ? "seq < min(?1, ?5 + 1)" : "seq > ?1 AND seq <= ?5"
        let only: SQL = inConversation ? "conversation = ?4 AND " : ""
        let failed: SQL = inConversation ? "message_failed_in" : "message_failed"
        let history: SQL = inConversation ? "history_in" : "history"
        let order: SQL = newestFirst ? "1 DESC" : "1"
        let older: SQL = inConversation ? "message INDEXED BY message_conversation WHERE indexed = 1 AND" : "message NOT INDEXED WHERE"
        let queued: SQL =
            inConversation
            ? """
            SELECT seq, \(.queued) FROM message INDEXED BY message_waiting
            WHERE indexed = 1 AND status = \(.queued) AND \(only)\(place) AND ?2 & \(bit: .queued)
            """ : QueueIndex.ordered("seq, \(.queued)", "\(place) AND ?2 & \(bit: .queued)")
        var sql: SQL = """
            \(queued)
            UNION ALL SELECT seq, \(.failed) FROM message INDEXED BY \(failed)
            WHERE status = \(.failed) AND \(only)\(place) AND ?2 & \(bit: .failed)
            """
        for status in StoredStatus.history {
            sql = """
                \(sql)
                UNION ALL SELECT seq, status FROM \(history) WHERE \(only)status = \(status) AND \(place) AND ?2 & \(bit: status)
                """
        }
        return """
            \(sql)
            UNION ALL SELECT seq, status FROM message NOT INDEXED
            WHERE \(unfolded) AND \(only)status != \(.failed) AND \(statusBit) & ?2
            UNION ALL SELECT seq, status FROM \(older)
            \(only)\(notIndexed) AND status IN (\(StoredStatus.history)) AND \(statusBit) & ?2
            ORDER BY \(order)
            """
    }
}
