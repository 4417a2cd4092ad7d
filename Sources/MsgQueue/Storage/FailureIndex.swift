/// Failed messages by what they failed with.
///
/// The table `failure` has a row for each failed message: the kind, the code and the time of the last row of `attempt`, which is the truth.
/// `failure_count` has the number of messages of each group, which are the messages with the same kind and code. Both follow in the transaction
/// that changes the status. So the groups are listed in a time that does not depend on the number of messages, and a page of a group reads
/// only its own rows.
struct FailureChanges {
    struct Group: Hashable {
        let kind: Int64
        let code: Int64
    }

    struct Change {
        var count: Int64 = 0
        /// Of the messages that failed; nil: none did.
        var times: ClosedRange<Int64>?
    }

    /// A message that failed, again or for the first time.
    struct Failed {
        let conversation: Name
        /// It has a row of an earlier failure.
        let hadFailed: Bool
        let isDamaged: Bool
        /// nil: not known here.
        var attempt: Attempt?
    }

    /// By sequence number: messages whose failure is not in the table yet.
    var failed: [Int64: Failed] = [:]
    /// What `failure_count` does not have yet.
    fileprivate(set) var groups: [Group: Change] = [:]

    var isEmpty: Bool { failed.isEmpty && groups.isEmpty }
}

/// The tables `failure` and `failure_count`: the failed messages by the reason of their last failure.
final class FailureIndex {
    private let database: Database
    private let attempts: AttemptTable
    private let repairs: Repairs
    /// What the tables do not have yet.
    private var changes = FailureChanges()

    init(_ database: Database, _ attempts: AttemptTable, _ repairs: Repairs) {
        (self.database, self.attempts, self.repairs) = (database, attempts, repairs)
    }

    func rollback() { changes = FailureChanges() }

    /// The time of a failure in the table is at most this, so that no sum overflows.
    private static let mostTime: SQL = "9007199254740992"

    /// The rows that `failure` must have, from the messages `m`. A failure that is not known, because the message or its attempts are damaged,
    /// is of the kind `unknown`.
    static let failures: SQL = """
        SELECT m.seq AS seq, iif(\(isKnown), a.kind, \(number: FailureKind.unknown.rawValue)) AS kind, iif(\(isKnown), a.code, 0) AS code,
          iif(\(isKnown), min(max(a.started_at, 0), \(mostTime)) + min(max(a.duration, 0), \(mostTime)),
            min(max(m.created_at, 0), \(mostTime))) AS failed_at,
          m.conversation AS conversation
        FROM message AS m NOT INDEXED LEFT JOIN attempt AS a ON a.seq = m.seq AND a.number = (SELECT max(number) FROM attempt WHERE seq = m.seq)
        WHERE m.status = \(.failed)
        """

    private static let isKnown: SQL = """
        m.flags & \(flag: .isDamaged) = 0 AND a.kind BETWEEN 1 AND \(number: FailureKind.allCases.count - 1)
        AND a.code BETWEEN \(number: Int32.min) AND \(number: Int32.max)
        """

    // MARK: Changes

    /// Notes a change of the status of a message, or that it failed again. `progress`: the new one; nil: the message is removed.
    func note(of row: Row, _ progress: Progress?) throws(QueueError) {
        let earlier = changes.failed.isEmpty ? nil : changes.failed.removeValue(forKey: row.sequence)
        if let progress, progress.status == .failed {
            changes.failed[row.sequence] = FailureChanges.Failed(
                conversation: row.conversation, hadFailed: earlier?.hadFailed ?? (row.progress.status == .failed),
                isDamaged: progress.isDamaged, attempt: earlier?.attempt)
        } else if row.progress.status == .failed || earlier?.hadFailed == true {
            try removeFailure(row.sequence)
        }
    }

    /// Notes the last attempt of a message that failed, if the message was noted before.
    func noteAttempt(_ attempt: Attempt, of sequence: Int64) {
        if !changes.failed.isEmpty { changes.failed[sequence]?.attempt = attempt }
    }

