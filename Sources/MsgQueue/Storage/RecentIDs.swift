/// The ids of sent and recorded messages that were removed. An id that the engine generated is stored as numbers in `recent_own`, by the
/// sequence number that it contains, without loss: two ids never count as the same one. All other ids are stored as text in `recent`.
extension Store {
    /// The number of ids of `recent_own` that one search for ids to forget reads.
    private static let ownIDsPerStep: Int64 = 256

    /// The numbers of an id of the form that the engine generates: `high` and `low` are its bits except the sequence number, and the last
    /// bit of `low` is is_received.
    private static func own(_ id: String, isReceived: Bool) -> (sequence: Int64, high: Int64, low: Int64)? {
        guard let bits = MessageID.bits(of: id), let sequence = MessageID.sequence(in: id), sequence > 0 else { return nil }
        return (sequence, Int64(bitPattern: bits.high), Int64(bits.low & 0x3f_ffff) << 1 | (isReceived ? 1 : 0))
    }

    /// Returns the id that is stored as these numbers.
    static func id(sequence: Int64, high: Int64, low: Int64) -> String {
        let sequenceBits = (UInt64(bitPattern: sequence) & 0xff_ffff_ffff) << 22
        return MessageID.text(high: UInt64(bitPattern: high), low: 0b10 << 62 | sequenceBits | UInt64(bitPattern: low) >> 1 & 0x3f_ffff)
    }

    /// Remembers the id of the message with this sequence number. An id of a host may look like a generated one, with another number.
    package func addRecent(_ id: String, of sequence: Int64?, isReceived: Bool, now: Int64) throws(QueueError) {
        if let own = Self.own(id, isReceived: isReceived), own.sequence == sequence {
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

    /// Forgets some ids of messages that were removed before this time. Returns false when it found none.
    func forgetRecent(before: Int64, limit: Int) throws(QueueError) -> Bool {
        var hasForgotten = false
        // A session in which nothing is due changes no file.
        let oldest = try database.statement("SELECT min(gone_at) FROM recent INDEXED BY recent_gone")
        if try oldest.first({ () throws(QueueError) in !oldest.isNull(0) && oldest.int(0) < before }) ?? false {
            let named = try database.statement(
                "DELETE FROM recent WHERE id IN (SELECT id FROM recent INDEXED BY recent_gone WHERE gone_at < ?1 LIMIT ?2)")
            named.bind(1, before)
            named.bind(2, Int64(limit))
            try named.run()
            hasForgotten = true
        }
        // Messages are removed mostly in the order of their numbers; the second search finds the others, some with each call.
        let first = try forgetOwn(after: 0, before: before)
        let other = try forgetOwn(after: forgetCursor, before: before)
        if !other.hasForgotten { forgetCursor = other.last }
        return hasForgotten || first.hasForgotten || other.hasForgotten
    }

    /// Forgets those of the next ids in `recent_own` that are due. `last`: the last one that was read; 0: there are no more.
    private func forgetOwn(after first: Int64, before: Int64) throws(QueueError) -> (last: Int64, hasForgotten: Bool) {
        let search = try database.statement(
            """
            SELECT ifnull(max(seq), 0), ifnull(sum(gone_at < ?1), 0)
            FROM (SELECT seq, gone_at FROM recent_own WHERE seq > ?2 ORDER BY seq LIMIT ?3)
            """)
        search.bind(1, before)
        search.bind(2, first)
        search.bind(3, Self.ownIDsPerStep)
        let (last, due) = try search.first { () throws(QueueError) in (search.int(0), search.int(1)) } ?? (0, 0)
        guard due > 0 else { return (last, false) }
        let removal = try database.statement("DELETE FROM recent_own WHERE seq > ?2 AND seq <= ?3 AND gone_at < ?1")
        removal.bind(1, before)
        removal.bind(2, first)
        removal.bind(3, last)
        try removal.run()
        return (last, true)
    }
}
