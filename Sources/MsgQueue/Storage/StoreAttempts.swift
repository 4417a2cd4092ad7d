/// Attempts in flight, and the attempts that ended.
extension Store {
    /// Records that an attempt begins, so that after a crash it is known to have been interrupted.
    package func begin(attempt number: UInt32, of sequence: Int64, at startedAt: Int64) throws(QueueError) {
        let statement = try database.statement("INSERT OR REPLACE INTO in_flight(seq, number, started_at) VALUES(?1, ?2, ?3)")
        statement.bind(1, sequence)
        statement.bind(2, Int64(number))
        statement.bind(3, startedAt)
        try statement.run()
    }

    /// Writes the result of an attempt. `removedAt`: a message that was sent is removed at this time instead of entering the history.
    package func end(_ row: Row, _ resolution: Resolution, removedAt: Int64? = nil) throws(QueueError) {
        let isSent = resolution.fate == .sent && row.progress.status.isUnsent
        if isSent, let removedAt { return try removeSent(row, now: removedAt) }
        let isSettledLater = isSent && history.contains(row.sequence)
        if !isSettledLater { try removeInFlight(row.sequence) }
        switch resolution.fate {
        case .discarded, .deleted:
            try delete(row)
        case .sent, .queued, .failed:
            guard StatusRule.allows(row.progress.status, .sending) else {
                throw QueueError(.internal, "an attempt ended for message \(row.sequence), whose status is \(row.progress.status)")
            }
            if resolution.progress != row.progress {
                try update(row, to: resolution.progress, from: .sending, isSettledLater: isSettledLater)
            }
            if let attempt = resolution.attempt { try write(attempt, of: row.sequence) }
            // Also if only its last attempt is another.
            if resolution.fate == .failed { try noteFailure(of: row, resolution.progress) }
            if isSent { try trimLedger(ofSent: row) }
        }
    }

    /// Changes a message whose row does not match its checksum to `failed`, so that it does not block its conversation.
    package func markDamaged(_ sequence: Int64) throws(QueueError) {
        guard let row = try row(at: sequence, .outline), row.progress.status == .queued else { return }
        try verifyCounts(for: row, .whole)
        try convertTypes(of: sequence)
        var progress = Progress()
        progress.status = .failed
        progress.isDamaged = true
        try update(row, to: progress)
    }

    /// Writes an ended attempt, and removes those of the message that `LedgerRule` does not keep beside it.
    package func write(_ attempt: Attempt, of sequence: Int64) throws(QueueError) {
        let room = try ledgerRoom()
        let statement = try database.statement(
            """
            INSERT OR REPLACE INTO attempt(\(AttemptColumn.self)) VALUES(\(parameters: AttemptColumn.self))
            """)
        try attempt.bind(to: Fields(statement), of: sequence, room)
        try statement.run()
        if !failureChanges.failed.isEmpty { failureChanges.failed[sequence]?.attempt = attempt }
        guard let removed = LedgerRule.removed(before: Int64(attempt.number), room) else { return }
        let removal = try database.statement(
            """
            DELETE FROM attempt WHERE seq = ?1 AND number >= ?2 AND number <= ?3
              AND number IS NOT (SELECT max(number) FROM attempt WHERE seq = ?1 AND outcome = ?4)
              AND number IS NOT (SELECT max(number) FROM attempt WHERE seq = ?1 AND kind != ?5)
            """)
        removal.bind(1, sequence)
        removal.bind(2, removed.lowerBound)
        removal.bind(3, removed.upperBound)
        removal.bind(4, Int64(Attempt.Outcome.unknown.rawValue))
        removal.bind(5, Int64(FailureKind.offline.rawValue))
        try removal.run()
    }

    /// The room that attempts have in the files.
    private func ledgerRoom() throws(QueueError) -> LedgerRule.Room {
        let excess = limitFileBytes > 0 ? try fileUse(adding: 0).subtractingClamped(limitFileBytes) : 0
        return LedgerRule.room(excess: excess, isDiskFull: database.usesReserve)
    }

