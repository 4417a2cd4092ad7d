/// The ids of sent and recorded messages that were removed. An id that the engine generated is stored as numbers in `recent_own`, by the
/// sequence number that it contains, without loss: two ids never count as the same one. All other ids are stored as text in `recent`.
extension Store {
    /// The first ids of `recent_own` are looked at in each step. Only those of messages that were removed much later than their
    /// successors delay the removal of others.
    private static let ownIDsPerStep: Int64 = 128

    /// The bits of a generated id that are not its sequence number: `low` also contains the last bit, is_received.
    private static func own(_ id: String, isReceived: Bool) -> (sequence: Int64, high: Int64, low: Int64)? {
        guard let bits = MessageID.bits(of: id), let sequence = MessageID.sequence(in: id), sequence > 0 else { return nil }
        return (sequence, Int64(bitPattern: bits.high), Int64(bits.low & 0x3f_ffff) << 1 | (isReceived ? 1 : 0))
    }

    /// Returns the id that is stored as these numbers.
    static func id(sequence: Int64, high: Int64, low: Int64) -> String {
        let sequenceBits = (UInt64(bitPattern: sequence) & 0xff_ffff_ffff) << 22
        return MessageID.text(high: UInt64(bitPattern: high), low: 0b10 << 62 | sequenceBits | UInt64(bitPattern: low) >> 1 & 0x3f_ffff)
    }

    package func addRecent(_ id: String, isReceived: Bool, now: Int64) throws(QueueError) {
        if let own = Self.own(id, isReceived: isReceived) {
            let statement = try database.statement(
                """
                INSERT INTO recent_own(seq, high, low, gone_at) VALUES(?1, ?2, ?3, ?4)
                ON CONFLICT(seq) DO UPDATE SET low = excluded.low, gone_at = excluded.gone_at
                WHERE high = excluded.high AND low >> 1 = excluded.low >> 1
                """)
            statement.bind(1, own.sequence)
            statement.bind(2, own.high)
            statement.bind(3, own.low)
            statement.bind(4, now)
            try statement.run()
            // Another id with the same sequence number, made by another queue, keeps its place.
            if database.changes == 1 { return }
        }
        let statement = try database.statement("INSERT OR REPLACE INTO recent(id, gone_at, is_received) VALUES(?1, ?2, ?3)")
        statement.bind(3, isReceived)
        try statement.bind(1, id)
        statement.bind(2, now)
        try statement.run()
    }

    /// Returns whether the message with this id that was removed at `since` or later was a recorded one; nil: there was none.
    package func recentIsReceived(_ id: String, since: Int64) throws(QueueError) -> Bool? {
        if let own = Self.own(id, isReceived: false) {
            let statement = try database.statement(
                "SELECT low FROM recent_own WHERE seq = ?1 AND high = ?2 AND low >> 1 = ?3 AND gone_at >= ?4")
            statement.bind(1, own.sequence)
            statement.bind(2, own.high)
            statement.bind(3, own.low >> 1)
            statement.bind(4, since)
            if let low = try statement.first({ () throws(QueueError) in statement.int(0) }) { return low & 1 == 1 }
        }
        let statement = try database.statement("SELECT is_received FROM recent WHERE id = ?1 AND gone_at >= ?2")
        try statement.bind(1, id)
        statement.bind(2, since)
        return try statement.first { () throws(QueueError) in statement.bool(0) }
    }

    /// Forgets some ids of messages that were removed before this time. Returns false when none are left.
    func forgetRecent(before: Int64, limit: Int) throws(QueueError) -> Bool {
        // A session in which nothing is due changes no file.
        guard try isForgettingDue(before: before) else { return false }
        let named = try database.statement(
            "DELETE FROM recent WHERE id IN (SELECT id FROM recent INDEXED BY recent_gone WHERE gone_at < ?1 LIMIT ?2)")
        named.bind(1, before)
        named.bind(2, Int64(limit))
        try named.run()
        let hasMore = database.changes == limit
        let own = try database.statement(
            """
            DELETE FROM recent_own
            WHERE seq IN (SELECT seq FROM (SELECT seq, gone_at FROM recent_own ORDER BY seq LIMIT ?2) WHERE gone_at < ?1)
            """)
        own.bind(1, before)
        own.bind(2, Self.ownIDsPerStep)
        try own.run()
        return hasMore || database.changes > 0
    }

    private func isForgettingDue(before: Int64) throws(QueueError) -> Bool {
        let statement = try database.statement(
            """
            SELECT ifnull((SELECT min(gone_at) FROM recent INDEXED BY recent_gone) < ?1, 0)
              OR ifnull((SELECT min(gone_at) FROM (SELECT gone_at FROM recent_own ORDER BY seq LIMIT ?2)) < ?1, 0)
            """)
        statement.bind(1, before)
        statement.bind(2, Self.ownIDsPerStep)
        return try statement.first { () throws(QueueError) in statement.bool(0) } ?? false
    }
}