    private func removeFailure(_ sequence: Int64) throws(QueueError) {
        let search = try database.statement("SELECT kind, code FROM failure WHERE seq = ?1")
        search.bind(1, sequence)
        let found = try search.first { () throws(QueueError) in FailureChanges.Group(kind: search.int(0), code: search.int(1)) }
        guard let group = found else { return }
        // RETURNING would make a temporary table for each row.
        let removal = try database.statement("DELETE FROM failure WHERE seq = ?1")
        removal.bind(1, sequence)
        try removal.run()
        if database.changes == 1 { changes.groups[group, default: FailureChanges.Change()].count -= 1 }
    }

    private func insertFailure(_ sequence: Int64, _ failed: FailureChanges.Failed) throws(QueueError) {
        if failed.hadFailed { try removeFailure(sequence) }
        if let attempt = failed.attempt, attempt.kind != .none, !failed.isDamaged {
            guard try !insertFailure(sequence, failed.conversation, attempt) else { return }
        }
        // From the tables. A damaged store may have a row already.
        try removeFailure(sequence)
        let insertion = try database.statement(
            "INSERT INTO failure(seq, kind, code, failed_at, conversation) \(Self.failures) AND m.seq = ?1 RETURNING kind, code, failed_at")
        insertion.bind(1, sequence)
        let found = try insertion.first { () throws(QueueError) in
            (group: FailureChanges.Group(kind: insertion.int(0), code: insertion.int(1)), time: insertion.int(2))
        }
        if let found { add(found.group, at: found.time) }
    }

    /// Inserts the row of the attempt that was stored as the last one. Returns false when there is a row already.
    private func insertFailure(_ sequence: Int64, _ conversation: Name, _ attempt: Attempt) throws(QueueError) -> Bool {
        let most: Int64 = 1 << 53
        let time = min(max(attempt.startedAt, 0), most) + min(max(attempt.duration ?? 0, 0), most)
        let insertion = try database.statement(
            "INSERT OR IGNORE INTO failure(seq, kind, code, failed_at, conversation) VALUES(?1, ?2, ?3, ?4, ?5)")
        insertion.bind(1, sequence)
        insertion.bind(2, Int64(attempt.kind.rawValue))
        insertion.bind(3, Int64(attempt.code))
        insertion.bind(4, time)
        try insertion.bind(5, conversation.text)
        try insertion.run()
        guard database.changes == 1 else { return false }
        add(FailureChanges.Group(kind: Int64(attempt.kind.rawValue), code: Int64(attempt.code)), at: time)
        return true
    }

    private func add(_ group: FailureChanges.Group, at time: Int64) {
        var change = changes.groups[group] ?? FailureChanges.Change()
        change.count += 1
        change.times = min(change.times?.lowerBound ?? time, time)...max(change.times?.upperBound ?? time, time)
        changes.groups[group] = change
    }

    /// Writes what was noted, before the commit or before the tables are read.
    func write() throws(QueueError) {
        guard !changes.isEmpty else { return }
        for (sequence, failed) in changes.failed.sorted(by: { $0.key < $1.key }) { try insertFailure(sequence, failed) }
        for (group, change) in changes.groups { try write(change, of: group) }
        changes = FailureChanges()
    }

