/// Attempts under way, and the ledger of those that ended.
extension Store {
    /// Lines that a ledger keeps of one message.
    private static let ledgerLength: Int64 = 1000

    /// An attempt is about to be made: from now on a crash is known to have cut it.
    package func begin(attempt number: UInt32, of sequence: Int64, at startedAt: Int64) throws(QueueError) {
        let statement = try database.statement("INSERT OR REPLACE INTO in_flight(seq, number, started_at) VALUES(?1, ?2, ?3)")
        statement.bind(1, sequence)
        statement.bind(2, Int64(number))
        statement.bind(3, startedAt)
        try statement.run()
    }

    /// Writes down what an attempt made of its message.
    package func end(_ row: Row, _ resolution: Resolution) throws(QueueError) {
        let statement = try database.statement("DELETE FROM in_flight WHERE seq = ?1")
        statement.bind(1, row.sequence)
        try statement.run()
        switch resolution.fate {
        case .discarded, .deleted:
            try delete(row)
        case .sent, .queued, .failed:
            guard StatusRule.allows(row.progress.status, .sending) else {
                throw QueueError(.internal, "an attempt of message \(row.sequence) ended, which is \(row.progress.status)")
            }
            if resolution.progress != row.progress { try update(row, to: resolution.progress, from: .sending) }
            if let attempt = resolution.attempt { try write(attempt, of: row.sequence) }
        }
    }

    /// A row whose checksum does not fit: it becomes `failed` as far as that can be written, so that it holds nothing up.
    package func markDamaged(_ sequence: Int64) throws(QueueError) {
        guard let row = try row(at: sequence, .outline), row.progress.status == .queued else { return }
        try fitCounts(to: row, .whole)
        var progress = Progress()
        progress.status = .failed
        progress.isDamaged = true
        try update(row, to: progress)
    }

    /// A line in the ledger; the oldest give way beyond a thousand.
    package func write(_ attempt: Attempt, of sequence: Int64) throws(QueueError) {
        let statement = try database.statement(
            """
            INSERT OR REPLACE INTO attempt(\(AttemptColumn.self)) VALUES(\(parameters: AttemptColumn.self))
            """)
        try attempt.bind(to: Fields(statement), of: sequence)
        try statement.run()
        guard Int64(attempt.number) > Self.ledgerLength else { return }
        let prune = try database.statement("DELETE FROM attempt WHERE seq = ?1 AND number <= ?2")
        prune.bind(1, sequence)
        prune.bind(2, Int64(attempt.number) - Self.ledgerLength)
        try prune.run()
    }

    /// The ledger of one message, oldest first, without what is under way.
    package func ledger(of row: Row) throws(QueueError) -> [Attempt] {
        let statement = try database.statement("SELECT \(AttemptColumn.self) FROM attempt WHERE seq = ?1 ORDER BY number")
        statement.bind(1, row.sequence)
        var lines: [Attempt] = []
        try statement.forEach { () throws(QueueError) in
            lines.append(try line(statement, row.sequence))
            return true
        }
        let progress = row.progress
        if progress.sentAt != 0 {
            lines.removeAll { $0.number == progress.attempts }
            lines.append(
                Attempt(
                    number: progress.attempts, startedAt: progress.lastAttemptAt, duration: progress.sentDuration, result: .sent,
                    kind: .none, code: progress.sentCode, text: "", arrival: .yes))
        }
        return lines
    }

    /// The last line of the ledger: why the message failed, or waits.
    package func lastAttempt(of sequence: Int64) throws(QueueError) -> Attempt? {
        let statement = try database.statement(
            "SELECT \(AttemptColumn.self) FROM attempt WHERE seq = ?1 ORDER BY number DESC LIMIT 1")
        statement.bind(1, sequence)
        return try statement.first { () throws(QueueError) in try line(statement, sequence) }
    }

    private func line(_ statement: Statement, _ sequence: Int64) throws(QueueError) -> Attempt {
        guard let attempt = Attempt(Fields(statement)) else {
            throw QueueError(.corrupt, "the ledger of message \(sequence) is damaged")
        }
        return attempt
    }

    /// Attempts that the last owner did not end: it crashed, or closed while they hung.
    package func interrupted() throws(QueueError) -> [(sequence: Int64, number: UInt32, startedAt: Int64)] {
        let statement = try database.statement("SELECT seq, number, started_at FROM in_flight ORDER BY seq")
        var attempts: [(sequence: Int64, number: UInt32, startedAt: Int64)] = []
        try statement.forEach { () throws(QueueError) in
            attempts.append((statement.int(0), UInt32(clamping: statement.int(1)), statement.int(2)))
            return true
        }
        return attempts
    }

    /// Forgets attempts whose messages are gone.
    package func forgetInterrupted(_ sequence: Int64) throws(QueueError) {
        let statement = try database.statement("DELETE FROM in_flight WHERE seq = ?1")
        statement.bind(1, sequence)
        try statement.run()
    }
}
