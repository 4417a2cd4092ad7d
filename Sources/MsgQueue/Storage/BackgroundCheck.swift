/// The check of a store after its system stopped while it was in use. It runs in short steps while the store is in use: every message is
/// read and compared with its checksum, the messages are counted, and the other tables and indexes are read.
struct BackgroundCheck {
    private enum Stage {
        case messages
        /// The position in `entries`.
        case entries(Int)
        case done
    }

    /// A table or an index, read in the order of up to three columns.
    private struct Entries {
        let name: String
        let from: SQL
        let keys: [Key]
        var isIndex = true

        /// Returns the statement that reads all entries, or those after the one whose columns are its parameters.
        ///
        /// The latter has a part for each column: for `(a, seq) > (?1, ?2)` SQLite would read all entries with this `a`, because `seq` is the
        /// rowid.
        func sql(isFirst: Bool) -> String {
            let columns = keys.map(\.column)
            let entries = "SELECT \(columns.joined(separator: ", ")) FROM \(from.text)"
            let parts = columns.indices.reversed().map { place in
                let equal = columns[..<place].enumerated().map { " AND \($1) = ?\($0 + 1)" }.joined()
                return entries + equal + " AND \(columns[place]) > ?\(place + 1)"
            }
            let order = (1...max(columns.count, 1)).map { "\($0)" }.joined(separator: ", ")
            return (isFirst ? entries : parts.joined(separator: " UNION ALL ")) + " ORDER BY \(order)"
        }
    }

    private struct Key {
        let column: String
        let isText: Bool

        static func text(_ column: String) -> Key { Key(column: column, isText: true) }
        static func number(_ column: String) -> Key { Key(column: column, isText: false) }
    }

    /// `QueuedComparison` reads the two indexes of queued messages.
    private static let entries = [
        Entries(
            name: "message_conversation", from: "message INDEXED BY message_conversation WHERE indexed = 1",
            keys: [.text("conversation"), .number("seq")]),
        Entries(name: "message_named", from: "message INDEXED BY message_named WHERE named = 1", keys: [.text("id")]),
        Entries(
            name: "message_expiring", from: "message INDEXED BY message_expiring WHERE expires_at != 0 AND status = \(.queued)",
            keys: [.number("expires_at"), .number("seq")]),
        Entries(name: "message_failed", from: "message INDEXED BY message_failed WHERE status = \(.failed)", keys: [.number("seq")]),
        Entries(
            name: "message_failed_in", from: "message INDEXED BY message_failed_in WHERE status = \(.failed)",
            keys: [.text("conversation"), .number("seq")]),
        Entries(
            name: "message_replace", from: "message INDEXED BY message_replace WHERE replace_key IS NOT NULL AND status = \(.queued)",
            keys: [.text("conversation"), .text("replace_key")]),
        Entries(
            name: "message_priority", from: "message INDEXED BY message_priority WHERE priority != 0 AND status = \(.queued)",
            keys: [.number("priority"), .number("seq")]),
        Entries(
            name: "conversation_recent", from: "conversation INDEXED BY conversation_recent WHERE true",
            keys: [.number("last_seq"), .text("name")]),
        Entries(name: "recent_gone", from: "recent INDEXED BY recent_gone WHERE true", keys: [.number("gone_at"), .text("id")]),
        Entries(name: "conversation", from: "conversation WHERE true", keys: [.text("name")], isIndex: false),
        Entries(name: "recent", from: "recent WHERE true", keys: [.text("id")], isIndex: false),
        Entries(name: "attempt", from: "attempt WHERE true", keys: [.number("seq"), .number("number")], isIndex: false),
        Entries(name: "large_body", from: "large_body WHERE true", keys: [.number("seq")], isIndex: false),
        Entries(name: "in_flight", from: "in_flight WHERE true", keys: [.number("seq")], isIndex: false),
        Entries(name: "history", from: "history WHERE true", keys: [.number("status"), .number("seq")], isIndex: false),
        Entries(
            name: "history_in", from: "history_in WHERE true", keys: [.text("conversation"), .number("status"), .number("seq")],
            isIndex: false),
        Entries(name: "recent_own", from: "recent_own WHERE true", keys: [.number("seq")], isIndex: false),
    ]

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
    /// The last entry that was read.
    private var last: [String] = []
    private var findings: [String] = []
    private var isReadAgain = false

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

    /// Notes that the indexes and the counts were rebuilt from the messages.
    mutating func rebuilt() { expected = nil }