    private func write(_ change: FailureChanges.Change, of group: FailureChanges.Group) throws(QueueError) {
        let statement: Statement
        if let times = change.times {
            statement = try database.statement(
                """
                INSERT INTO failure_count(kind, code, count, first_at, last_at, proof)
                VALUES(?1, ?2, ?3, ?4, ?5, \(Self.proof("?3", "?4", "?5", "?1", "?2")))
                ON CONFLICT(kind, code) DO UPDATE SET count = count + ?3, first_at = min(first_at, ?4), last_at = max(last_at, ?5),
                  proof = proof + 3 * ?3 + 5 * (min(first_at, ?4) - first_at) + 7 * (max(last_at, ?5) - last_at)
                """)
            statement.bind(4, times.lowerBound)
            statement.bind(5, times.upperBound)
        } else {
            statement = try database.statement(
                "UPDATE failure_count SET count = count + ?3, proof = proof + 3 * ?3 WHERE kind = ?1 AND code = ?2")
        }
        try run(statement, group, change.count)
        guard change.count < 0 else { return }
        try run(try database.statement("DELETE FROM failure_count WHERE kind = ?1 AND code = ?2 AND count <= 0 AND ?3"), group, 1)
    }

    private func run(_ statement: Statement, _ group: FailureChanges.Group, _ count: Int64) throws(QueueError) {
        statement.bind(1, group.kind)
        statement.bind(2, group.code)
        statement.bind(3, count)
        try statement.run()
    }

    /// The checksum of a row of `failure_count`. It is linear, so that a change can update it without reading the row.
    static func proof(_ count: SQL, _ first: SQL, _ last: SQL, _ kind: SQL, _ code: SQL) -> SQL {
        "3 * \(count) + 5 * \(first) + 7 * \(last) + 11 * \(kind) + 13 * \(code)"
    }

    /// Rebuilds both tables from the messages and their attempts, inside the caller's transaction.
    func rebuild() throws(QueueError) {
        changes = FailureChanges()
        for sql in [
            "DELETE FROM failure", "DELETE FROM failure_count",
            "INSERT INTO failure(seq, kind, code, failed_at, conversation) \(Self.failures) ORDER BY m.seq",
            """
            INSERT INTO failure_count(kind, code, count, first_at, last_at, proof)
            SELECT kind, code, c, f, l, \(Self.proof("c", "f", "l", "kind", "code")) FROM (
              SELECT kind, code, count(*) AS c, min(failed_at) AS f, max(failed_at) AS l FROM failure GROUP BY kind, code)
            """,
        ] as [SQL] { try database.execute(sql.text) }
    }

    // MARK: Reading

    /// Returns the groups with the most messages.
    func groups(limit: Int) throws(QueueError) -> [FailureGroup] {
        if let groups = try readFailureGroups(limit) { return groups }
        Log.warning("\(database.path): the list of failures is damaged and is rebuilt from the messages")
        try repairs.run { () throws(QueueError) in try rebuild() }
        return try readFailureGroups(limit) ?? []
    }

    /// Returns nil when a row is damaged.
    private func readFailureGroups(_ limit: Int) throws(QueueError) -> [FailureGroup]? {
        let statement = try database.statement(
            """
            SELECT kind, code, count, first_at, last_at, proof = \(Self.proof("count", "first_at", "last_at", "kind", "code"))
            FROM failure_count ORDER BY 6, count DESC, kind, code LIMIT ?1
            """)
        statement.bind(1, Int64(limit))
        var groups: [FailureGroup] = []
        var isDamaged = false
        try statement.forEach { () throws(QueueError) in
            guard statement.bool(5), let code = Int32(exactly: statement.int(1)),
                let kind = Int32(exactly: statement.int(0)).flatMap(FailureKind.init(rawValue:))
            else {
                isDamaged = true
                return false
            }
            groups.append(
                FailureGroup(
                    kind: kind, code: code, count: max(statement.int(2), 0), firstAt: statement.int(3), lastAt: statement.int(4), text: ""))
            return true
        }
        guard !isDamaged else { return nil }
        for place in groups.indices { groups[place].text = try textOfNewest(groups[place]) }
        return groups
    }

