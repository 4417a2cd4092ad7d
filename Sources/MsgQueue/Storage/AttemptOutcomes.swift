/// What the ends of attempts change, inside the caller's transaction.
final class AttemptOutcomes {
    private let database: Database
    private let messages: MessageTable
    private let history: HistoryIndex
    private let attempts: AttemptTable
    private let failures: FailureIndex
    private let recentIDs: RecentIDs
    private let space: DiskSpace
    /// The maximum size of the files; 0: no limit.
    private let limitFileBytes: Int64

    init(_ messages: MessageTable, _ space: DiskSpace, limitFileBytes: Int64) {
        (database, self.messages, history) = (messages.database, messages, messages.history)
        (attempts, failures, recentIDs) = (messages.attempts, messages.failures, messages.recentIDs)
        (self.space, self.limitFileBytes) = (space, limitFileBytes)
    }

    /// Writes the result of an attempt. `removedAt`: a message that was sent is removed at this time instead of entering the history.
    func end(_ row: Row, _ resolution: Resolution, removedAt: Int64? = nil) throws(QueueError) {
        let isSent = resolution.fate == .sent && row.progress.status.isUnsent
        if isSent, let removedAt {
            let status = resolution.progress.status
            return try removeSent(row, receipt: status == .sent ? nil : status, now: removedAt)
        }
        let isSettledLater = isSent && history.contains(row.sequence)
        if !isSettledLater { try attempts.removeInFlight(row.sequence) }
        switch resolution.fate {
        case .discarded, .deleted:
            let isDiscarded = resolution.fate == .discarded
            try messages.delete(row, isDiscarded ? .discarded : .deleted, isDiscarded ? resolution.attempt : nil)
            messages.feed?.amend(row.sequence, .sending)
        case .sent, .queued, .failed:
            guard StatusRule.allows(row.progress.status, .sending) else {
                throw QueueError(.internal, "an attempt ended for message \(row.sequence), whose status is \(row.progress.status)")
            }
            if resolution.progress != row.progress {
                try messages.update(row, to: resolution.progress, from: .sending, isSettledLater: isSettledLater)
            }
            try messages.feed?.noteEnd(of: row, resolution)
            if let attempt = resolution.attempt { try write(attempt, of: row.sequence) }
            // Also if only its last attempt is another.
            if resolution.fate == .failed { try failures.note(of: row, resolution.progress) }
            if isSent { try trimLedger(ofSent: row) }
        }
    }

    /// The number of ends that one statement writes.
    static let endsTogether = 16

    /// Whether `endTogether` can write the result.
    func canGather(_ row: Row, _ resolution: Resolution) -> Bool {
        resolution.isPlainSuccess(of: row.progress) && history.contains(row.sequence)
    }

    /// Writes the results of several attempts for which `canGather` is true, as `end` does.
    func endTogether(_ ends: [(row: Row, resolution: Resolution)]) throws(QueueError) {
        guard ends.count == Self.endsTogether, try messages.updateSent(ends) else {
            for (row, resolution) in ends { try end(row, resolution) }
            return
        }
        for (row, resolution) in ends { try messages.feed?.noteEnd(of: row, resolution) }
    }

    /// Ends an attempt that a previous process did not end. Returns the message's id and the result; nil: there is no such attempt, or its
    /// message is damaged.
    func recover(
        _ attempt: (sequence: Int64, number: UInt32, startedAt: Int64), _ options: Options
    ) throws(QueueError) -> (id: String, Resolution)? {
        let row: Row
        do throws(QueueError) {
            // The record of an attempt in flight has no checksum: ignore it if the message's status does not fit.
            guard let found = try messages.row(at: attempt.sequence, .whole), StatusRule.allows(found.progress.status, .sending) else {
                try attempts.removeInFlight(attempt.sequence)
                return nil
            }
            row = found
        } catch {
            // One damaged message does not prevent sending others.
            guard error.code == .corrupt else { throw error }
            Log.error("\(database.path): \(error.detail)")
            try markDamaged(attempt.sequence)
            try attempts.removeInFlight(attempt.sequence)
            return nil
        }
        let resolution = OutcomeRule.recover(
            // Taken from the message, which has a checksum, unlike the record of the attempt.
            number: row.progress.attempts &+ 1, startedAt: max(attempt.startedAt, 0), of: row.progress,
            holdInterrupted: options.holdInterrupted, maxRetries: options.maxRetries)
        try end(row, resolution)
        return (row.id, resolution)
    }

    /// Changes a message whose row does not match its checksum to `failed`, so that it does not block its conversation.
    func markDamaged(_ sequence: Int64) throws(QueueError) {
        guard let row = try messages.row(at: sequence, .outline), row.progress.status == .queued else { return }
        try messages.verifyCounts(for: row, .whole)
        try messages.convertTypes(of: sequence)
        var progress = Progress()
        progress.status = .failed
        progress.isDamaged = true
        try messages.update(row, to: progress)
    }

    /// Writes an ended attempt.
    func write(_ attempt: Attempt, of sequence: Int64) throws(QueueError) {
        try attempts.write(attempt, of: sequence, try ledgerRoom())
        failures.noteAttempt(attempt, of: sequence)
        messages.feed?.amend(sequence, attempt.kind, code: attempt.code)
    }

    /// The room that attempts have in the files.
    private func ledgerRoom() throws(QueueError) -> LedgerRule.Room {
        let excess = limitFileBytes > 0 ? try space.use(adding: 0).subtractingClamped(limitFileBytes) : 0
        return LedgerRule.room(excess: excess, isDiskFull: space.usesReserve)
    }

    /// Removes the attempts of a message that was sent, if there is no room for them.
    private func trimLedger(ofSent row: Row) throws(QueueError) {
        guard row.progress.attempts > 0, !LedgerRule.keepsAttempts(try ledgerRoom()) else { return }
        try attempts.delete(of: row.sequence)
    }

    /// Removes the record of an attempt whose call was not made.
    func revoke(_ sequence: Int64) throws(QueueError) {
        try attempts.removeInFlight(sequence)
        guard let feed = messages.feed, let row = try messages.row(at: sequence, .outline) else { return }
        try feed.note(.status, row.progress.status, of: row)
    }

    /// Removes a message whose attempt ended as sent, and remembers its id. `row`: the message as it was when the attempt began.
    private func removeSent(_ row: Row, receipt: MessageStatus? = nil, now: Int64) throws(QueueError) {
        try recentIDs.add(row.id, of: row.sequence, isReceived: false, now: now)
        if let feed = messages.feed {
            try feed.note(.status, .sent, of: row)
            if let receipt { try feed.note(.status, receipt, of: row) }
        }
        try messages.delete(row, .pruned)
        messages.feed?.amend(row.sequence, receipt ?? .sent)
    }
}
