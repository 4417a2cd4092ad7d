/// Selects the rows of a page. Uses the index that fits the filter, so that the cost of a page does not grow with the queue. Rows that are
/// not folded are in none of these indexes and are read from the table.
struct PageQuery {
    private let filter: Filter
    private let sending: Set<Int64>
    private let foldedThrough: Int64

    init(_ filter: Filter, _ sending: Set<Int64>, _ foldedThrough: Int64) {
        self.filter = filter
        self.sending = sending
        self.foldedThrough = foldedThrough
    }

    func sequences(_ database: Database) throws(QueueError) -> [Int64] {
        var found: [Int64] = []
        let wantsQueued = filter.statuses.contains(.queued)
        let wantsSending = filter.statuses.contains(.sending)
        let statement = try self.statement(database)
        try statement.forEach { () throws(QueueError) in
            let sequence = statement.int(0)
            let isSending = sending.contains(sequence)
            if statement.int(1) != StoredStatus.queued.rawValue || (isSending ? wantsSending : wantsQueued) { found.append(sequence) }
            return found.count < filter.limit
        }
        return found
    }

    /// Parameters: ?1 the sequence before the page, ?2 the statuses as a bit mask, ?3 the last folded sequence, ?4 the conversation.
    private func statement(_ database: Database) throws(QueueError) -> Statement {
        let statement = try prepared(database)
        statement.bind(1, filter.after != 0 ? filter.after : (filter.newestFirst ? Int64.max : 0))
        statement.bind(2, mask)
        statement.bind(3, foldedThrough)
        if let conversation = filter.conversation { try statement.bind(4, conversation) }
        return statement
    }

    /// The wanted statuses as they are stored, one bit each.
    private var mask: Int64 {
        let wanted = filter.statuses
        var mask = StoredStatus.allCases.reduce(0) { wanted.contains($1.status) ? $0 | $1.bit : $0 }
        if wanted.contains(.sending) { mask |= StoredStatus.queued.bit }
        return mask
    }

    /// The bit of a row's status. A row with an invalid status is damaged and is listed as failed.
    private static let statusBit: SQL =
        "(1 << iif(status BETWEEN \(.sent) AND \(.receivedRead), status, iif(status = \(.queued), \(.queued), \(.failed))))"

    private func prepared(_ database: Database) throws(QueueError) -> Statement {
        let isUnsentOnly = filter.statuses.isSubset(of: .unsent)
        switch (filter.conversation != nil, isUnsentOnly, filter.newestFirst) {
        case (true, true, false):
            return try database.statement(
                """
                SELECT seq, \(.queued) FROM message INDEXED BY message_waiting
                WHERE indexed = 1 AND status = \(.queued) AND conversation = ?4 AND seq > ?1 AND ?2 & \(bit: .queued)
                UNION ALL SELECT seq, \(.failed) FROM message INDEXED BY message_failed
                WHERE status = \(.failed) AND seq > ?1 AND conversation = ?4 AND ?2 & \(bit: .failed)
                UNION ALL SELECT seq, \(.queued) FROM message NOT INDEXED
                WHERE seq > max(?1, ?3) AND status = \(.queued) AND conversation = ?4 AND ?2 & \(bit: .queued) ORDER BY 1
                """)
        case (true, true, true):
            return try database.statement(
                """
                SELECT seq, \(.queued) FROM message INDEXED BY message_waiting
                WHERE indexed = 1 AND status = \(.queued) AND conversation = ?4 AND seq < ?1 AND ?2 & \(bit: .queued)
                UNION ALL SELECT seq, \(.failed) FROM message INDEXED BY message_failed
                WHERE status = \(.failed) AND seq < ?1 AND conversation = ?4 AND ?2 & \(bit: .failed)
                UNION ALL SELECT seq, \(.queued) FROM message NOT INDEXED
                WHERE seq > ?3 AND seq < ?1 AND status = \(.queued) AND conversation = ?4 AND ?2 & \(bit: .queued) ORDER BY 1 DESC
                """)
        case (true, false, false):
            return try database.statement(
                """
                SELECT seq, status FROM message INDEXED BY message_conversation
                WHERE indexed = 1 AND conversation = ?4 AND seq > ?1 AND \(Self.statusBit) & ?2
                UNION ALL SELECT seq, status FROM message NOT INDEXED
                WHERE seq > max(?1, ?3) AND conversation = ?4 AND \(Self.statusBit) & ?2 ORDER BY 1
                """)
        case (true, false, true):
            return try database.statement(
                """
                SELECT seq, status FROM message INDEXED BY message_conversation
                WHERE indexed = 1 AND conversation = ?4 AND seq < ?1 AND \(Self.statusBit) & ?2
                UNION ALL SELECT seq, status FROM message NOT INDEXED
                WHERE seq > ?3 AND seq < ?1 AND conversation = ?4 AND \(Self.statusBit) & ?2 ORDER BY 1 DESC
                """)
        case (false, true, false):
            return try database.statement(
                """
                SELECT seq, \(.queued) FROM message INDEXED BY message_queued WHERE indexed = 1 AND status = \(.queued) AND seq > ?1 AND ?2 & \(bit: .queued)
                UNION ALL SELECT seq, \(.failed) FROM message INDEXED BY message_failed WHERE status = \(.failed) AND seq > ?1 AND ?2 & \(bit: .failed)
                UNION ALL SELECT seq, \(.queued) FROM message NOT INDEXED
                WHERE seq > max(?1, ?3) AND status = \(.queued) AND ?2 & \(bit: .queued) ORDER BY 1
                """)
        case (false, true, true):
            return try database.statement(
                """
                SELECT seq, \(.queued) FROM message INDEXED BY message_queued WHERE indexed = 1 AND status = \(.queued) AND seq < ?1 AND ?2 & \(bit: .queued)
                UNION ALL SELECT seq, \(.failed) FROM message INDEXED BY message_failed WHERE status = \(.failed) AND seq < ?1 AND ?2 & \(bit: .failed)
                UNION ALL SELECT seq, \(.queued) FROM message NOT INDEXED
                WHERE seq > ?3 AND seq < ?1 AND status = \(.queued) AND ?2 & \(bit: .queued) ORDER BY 1 DESC
                """)
        case (false, false, false):
            return try database.statement(
                """
                SELECT seq, status FROM message
                WHERE seq > ?1 AND \(Self.statusBit) & ?2 ORDER BY seq
                """)
        case (false, false, true):
            return try database.statement(
                """
                SELECT seq, status FROM message
                WHERE seq < ?1 AND \(Self.statusBit) & ?2 ORDER BY seq DESC
                """)
        }
    }
}
