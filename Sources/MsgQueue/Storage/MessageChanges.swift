/// Changing messages. Each function runs inside the caller's transaction.
extension MessageTable {
    /// Whether an update of a message is a change of its status, for the feed.
    enum Noting {
        case ifStatusChanges, always, never
        /// It is part of the change that the transaction has just noted of this message.
        case asLast
    }

    /// Writes the progress of a message. `row` is the message as it was read.
    func update(_ row: Row, to progress: Progress, _ noting: Noting = .ifStatusChanges) throws(QueueError) {
        try update(row, to: progress, from: row.progress.status)
        guard let feed else { return }
        switch noting {
        case .ifStatusChanges where progress.status == row.progress.status: break
        case .never: break
        case .asLast: feed.amend(row.sequence, progress.status)
        case .always, .ifStatusChanges: try feed.noteStatus(of: row, from: row.progress.status, progress.status)
        }
        if progress.isDamaged { feed.amend(row.sequence, .unknown, code: 0) }
    }

    /// `from`: the status before, which for a message being sent differs from the one on disk.
    /// `isSettledLater`: the message was sent, and its row of `in_flight` stays until the index of the history contains it.
    func update(_ row: Row, to progress: Progress, from status: MessageStatus, isSettledLater: Bool = false) throws(QueueError) {
        guard status == progress.status || StatusRule.allowsInOneCommit(status, progress.status) else {
            throw QueueError(.internal, "the status of message \(row.sequence) cannot change from \(status) to \(progress.status)")
        }
        let statement = try database.statement(
            """
            UPDATE message SET \(set: [.status, .stateHash] + MessageColumn.progress) WHERE seq = \(parameter: MessageColumn.seq)
            """)
        let fields = Fields<MessageColumn>(statement)
        fields.bind(.seq, row.sequence)
        fields.bind(.status, try StoredStatus.number(progress.status, of: row))
        fields.bind(.stateHash, Row.hash(row.sequence, progress))
        progress.bind(to: fields)
        try statement.run()
        // A row that was removed meanwhile is no longer counted.
        guard database.changes == 1 else { return }
        try noteUpdate(of: row, to: progress, isSettledLater: isSettledLater)
    }

    /// Writes the progress of messages whose first attempt succeeded, as `update` with `isSettledLater` does, with one statement: SQLite
    /// opens all indexes for each. Returns false if a row is missing; then `update` writes the others.
    func updateSent(_ ends: [(row: Row, resolution: Resolution)]) throws(QueueError) -> Bool {
        let statement = try database.statement(
            """
            UPDATE message SET status = v.column2, state_hash = v.column3, attempts = v.column4, last_attempt_at = v.column5,
              sent_at = v.column6, sent_duration = v.column7, sent_code = v.column8
            FROM (VALUES \(rows: AttemptOutcomes.endsTogether, width: 8)) AS v WHERE message.seq = v.column1
            """)
        var parameter: Int32 = 0
        for (row, resolution) in ends {
            let progress = resolution.progress
            statement.bind(parameter + 1, row.sequence)
            statement.bind(parameter + 2, try StoredStatus.number(progress.status, of: row))
            statement.bind(parameter + 3, Row.hash(row.sequence, progress))
            statement.bind(parameter + 4, Int64(progress.attempts))
            statement.bind(parameter + 5, progress.lastAttemptAt)
            statement.bind(parameter + 6, progress.sentAt)
            statement.bind(parameter + 7, progress.sentDuration)
            statement.bind(parameter + 8, Int64(progress.sentCode))
            parameter += 8
        }
        try statement.run()
        guard database.changes == ends.count else { return false }
        for (row, resolution) in ends { try noteUpdate(of: row, to: resolution.progress, isSettledLater: true) }
        return true
    }

    /// Follows the update of a row.
    private func noteUpdate(of row: Row, to progress: Progress, isSettledLater: Bool) throws(QueueError) {
        unsentSums.note(row, to: progress)
        try failures.note(of: row, progress)
        guard progress.status != row.progress.status else { return }
        counts.count(row, row.change(to: progress.status))
        let new = StoredStatus(progress.status, isReceived: row.isReceived)
        if isSettledLater, let new { return try history.noteSent(row, new) }
        try history.change(of: row, from: StoredStatus(row.progress.status, isReceived: row.isReceived), to: new)
    }

    /// Changes what a message contains. Its sequence number and its status stay.
    func replaceContent(of old: Row, by change: MessageChange, now: Int64) throws(QueueError) {
        var row = old
        row.editedAt = ChangeRule.editedAt(after: old.editedAt, now: now)
        if let metadata = change.metadata { row.metadataText = metadata.isEmpty ? nil : MetadataCodec.encode(metadata) }
        if change.time != 0, change.time != old.time { try moveInTime(&row, to: change.time) }
        row.bodySize = Int64(change.body.count)
        row.contentHash = row.hashOfContent(change.body)
        let statement = try database.statement(
            "UPDATE message SET \(set: MessageColumn.edited) WHERE seq = \(parameter: MessageColumn.seq)")
        let fields = Fields<MessageColumn>(statement)
        fields.bind(.seq, row.sequence)
        fields.bind(.editedAt, row.editedAt)
        try fields.bind(.metadata, row.metadataText)
        fields.bind(.timeAt, row.timeAt)
        fields.bind(.contentHash, row.contentHash)
        fields.bind(.bodySize, row.bodySize)
        let isLarge = change.body.count > MessageInsertion.inlineBody
        try fields.bind(.body, borrowing: isLarge ? nil : change.body)
        try statement.run()
        if isLarge { try insertion.insertLarge(row.sequence, change.body) } else { try insertion.deleteLarge(row.sequence) }
        var delta = Counts()
        delta.add(row.progress.status, isReceived: row.isReceived, amount: 0, bytes: row.bodySize &- old.bodySize)
        counts.count(row, delta)
        unsentSums.note(from: old, to: row)
    }

