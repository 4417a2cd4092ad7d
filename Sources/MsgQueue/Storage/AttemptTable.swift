/// The tables `in_flight` and `attempt`: attempts in flight, and the attempts that ended.
final class AttemptTable {
    private let database: Database
    private let history: HistoryIndex

    init(_ database: Database, _ history: HistoryIndex) { (self.database, self.history) = (database, history) }

    /// The number of beginnings that one statement writes.
    private static let beginningsPerInsert = 16

    /// Records that attempts begin, so that after a crash they are known to have been interrupted.
    func begin(_ attempts: [(sequence: Int64, number: UInt32, startedAt: Int64)]) throws(QueueError) {
        var rest = attempts[...]
        while rest.count >= Self.beginningsPerInsert {
            try insert(
                rest.prefix(Self.beginningsPerInsert),
                try database.statement(
                    "INSERT OR REPLACE INTO in_flight(seq, number, started_at) VALUES \(rows: Self.beginningsPerInsert, width: 3)"))
            rest = rest.dropFirst(Self.beginningsPerInsert)
        }
        for attempt in rest {
            try insert(
                [attempt], try database.statement("INSERT OR REPLACE INTO in_flight(seq, number, started_at) VALUES \(rows: 1, width: 3)"))
        }
    }

    func begin(attempt number: UInt32, of sequence: Int64, at startedAt: Int64) throws(QueueError) {
        try begin([(sequence, number, startedAt)])
    }

    private func insert(
        _ attempts: ArraySlice<(sequence: Int64, number: UInt32, startedAt: Int64)>, _ statement: Statement
    ) throws(QueueError) {
        var parameter: Int32 = 0
        for (sequence, number, startedAt) in attempts {
            statement.bind(parameter + 1, sequence)
            statement.bind(parameter + 2, Int64(number))
            statement.bind(parameter + 3, startedAt)
            parameter += 3
        }
        try statement.run()
    }

    /// Writes an ended attempt, and removes those of the message that `LedgerRule` does not keep beside it.
    func write(_ attempt: Attempt, of sequence: Int64, _ room: LedgerRule.Room) throws(QueueError) {
        let statement = try database.statement(
            """
            INSERT OR REPLACE INTO attempt(\(AttemptColumn.self)) VALUES(\(parameters: AttemptColumn.self))
            """)
        try attempt.bind(to: Fields(statement), of: sequence, room)
        try statement.run()
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

    func delete(of sequence: Int64) throws(QueueError) {
        let statement = try database.statement("DELETE FROM attempt WHERE seq = ?1")
        statement.bind(1, sequence)
        try statement.run()
    }

    /// Returns the ended attempts of a message, oldest first.
    func list(of row: Row) throws(QueueError) -> [Attempt] {
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
    func last(of sequence: Int64) throws(QueueError) -> Attempt? {
        let statement = try database.statement(
            "SELECT \(AttemptColumn.self) FROM attempt WHERE seq = ?1 ORDER BY number DESC LIMIT 1")
        statement.bind(1, sequence)
        return try statement.first { () throws(QueueError) in try attempt(statement, sequence) }
    }

    /// Whether the last attempt of the message was interrupted by the end of its process. One that was not transmitted is passed over.
    func wasInterrupted(_ row: Row) throws(QueueError) -> Bool {
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
    func interrupted() throws(QueueError) -> [(sequence: Int64, number: UInt32, startedAt: Int64)] {
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
    func removeInFlight(_ sequence: Int64) throws(QueueError) {
        if history.unsettled.contains(sequence) { return try history.settle() }
        let statement = try database.statement("DELETE FROM in_flight WHERE seq = ?1")
        statement.bind(1, sequence)
        try statement.run()
    }
}