    /// Removes the attempts of a message that was sent, if there is no room for them.
    private func trimLedger(ofSent row: Row) throws(QueueError) {
        guard row.progress.attempts > 0, !LedgerRule.keepsAttempts(try ledgerRoom()) else { return }
        try deleteAttempts(of: row.sequence)
    }

    func deleteAttempts(of sequence: Int64) throws(QueueError) {
        let statement = try database.statement("DELETE FROM attempt WHERE seq = ?1")
        statement.bind(1, sequence)
        try statement.run()
    }

    /// Returns the ended attempts of a message, oldest first.
    package func attempts(of row: Row) throws(QueueError) -> [Attempt] {
        let statement = try database.statement("SELECT \(AttemptColumn.self) FROM attempt WHERE seq = ?1 ORDER BY number")
        statement.bind(1, row.sequence)
        var attempts: [Attempt] = []
        try statement.forEach { () throws(QueueError) in
            attempts.append(try attempt(statement, row.sequence))
            return true
        }
        let progress = row.progress
        if progress.sentAt != 0, !StatusRule.isRecorded(own: progress.status, attempts: progress.attempts) {
            attempts.removeAll { $0.number == progress.attempts }
            attempts.append(
                Attempt(
                    number: progress.attempts, startedAt: progress.lastAttemptAt, duration: progress.sentDuration, result: .sent,
                    kind: .none, code: progress.sentCode, text: "", arrival: .yes))
        }
        return attempts
    }

    /// Returns the last failed attempt: the reason why the message failed or waits.
    package func lastAttempt(of sequence: Int64) throws(QueueError) -> Attempt? {
        let statement = try database.statement(
            "SELECT \(AttemptColumn.self) FROM attempt WHERE seq = ?1 ORDER BY number DESC LIMIT 1")
        statement.bind(1, sequence)
        return try statement.first { () throws(QueueError) in try attempt(statement, sequence) }
    }

    /// Whether the last attempt of the message was interrupted by the end of its process. One that was not transmitted is passed over.
    package func wasInterrupted(_ row: Row) throws(QueueError) -> Bool {
        guard row.progress.perhapsArrived, row.progress.attempts > 0 else { return false }
        let statement = try database.statement("SELECT 1 FROM attempt WHERE seq = ?1 AND number = ?2 AND outcome = ?3")
        statement.bind(1, row.sequence)
        statement.bind(2, Int64(row.progress.attempts))
        statement.bind(3, Int64(Attempt.Outcome.unknown.rawValue))
        return try statement.first { true } ?? false
    }

    private func attempt(_ statement: Statement, _ sequence: Int64) throws(QueueError) -> Attempt {
        guard let attempt = Attempt(Fields(statement)) else {
            throw QueueError(.corrupt, "the attempts of message \(sequence) are damaged")
        }
        return attempt
    }

    /// Returns the attempts that were in flight when the last owner crashed, or closed the store before they ended. A message that was sent
    /// or recorded is in no attempt: its row stays until `settle`.
    package func interrupted() throws(QueueError) -> [(sequence: Int64, number: UInt32, startedAt: Int64)] {
        let statement = try database.statement(
            """
            SELECT f.seq, f.number, f.started_at FROM in_flight AS f LEFT JOIN message AS m ON m.seq = f.seq
            WHERE m.status IS NULL OR m.status NOT IN (\(StoredStatus.history)) ORDER BY f.seq
            """)
        var attempts: [(sequence: Int64, number: UInt32, startedAt: Int64)] = []
        try statement.forEach { () throws(QueueError) in
            attempts.append((statement.int(0), UInt32(clamping: statement.int(1)), statement.int(2)))
            return true
        }
        return attempts
    }

    /// Removes the record of an attempt that has ended, or whose message is gone.
    package func removeInFlight(_ sequence: Int64) throws(QueueError) {
        if history.unsettled.contains(sequence) { return try history.settle() }
        let statement = try database.statement("DELETE FROM in_flight WHERE seq = ?1")
        statement.bind(1, sequence)
        try statement.run()
    }
}