    /// Gives a row another time, before it is written.
    func moveInTime(_ row: inout Row, to time: Int64) throws(QueueError) {
        let old = row
        row.timeAt = times.take(time, inPlaceOf: row.sequence, now: row.createdAt)
        times.noteChange(of: row.conversation)
        // Which messages are the oldest depends on the times.
        history.excess = []
        try noteTimed(row, insteadOf: old)
    }

    /// Called for a row that gets a time of its own, or replaces one in its place.
    func noteTimed(_ row: Row, insteadOf old: Row) throws(QueueError) {
        guard old.timeAt == 0, row.timeAt != 0, let end = state.timedFrom, row.sequence < end else { return }
        // The last plain rows may not be in the table yet.
        try insertion.settleBulk(from: Int64.max)
        try times.extend()
    }

    /// Notes that the expiry of a new message was computed by a wrong clock. It is ignored until `correctExpiry`.
    func ignoreExpiry(of row: Row) throws(QueueError) {
        try insertion.settleBulk(from: row.sequence)
        var progress = row.progress
        progress.ignoresExpiry = true
        try update(row, to: progress)
    }

    /// Sets another expiry, which is not ignored. `old` has its whole body.
    func correctExpiry(of old: Row, to expiresAt: Int64) throws(QueueError) {
        var progress = try correctTimes(of: old, notBefore: old.notBefore, expiresAt: expiresAt).progress
        progress.ignoresExpiry = false
        try update(old, to: progress)
    }

    /// Sets the times by another wall clock. `old` has its whole body.
    @discardableResult
    func correctTimes(of old: Row, notBefore: Int64, expiresAt: Int64) throws(QueueError) -> Row {
        var row = old
        (row.notBefore, row.expiresAt) = (notBefore, expiresAt)
        row.contentHash = row.body.withUnsafeBytes { row.hashOfContent($0) }
        let statement = try database.statement(
            "UPDATE message SET \(set: [MessageColumn.notBefore, .expiresAt, .contentHash]) WHERE seq = \(parameter: MessageColumn.seq)")
        let fields = Fields<MessageColumn>(statement)
        fields.bind(.seq, row.sequence)
        fields.bind(.notBefore, row.notBefore)
        fields.bind(.expiresAt, row.expiresAt)
        fields.bind(.contentHash, row.contentHash)
        try statement.run()
        unsentSums.note(from: old, to: row)
        return row
    }

    /// Which messages have rows in other tables.
    struct RowsBeside {
        fileprivate let largeBodies: Set<Int64>
        fileprivate let attempts: Set<Int64>
        fileprivate let inFlight: Set<Int64>
    }

    /// Returns which of these messages, in order, have rows in other tables; nil: there are too many others between them.
    func rowsBeside(_ messages: ArraySlice<Int64>) throws(QueueError) -> RowsBeside? {
        guard let first = messages.first, let last = messages.last, last.subtractingClamped(first) / 8 <= Int64(messages.count) else {
            return nil
        }
        func sequences(_ statement: Statement) throws(QueueError) -> Set<Int64> {
            statement.bind(1, first)
            statement.bind(2, last)
            return Set(try statement.integers())
        }
        return RowsBeside(
            largeBodies: try sequences(try database.statement("SELECT seq FROM large_body WHERE seq BETWEEN ?1 AND ?2")),
            attempts: try sequences(try database.statement("SELECT seq FROM attempt WHERE seq BETWEEN ?1 AND ?2")),
            inFlight: try sequences(try database.statement("SELECT seq FROM in_flight WHERE seq BETWEEN ?1 AND ?2")))
    }

    /// Removes a message and its rows in other tables. `kind`: why. `beside`: nil: it is not known whether it has any.
    func delete(
        _ row: Row, _ kind: StoredChange.Kind = .deleted, _ attempt: Attempt? = nil, _ beside: RowsBeside? = nil
    ) throws(QueueError) {
        try history.change(of: row, from: StoredStatus(row.progress.status, isReceived: row.isReceived), to: nil)
        try failures.note(of: row, nil)
        let sequence = row.sequence
        func run(_ deletion: Statement) throws(QueueError) {
            deletion.bind(1, sequence)
            try deletion.run()
        }
        try run(try database.statement("DELETE FROM message WHERE seq = ?1"))
        let existed = database.changes == 1
        if beside?.largeBodies.contains(sequence) ?? true { try run(try database.statement("DELETE FROM large_body WHERE seq = ?1")) }
        if beside?.attempts.contains(sequence) ?? true { try run(try database.statement("DELETE FROM attempt WHERE seq = ?1")) }
        if beside?.inFlight.contains(sequence) ?? true { try run(try database.statement("DELETE FROM in_flight WHERE seq = ?1")) }
        guard existed else { return }
        counts.noteRemoved(row)
        try feed?.noteGone(row, kind, attempt)
    }

    /// Removes a message that the host deletes, which may be damaged. `row`: its outline.
    func deleteAsked(_ row: Row, _ beside: RowsBeside? = nil, now: Int64) throws(QueueError) {
        try verifyCounts(for: row, .whole)
        try delete(row, .deleted, nil, beside)
        if !row.progress.status.isUnsent { try recentIDs.add(row.id, of: row.sequence, isReceived: row.isReceived, now: now) }
    }

    /// Writes the values of a damaged row with the types of their columns, so that the row can be changed.
    func convertTypes(of sequence: Int64) throws(QueueError) {
        let statement = try database.statement(ColumnTypes.convertOne)
        statement.bind(1, sequence)
        try statement.run()
    }
}