    var isDone: Bool {
        if case .done = stage { true } else { false }
    }

    /// What was found; nil: no damage.
    var report: String? {
        var sentences = findings
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
            isSound: report == nil, whole: whole, damaged: Int64(damaged.count), missing: 0, firstMissing: 0, lastMissing: 0,
            text: report.map { "\(Words.messages(whole)) whole; \($0)." } ?? "\(Words.messages(whole)), no damage found.")
    }

    // MARK: Steps

    /// Runs one step. Throws when the files cannot be read.
    mutating func step(_ store: Store) throws(QueueError) {
        let start = Ports.nanoseconds()
        func isTimeLeft() -> Bool { Ports.nanoseconds() &- start < Self.stepLength }
        do throws(QueueError) {
            switch stage {
            case .messages: try readMessages(store, isTimeLeft)
            case .entries(let index): try readEntries(index, store.database, isTimeLeft)
            case .done: return
            }
            isReadAgain = false
        } catch {
            guard error.code == .corrupt else { throw error }
            // A single failed read of a page may not be damage.
            store.dropPageCache()
            guard isReadAgain else { return isReadAgain = true }
            isReadAgain = false
            endDamagedStage(error)
        }
    }

    private mutating func endDamagedStage(_ error: QueueError) {
        switch stage {
        case .messages:
            findings.append("messages after sequence \(cursor) cannot all be read: \(error.detail)")
            stage = .entries(0)
        case .entries(let index):
            let entries = Self.entries[index]
            findings.append("\(entries.isIndex ? "the index" : "the table") \(entries.name) is damaged: \(error.detail)")
            nextEntries(after: index)
        case .done: return
        }
    }

    private mutating func readMessages(_ store: Store, _ isTimeLeft: () -> Bool) throws(QueueError) {
        let statement = try store.database.statement(
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
            do throws(QueueError) { _ = try store.read(fields, .whole) } catch {
                guard error.code == .corrupt else { throw error }
                suspects.append(next)
            }
            isAtEnd = isTimeLeft()
            return isAtEnd
        }
        for suspect in suspects {
            do throws(QueueError) { _ = try store.row(at: suspect, .whole) } catch {
                guard error.code == .corrupt else { throw error }
                damaged.count += 1
                if damaged.first.count < Self.shown { damaged.first.append(suspect) }
            }
        }
        (cursor, found) = (sequence, found + count)
        guard isAtEnd else { return }
        stage = .entries(0)
        // Damaged rows may not be counted.
        guard let expected, damaged.count == 0, expected != found else { return }
        findings.append("there are \(found) messages, but the counts show \(expected)")
    }

    private mutating func readEntries(_ index: Int, _ database: Database, _ isTimeLeft: () -> Bool) throws(QueueError) {
        let entries = Self.entries[index]
        let statement = try Statement(entries.sql(isFirst: last.isEmpty), database)
        defer { statement.finalize() }
        for (position, value) in last.enumerated() {
            if entries.keys[position].isText {
                try statement.bind(Int32(position + 1), value)
            } else {
                statement.bind(Int32(position + 1), Int64(value) ?? 0)
            }
        }
        var (reached, isAtEnd) = (last, true)
        try statement.forEach { () throws(QueueError) in
            guard !isTimeLeft() else { return true }
            isAtEnd = false
            reached = entries.keys.indices.map { statement.text(Int32($0)) }
            return false
        }
        guard !isAtEnd else { return nextEntries(after: index) }
        guard reached != last else { throw QueueError(.corrupt, "its entries are not in order") }
        last = reached
    }

    private mutating func nextEntries(after index: Int) {
        last = []
        stage = index + 1 < Self.entries.count ? .entries(index + 1) : .done
    }
}

extension Store {
    /// The result of one step of the check.
    package enum CheckStep: Equatable {
        case unfinished, sound
        case damaged(String)
    }

    /// Returns a check of the messages up to the present one, for its steps to be run.
    func checkInUse() -> BackgroundCheck { BackgroundCheck(through: lastSequence, counted: nil) }

    /// Whether the check of this session has not ended.
    package var isCheckDue: Bool { check != nil }

    /// Runs one step of the check. Throws when the files cannot be read.
    package func checkStep() throws(QueueError) -> CheckStep {
        guard !isInTransaction, var running = check else { return .unfinished }
        try running.step(self)
        check = running.isDone ? nil : running
        guard running.isDone else { return .unfinished }
        if let report = running.report { return .damaged(report) }
        noteChecked()
        return .sound
    }
}
