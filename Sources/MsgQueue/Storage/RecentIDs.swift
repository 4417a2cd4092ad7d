/// The ids of sent and recorded messages that were removed. An id that the engine generated is stored as numbers in `recent_own`, by the
/// sequence number that it contains, without loss: two ids never count as the same one. All other ids are stored as text in `recent`.
final class RecentIDs {
    private let database: Database
    private let state: StateRow
    /// There may be ids.
    private(set) var mayExist = true
    /// The search for ids to forget has read `recent_own` up to this one.
    private var cursor: Int64 = 0

    init(_ database: Database, _ state: StateRow) { (self.database, self.state) = (database, state) }

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

    /// Returns the highest sequence number that counts as assigned when only an id in `recent` contains it. `known`: the highest one that is
    /// known otherwise. The host may have given an id there that looks like a generated one, with any number.
    static func highestCredible(after known: Int64) -> Int64 { min(known.addingClamped(StateRow.sequenceBlock), MessageID.sequenceCeiling) }

    /// Remembers the id of the message with this sequence number. An id of a host may look like a generated one, with another number.
    func add(_ id: String, of sequence: Int64?, isReceived: Bool, now: Int64) throws(QueueError) {
        mayExist = true
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
    func isReceived(_ id: String, since: Int64) throws(QueueError) -> Bool? {
        if let own = Self.own(id, isReceived: false) {
            let statement = try database.statement(
                "SELECT low, gone_at FROM recent_own WHERE seq = ?1 AND high = ?2 AND low >> 1 = ?3")
            statement.bind(1, own.sequence)
            statement.bind(2, own.high)
            statement.bind(3, own.low >> 1)
            let found = try statement.first { () throws(QueueError) in (statement.int(0), statement.int(1)) }
            if let (low, gone) = found, isRemembered(gone, since) { return low & 1 == 1 }
        }
        let statement = try database.statement("SELECT is_received, gone_at FROM recent WHERE id = ?1")
        try statement.bind(1, id)
        let found = try statement.first { () throws(QueueError) in (statement.bool(0), statement.int(1)) }
        guard let (isReceived, gone) = found, isRemembered(gone, since) else { return nil }
        return isReceived
    }

    /// Whether an id that was removed at this time is still remembered. A time of a wrong clock says nothing.
    private func isRemembered(_ gone: Int64, _ since: Int64) -> Bool {
        since != Int64.max && (gone < state.earliest || state.clock.corrected(gone) >= since)
    }

    /// The condition of SQL that an id is forgotten: by the parameters ?1 (a time), ?2 (`earliest`) and ?3 to ?5 (`clock`).
    private static let isForgotten: SQL =
        "(gone_at >= ?2 AND gone_at + CASE WHEN gone_at BETWEEN ?3 AND ?4 THEN ?5 ELSE 0 END < ?1)"

    private func bindForgotten(_ statement: Statement, before: Int64) {
        // Without a memory of ids every id is forgotten.
        let isAll = before == Int64.max
        statement.bind(1, before)
        statement.bind(2, isAll ? Int64.min : state.earliest)
        statement.bind(3, state.clock.from)
        statement.bind(4, state.clock.by == 0 || isAll ? Int64.min : state.clock.through)
        statement.bind(5, state.clock.by)
    }

    /// Forgets some ids of messages that were removed before this time. Returns false when it found none. `now`: when the ids that a wrong
    /// clock stamped count as removed; nil: the clock is wrong.
    func forget(before: Int64, now: Int64? = nil, limit: Int) throws(QueueError) -> Bool {
        var hasForgotten = false
        // A session in which nothing is due changes no file.
        let oldest = try database.statement("SELECT min(gone_at) FROM recent INDEXED BY recent_gone")
        let first = try oldest.first { () throws(QueueError) in oldest.isNull(0) ? Int64.max : oldest.int(0) } ?? Int64.max
        if let now, first < state.earliest {
            let stamp = try database.statement(
                "UPDATE recent SET gone_at = ?1 WHERE id IN (SELECT id FROM recent INDEXED BY recent_gone WHERE gone_at < ?2 LIMIT ?3)")
            stamp.bind(1, now)
            stamp.bind(2, state.earliest)
            stamp.bind(3, Int64(limit))
            try stamp.run()
            hasForgotten = true
        }
        if first < before {
            let named = try database.statement(
                """
                DELETE FROM recent WHERE id IN (
                  SELECT id FROM recent INDEXED BY recent_gone WHERE gone_at < ?1 AND \(Self.isForgotten) LIMIT ?6)
                """)
            bindForgotten(named, before: before)
            named.bind(6, Int64(limit))
            try named.run()
            hasForgotten = hasForgotten || database.changes > 0
        }
        // Messages are removed mostly in the order of their numbers; the second search finds the others, some with each call.
        let start = try forgetOwn(after: 0, before: before, now: now)
        let other = try forgetOwn(after: cursor, before: before, now: now)
        if !other.hasForgotten { cursor = other.last }
        mayExist = first != Int64.max || start.last > 0
        return hasForgotten || start.hasForgotten || other.hasForgotten
    }

    /// Forgets those of the next ids in `recent_own` that are due. `last`: the last one that was read; 0: there are no more.
    private func forgetOwn(after first: Int64, before: Int64, now: Int64?) throws(QueueError) -> (last: Int64, hasForgotten: Bool) {
        let search = try database.statement(
            """
            SELECT ifnull(max(seq), 0), ifnull(sum(\(Self.isForgotten)), 0), ifnull(sum(gone_at < ?2), 0)
            FROM (SELECT seq, gone_at FROM recent_own WHERE seq > ?6 ORDER BY seq LIMIT ?7)
            """)
        bindForgotten(search, before: before)
        search.bind(6, first)
        search.bind(7, Self.ownIDsPerStep)
        let (last, due, unknown) =
            try search.first { () throws(QueueError) in (search.int(0), search.int(1), search.int(2)) } ?? (0, 0, 0)
        if let now, unknown > 0 {
            let stamp = try database.statement("UPDATE recent_own SET gone_at = ?1 WHERE seq > ?3 AND seq <= ?4 AND gone_at < ?2")
            stamp.bind(1, now)
            stamp.bind(2, state.earliest)
            stamp.bind(3, first)
            stamp.bind(4, last)
            try stamp.run()
        }
        guard due > 0 else { return (last, false) }
        let removal = try database.statement("DELETE FROM recent_own WHERE seq > ?6 AND seq <= ?7 AND \(Self.isForgotten)")
        bindForgotten(removal, before: before)
        removal.bind(6, first)
        removal.bind(7, last)
        try removal.run()
        return (last, true)
    }

    /// Returns the highest sequence number in the ids of removed messages, if it is higher than `known`. Generated ids contain the sequence
    /// number of their message.
    func highestSequence(known: Int64) throws(QueueError) -> Int64 {
        let own = try database.statement("SELECT max(seq) FROM recent_own WHERE seq <= ?1")
        own.bind(1, MessageID.sequenceCeiling)
        var last = max(known, try own.first { () throws(QueueError) in own.int(0) } ?? 0)
        let highest = Self.highestCredible(after: last)
        let statement = try database.statement("SELECT id FROM recent")
        try statement.forEach { () throws(QueueError) in
            if let sequence = MessageID.sequence(in: statement.text(0)), sequence <= highest { last = max(last, sequence) }
            return true
        }
        return last
    }
}
