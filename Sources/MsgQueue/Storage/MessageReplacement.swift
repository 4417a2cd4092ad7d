/// Queued messages that make room for new ones: replaced by a message of the same key. Inside the caller's transaction.
extension MessageTable {
    /// Returns a queued message that can be removed; nil: it is damaged, and stays.
    func removable(_ sequence: Int64) throws(QueueError) -> Row? {
        do throws(QueueError) {
            guard var row = try row(at: sequence, .whole), row.progress.status == .queued else {
                throw QueueError(.corrupt, "an index of queued messages does not agree with message \(sequence)", .index)
            }
            row.body = []
            return row
        } catch {
            guard error.code == .corrupt, !error.isIndex else { throw error }
            return nil
        }
    }

    /// Returns a queued message of this key; nil: it is damaged, and stays.
    func replaceable(_ sequence: Int64, _ key: String, _ conversation: Name) throws(QueueError) -> Row? {
        guard let row = try removable(sequence) else { return nil }
        guard row.replaceKey == key, row.conversation == conversation else { throw .mismatch(row.sequence) }
        return row
    }

    /// Replaces a queued message by a new one in its place. The caller has noted in the feed that the old one was replaced. The id of the old
    /// one counts as known from now on.
    func replace(
        _ old: Row, by draft: borrowing BorrowedDraft, _ times: DraftTimes, now: Int64, random: UInt64
    ) throws(QueueError) -> Row {
        try insertion.settleBulk(from: old.sequence)
        let time = self.times.take(draft.time, inPlaceOf: old.sequence, now: now)
        let row = insertion.row(of: draft, at: old.sequence, time: time, times, now: now, random: random)
        let statement = try database.statement(
            """
            UPDATE message SET \(set: MessageColumn.allCases.filter { $0 != .seq }) WHERE seq = \(parameter: MessageColumn.seq)
            """)
        let fields = Fields<MessageColumn>(statement)
        try row.bind(to: fields)
        row.progress.bind(to: fields)
        let isLarge = draft.body.count > MessageInsertion.inlineBody
        try fields.bind(.body, borrowing: isLarge ? nil : draft.body)
        try statement.run()
        guard database.changes == 1 else { throw .mismatch(old.sequence) }
        if isLarge { try insertion.insertLarge(row.sequence, draft.body) } else { try insertion.deleteLarge(row.sequence) }
        try attempts.delete(of: row.sequence)
        try recentIDs.add(old.id, of: old.sequence, isReceived: false, now: now)
        var delta = Counts()
        delta.add(.queued, amount: 0, bytes: row.bodySize &- old.bodySize)
        counts.count(row, delta)
        unsentSums.note(from: old, to: row)
        self.times.noteChange(of: row.conversation)
        try noteTimed(row, insteadOf: old)
        log.hasRemovedText = true
        try feed?.note(.status, .queued, of: row)
        return row
    }

    /// Removes a queued message that was replaced by one in another place.
    func removeReplaced(_ old: Row, now: Int64) throws(QueueError) {
        try insertion.settleBulk(from: old.sequence)
        try delete(old, .replaced)
        log.hasRemovedText = true
        try recentIDs.add(old.id, of: old.sequence, isReceived: false, now: now)
    }

    /// Removes a queued message to make room for a new one.
    func removeQueued(_ row: Row) throws(QueueError) {
        try insertion.settleBulk(from: row.sequence)
        try delete(row, .discarded)
        feed?.amendGone(row.sequence, .dropped)
        log.hasRemovedText = true
    }
}
