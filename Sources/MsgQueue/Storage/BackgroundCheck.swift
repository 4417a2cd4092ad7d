/// The check of a store after its system stopped while it was in use, or on request. It runs in short steps while the store is in use: every
/// message is read and compared with its checksum, the messages are counted, and what is derived from them is compared (`Derived`).
struct BackgroundCheck {
    private enum Stage { case messages, derived, done }

    /// The length of a step in nanoseconds. It ends after the message that exceeds it.
    private static let stepLength: UInt64 = 1_000_000
    /// The number of sequence numbers in the report.
    private static let shown = 8

    private var stage = Stage.messages
    /// The last sequence number that is checked: later messages are written by this session.
    private let end: Int64
    private var cursor: Int64 = 0
    /// The number of messages up to `end`: those read, and those that must exist by the counts; nil: the counts were rebuilt since.
    private var found: Int64 = 0
    private var expected: Int64?
    private var damaged: (count: Int, first: [Int64]) = (0, [])
    private var findings: [String] = []
    private var isReadAgain = false
    /// nil: the messages are still being read.
    private var derived: DerivedCheck?

    /// `counted`: nil if the number of messages may change while the check runs.
    init(through end: Int64, counted: Int64?) {
        self.end = end
        expected = counted
    }

    /// Notes that a message was removed.
    mutating func removed(_ row: Row) {
        guard row.sequence <= end, row.sequence > cursor, row.isCounted else { return }
        expected = expected.map { $0 &- 1 }
    }

    /// Notes a change of the counts of a folded message.
    mutating func changed(_ sequence: Int64, _ conversation: Name, by delta: Counts) {
        derived?.changed(sequence, conversation, by: delta)
    }

    /// Notes that the indexes and the counts were rebuilt from the messages.
    mutating func rebuilt() {
        expected = nil
        if stage == .derived { stage = .done }
    }

    var isDone: Bool { stage == .done }

    /// What is derived from the messages differs from them and must be rebuilt.
    var needsRebuild: Bool { derived?.differs ?? false }

    /// What was found; nil: no damage.
    var report: String? {
        var sentences = findings + (derived?.findings ?? [])
        if damaged.count > 0 {
            let list = damaged.first.map { String($0) }.joined(separator: ", ") + (damaged.count > Self.shown ? ", …" : "")
            sentences.append("\(Words.messages(Int64(damaged.count))) damaged; damaged sequences: \(list)")
        }
        return sentences.isEmpty ? nil : sentences.joined(separator: "; ")
    }

    /// The report of a check that has ended.
    var checkReport: CheckReport {
        let whole = found - Int64(damaged.count)
        return CheckReport(
            isSound: report == nil, whole: whole, damaged: Int64(damaged.count), missing: 0, firstMissing: nil, lastMissing: nil,
            text: report.map { "\(Words.messages(whole)) whole; \($0)." } ?? "\(Words.messages(whole)), no damage found.")
    }

    // MARK: Steps

    /// Runs one step. Throws when the files cannot be read.
    mutating func step(_ messages: MessageTable) throws(QueueError) {
        let start = Ports.nanoseconds()
        func isTimeLeft() -> Bool { Ports.nanoseconds() &- start < Self.stepLength }
        switch stage {
        case .messages: try readMessagesTwice(messages, isTimeLeft)
        case .derived: try compareDerived(messages, isTimeLeft)
        case .done: return
        }
    }

    private mutating func readMessagesTwice(_ messages: MessageTable, _ isTimeLeft: () -> Bool) throws(QueueError) {
        do throws(QueueError) {
            try readMessages(messages, isTimeLeft)
            isReadAgain = false
        } catch {
            guard error.code == .corrupt else { throw error }
            // A single failed read of a page may not be damage.
            messages.database.dropPageCache()
            guard isReadAgain else { return isReadAgain = true }
            isReadAgain = false
            findings.append("messages after sequence \(cursor) cannot all be read: \(error.detail)")
            stage = .derived
        }
    }

    private mutating func compareDerived(_ messages: MessageTable, _ isTimeLeft: () -> Bool) throws(QueueError) {
        var check: DerivedCheck
        if let derived { check = derived } else { check = try DerivedCheck(of: messages.database) }
        check.ignoresBytes = damaged.count > 0
        // In place, because a copy of its list for each change would take time.
        derived = nil
        defer { derived = check }
        try check.step(
            messages.database, DerivedCheck.Bounds(folded: messages.state.foldedThrough, historyAfter: messages.history.start), isTimeLeft)
        if check.isDone { stage = .done }
    }

    private mutating func readMessages(_ messages: MessageTable, _ isTimeLeft: () -> Bool) throws(QueueError) {
        let statement = try messages.database.statement(
            "SELECT \(MessageColumn.self) FROM message NOT INDEXED WHERE seq > ?1 AND seq <= ?2 ORDER BY seq")
        statement.bind(1, cursor)
        statement.bind(2, end)
        var (sequence, count, isAtEnd) = (cursor, Int64(0), true)
        var suspects: [Int64] = []
        try statement.forEach { () throws(QueueError) in
            let fields = Fields<MessageColumn>(statement)
            let next = fields.int(.seq)
            guard next > sequence else { throw QueueError(.corrupt, "the messages are not in order") }
            (sequence, count) = (next, count + 1)
            do throws(QueueError) { _ = try messages.read(fields, .whole) } catch {
                guard error.code == .corrupt else { throw error }
                suspects.append(next)
            }
            isAtEnd = isTimeLeft()
            return isAtEnd
        }
        for suspect in suspects {
            do throws(QueueError) { _ = try messages.row(at: suspect, .whole) } catch {
                guard error.code == .corrupt else { throw error }
                damaged.count += 1
                if damaged.first.count < Self.shown { damaged.first.append(suspect) }
            }
        }
        (cursor, found) = (sequence, found + count)
        guard isAtEnd else { return }
        stage = .derived
        // Damaged rows may not be counted.
        guard let expected, damaged.count == 0, expected != found else { return }
        findings.append("there are \(found) messages, but the counts show \(expected)")
    }
}