    /// Returns the text of the failure of the newest message in a group.
    private func textOfNewest(_ group: FailureGroup) throws(QueueError) -> String {
        let statement = try database.statement(
            "SELECT max(seq) FROM failure INDEXED BY failure_group WHERE kind = ?1 AND code = ?2")
        statement.bind(1, Int64(group.kind.rawValue))
        statement.bind(2, Int64(group.code))
        guard let newest = try statement.first({ () throws(QueueError) in statement.int(0) }), newest > 0 else { return "" }
        do throws(QueueError) { return try attempts.last(of: newest)?.text ?? "" } catch {
            // The list of attempts of a message that cannot be read says so.
            guard error.code == .corrupt else { throw error }
            return ""
        }
    }

    /// Returns the first failed messages of the filter's page.
    func sequences(_ filter: Filter) throws(QueueError) -> [Int64] {
        var found: [Int64] = []
        for group in try groups(of: filter) {
            // A later group adds only what is before the last one that was found.
            let last = found.count == filter.limit ? found.last : nil
            found += try sequences(of: group, filter, through: last)
            found.sort(by: filter.newestFirst ? { $0 > $1 } : { $0 < $1 })
            found.removeLast(max(found.count - filter.limit, 0))
        }
        return found
    }

    /// Returns the groups that the filter selects, with or without messages.
    private func groups(of filter: Filter) throws(QueueError) -> [FailureChanges.Group] {
        if filter.failureKind != .none, let code = filter.failureCode {
            return [FailureChanges.Group(kind: Int64(filter.failureKind.rawValue), code: Int64(code))]
        }
        var groups: [FailureChanges.Group] = []
        for kind in FailureKind.allCases where kind != .none && (filter.failureKind == .none || filter.failureKind == kind) {
            let number = Int64(kind.rawValue)
            if let code = filter.failureCode {
                groups.append(FailureChanges.Group(kind: number, code: Int64(code)))
                continue
            }
            var code: Int64? = try nextCode(of: number, from: Int64.min)
            while let next = code {
                groups.append(FailureChanges.Group(kind: number, code: next))
                code = next < Int64.max ? try nextCode(of: number, from: next + 1) : nil
            }
        }
        return groups
    }

    private func nextCode(of kind: Int64, from code: Int64) throws(QueueError) -> Int64? {
        let statement = try database.statement(
            "SELECT code FROM failure INDEXED BY failure_group WHERE kind = ?1 AND code >= ?2 ORDER BY code LIMIT 1")
        statement.bind(1, kind)
        statement.bind(2, code)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    private func sequences(
        of group: FailureChanges.Group, _ filter: Filter, through last: Int64?
    ) throws(QueueError) -> [Int64] {
        let statement: Statement
        switch (filter.conversation != nil, filter.newestFirst) {
        case (false, false): statement = try database.statement(Self.page(inConversation: false, newestFirst: false))
        case (false, true): statement = try database.statement(Self.page(inConversation: false, newestFirst: true))
        case (true, false): statement = try database.statement(Self.page(inConversation: true, newestFirst: false))
        case (true, true): statement = try database.statement(Self.page(inConversation: true, newestFirst: true))
        }
        let first = filter.newestFirst && filter.after == 0 ? Int64.max : filter.after
        statement.bind(1, group.kind)
        statement.bind(2, group.code)
        statement.bind(3, filter.newestFirst ? last ?? 0 : first)
        statement.bind(4, filter.newestFirst ? first : last ?? Int64.max)
        statement.bind(5, Int64(filter.limit))
        if let conversation = filter.conversation { try statement.bind(6, conversation) }
        return try statement.integers()
    }

    /// Messages between ?3 and ?4, without these.
    private static func page(inConversation: Bool, newestFirst: Bool) -> SQL {
        let index: SQL = inConversation ? "failure_group_in WHERE conversation = ?6 AND" : "failure_group WHERE"
        let order: SQL = newestFirst ? "seq DESC" : "seq"
        return "SELECT seq FROM failure INDEXED BY \(index) kind = ?1 AND code = ?2 AND seq > ?3 AND seq < ?4 ORDER BY \(order) LIMIT ?5"
    }
}
