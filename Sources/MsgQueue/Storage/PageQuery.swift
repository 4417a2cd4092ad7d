/// Which rows make a page: by the index that knows them, so that a page costs the same however long the queue is. The newest rows, which
/// are in no index yet, are read from the table.
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
            if statement.int(1) != 0 || (isSending ? wantsSending : wantsQueued) { found.append(sequence) }
            return found.count < filter.limit
        }
        return found
    }

    /// ?1: where the page begins; ?2: the statuses as bits; ?3: the last folded row; ?4: the conversation.
    private func statement(_ database: Database) throws(QueueError) -> Statement {
        let statement = try database.statement(text)
        statement.bind(1, filter.after != 0 ? filter.after : (filter.newestFirst ? Int64.max : 0))
        statement.bind(2, mask)
        statement.bind(3, foldedThrough)
        if let conversation = filter.conversation { try statement.bind(4, conversation) }
        return statement
    }

    /// Statuses as they are on disk, one bit each.
    private var mask: Int64 {
        var mask = Int64(filter.statuses.rawValue)
        if filter.statuses.contains(.sending) { mask |= 1 }
        // Recorded messages: delivered, and read.
        if filter.statuses.contains(.delivered) { mask |= 1 << 6 }
        if filter.statuses.contains(.read) { mask |= 1 << 7 }
        return mask & ~2
    }

    /// A status that cannot be is damage, and such a message is shown as failed.
    private var text: StaticString {
        let isUnsentOnly = filter.statuses.isSubset(of: .unsent)
        switch (filter.conversation != nil, isUnsentOnly, filter.newestFirst) {
        case (true, true, false):
            return """
                SELECT seq, 0 FROM message INDEXED BY message_waiting
                WHERE indexed = 1 AND status = 0 AND conversation = ?4 AND seq > ?1 AND ?2 & 1
                UNION ALL SELECT seq, 5 FROM message INDEXED BY message_failed
                WHERE status = 5 AND seq > ?1 AND conversation = ?4 AND ?2 & 32
                UNION ALL SELECT seq, 0 FROM message NOT INDEXED
                WHERE seq > max(?1, ?3) AND status = 0 AND conversation = ?4 AND ?2 & 1 ORDER BY 1
                """
        case (true, true, true):
            return """
                SELECT seq, 0 FROM message INDEXED BY message_waiting
                WHERE indexed = 1 AND status = 0 AND conversation = ?4 AND seq < ?1 AND ?2 & 1
                UNION ALL SELECT seq, 5 FROM message INDEXED BY message_failed
                WHERE status = 5 AND seq < ?1 AND conversation = ?4 AND ?2 & 32
                UNION ALL SELECT seq, 0 FROM message NOT INDEXED
                WHERE seq > ?3 AND seq < ?1 AND status = 0 AND conversation = ?4 AND ?2 & 1 ORDER BY 1 DESC
                """
        case (true, false, false):
            return """
                SELECT seq, status FROM message INDEXED BY message_conversation
                WHERE indexed = 1 AND conversation = ?4 AND seq > ?1 AND (1 << iif(status BETWEEN 2 AND 7, status, iif(status = 0, 0, 5))) & ?2
                UNION ALL SELECT seq, status FROM message NOT INDEXED
                WHERE seq > max(?1, ?3) AND conversation = ?4 AND (1 << iif(status BETWEEN 2 AND 7, status, iif(status = 0, 0, 5))) & ?2 ORDER BY 1
                """
        case (true, false, true):
            return """
                SELECT seq, status FROM message INDEXED BY message_conversation
                WHERE indexed = 1 AND conversation = ?4 AND seq < ?1 AND (1 << iif(status BETWEEN 2 AND 7, status, iif(status = 0, 0, 5))) & ?2
                UNION ALL SELECT seq, status FROM message NOT INDEXED
                WHERE seq > ?3 AND seq < ?1 AND conversation = ?4 AND (1 << iif(status BETWEEN 2 AND 7, status, iif(status = 0, 0, 5))) & ?2 ORDER BY 1 DESC
                """
        case (false, true, false):
            return """
                SELECT seq, 0 FROM message INDEXED BY message_queued WHERE indexed = 1 AND status = 0 AND seq > ?1 AND ?2 & 1
                UNION ALL SELECT seq, 5 FROM message INDEXED BY message_failed WHERE status = 5 AND seq > ?1 AND ?2 & 32
                UNION ALL SELECT seq, 0 FROM message NOT INDEXED
                WHERE seq > max(?1, ?3) AND status = 0 AND ?2 & 1 ORDER BY 1
                """
        case (false, true, true):
            return """
                SELECT seq, 0 FROM message INDEXED BY message_queued WHERE indexed = 1 AND status = 0 AND seq < ?1 AND ?2 & 1
                UNION ALL SELECT seq, 5 FROM message INDEXED BY message_failed WHERE status = 5 AND seq < ?1 AND ?2 & 32
                UNION ALL SELECT seq, 0 FROM message NOT INDEXED
                WHERE seq > ?3 AND seq < ?1 AND status = 0 AND ?2 & 1 ORDER BY 1 DESC
                """
        case (false, false, false):
            return """
                SELECT seq, status FROM message
                WHERE seq > ?1 AND (1 << iif(status BETWEEN 2 AND 7, status, iif(status = 0, 0, 5))) & ?2 ORDER BY seq
                """
        case (false, false, true):
            return """
                SELECT seq, status FROM message
                WHERE seq < ?1 AND (1 << iif(status BETWEEN 2 AND 7, status, iif(status = 0, 0, 5))) & ?2 ORDER BY seq DESC
                """
        }
    }
}
