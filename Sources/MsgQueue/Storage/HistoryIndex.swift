/// Sent messages whose entries in the index of the history are not written yet. Follows the transaction.
struct Unsettled {
    typealias Message = (sequence: Int64, conversation: Name, status: StoredStatus)

    private(set) var messages: [Message] = []
    private var sequences: Set<Int64> = []
    /// The number of messages when the transaction began.
    private var countAtBegin = 0
    /// The messages when the transaction began, if it removed them.
    private var removed: [Message]?

    var isEmpty: Bool { messages.isEmpty }
    var count: Int { messages.count }
    /// The lowest sequence number.
    var oldest: Int64? { sequences.min() }

    func contains(_ sequence: Int64) -> Bool { sequences.contains(sequence) }

    mutating func begin() { (countAtBegin, removed) = (messages.count, nil) }

    mutating func append(_ message: Message) {
        messages.append(message)
        sequences.insert(message.sequence)
    }

    mutating func removeAll() {
        if removed == nil { removed = Array(messages.prefix(countAtBegin)) }
        messages.removeAll(keepingCapacity: true)
        sequences.removeAll(keepingCapacity: true)
    }

    mutating func rollback() {
        if let removed { messages = removed } else { messages.removeLast(max(0, messages.count - countAtBegin)) }
        sequences = Set(messages.lazy.map(\.sequence))
        begin()
    }
}

/// The index of the history: the sequence numbers of messages that were sent or recorded, by status in the table `history`, and by
/// conversation and status in `history_in`. It contains the folded rows after `start`.
///
/// They are tables, because an index would be written with each outcome. The row of `in_flight` of a message that was sent stays until
/// `settle` writes the entries of many such messages; `unsettled` lists them.
final class HistoryIndex {
    private let database: Database
    private let state: StateRow
    private(set) var unsettled = Unsettled()
    /// Rows up to this one are not in the index. 0 except in an older store.
    private(set) var start: Int64 = 0
    private var startAtBegin: Int64 = 0
    /// Messages of the history in excess of its limit, which the next steps of pruning remove, the last one first.
    var excess: [Int64] = []

    init(_ database: Database, _ state: StateRow) { (self.database, self.state) = (database, state) }

    func begin() {
        startAtBegin = start
        unsettled.begin()
    }

    func rollback() {
        start = startAtBegin
        excess = []
        unsettled.rollback()
    }

    /// The number of sent messages without entries at which these are written. Many share the pages of `history_in`, also when they belong to
    /// a hundred conversations; writing them takes about a millisecond.
    private static let settleEvery = 512
    /// The number of entries that one statement adds.
    private static let entriesPerInsert = 16
    /// A step of pruning adds the entries of so many rows of an older store for each message that it may remove otherwise.
    static let extensionPerRemoval: Int64 = 8

    /// Whether a message with a status of the history has entries in the index.
    func contains(_ sequence: Int64) -> Bool { sequence > start && sequence <= state.foldedThrough }

    // MARK: Changes

    /// Notes that a message in flight was sent, perhaps with a receipt. Its row of `in_flight` stays until `settle`.
    func noteSent(_ row: Row, _ status: StoredStatus) throws(QueueError) {
        unsettled.append((row.sequence, row.conversation, status))
        if unsettled.count >= Self.settleEvery { try settle() }
    }

    /// Writes the entries of the messages in `unsettled`, and removes their rows of `in_flight`.
    func settle() throws(QueueError) {
        guard !unsettled.isEmpty else { return }
        // By conversation, as `history_in` has them.
        let messages = unsettled.messages.filter { contains($0.sequence) }
        var rest = messages.sorted { ($0.conversation.text, $0.sequence) < ($1.conversation.text, $1.sequence) }[...]
        while rest.count >= Self.entriesPerInsert {
            try insertEntries(of: rest.prefix(Self.entriesPerInsert))
            rest = rest.dropFirst(Self.entriesPerInsert)
        }
        for message in rest { try insertEntry(of: message) }
        try removeEnded()
        unsettled.removeAll()
    }

    /// Removes the rows of `in_flight` of the messages in `unsettled`. Those of attempts in flight stay.
    private func removeEnded() throws(QueueError) {
        let rows = try database.statement("SELECT seq FROM in_flight ORDER BY seq").integers()
        let ended = rows.split { !unsettled.contains($0) }
        if ended.first?.count == rows.count {
            // SQLite removes all rows of a table without visiting them.
            return try database.statement("DELETE FROM in_flight").run()
        }
        let removal = try database.statement("DELETE FROM in_flight WHERE seq >= ?1 AND seq <= ?2")
        for range in ended {
            guard let first = range.first, let last = range.last else { continue }
            removal.bind(1, first)
            removal.bind(2, last)
            try removal.run()
        }
    }

    /// Adds the entries of a message, which may have them already.
    private func insertEntry(of message: Unsettled.Message) throws(QueueError) {
        try insert(
            [message], try database.statement("INSERT OR IGNORE INTO history(status, seq) VALUES \(rows: 1, width: 2)"),
            try database.statement("INSERT OR IGNORE INTO history_in(conversation, status, seq) VALUES \(rows: 1, width: 3)"))
    }

    /// The same for `entriesPerInsert` messages.
    private func insertEntries(of messages: ArraySlice<Unsettled.Message>) throws(QueueError) {
        let rows = Self.entriesPerInsert
        try insert(
            messages, try database.statement("INSERT OR IGNORE INTO history(status, seq) VALUES \(rows: rows, width: 2)"),
            try database.statement("INSERT OR IGNORE INTO history_in(conversation, status, seq) VALUES \(rows: rows, width: 3)"))
    }

    private func insert(
        _ messages: ArraySlice<Unsettled.Message>, _ entries: Statement, _ entriesIn: Statement
    ) throws(QueueError) {
        var (parameter, parameterIn): (Int32, Int32) = (0, 0)
        for message in messages {
            entries.bind(parameter + 1, message.status.rawValue)
            entries.bind(parameter + 2, message.sequence)
            try entriesIn.bind(parameterIn + 1, message.conversation.text)
            entriesIn.bind(parameterIn + 2, message.status.rawValue)
            entriesIn.bind(parameterIn + 3, message.sequence)
            (parameter, parameterIn) = (parameter + 2, parameterIn + 3)
        }
        try entries.run()
        try entriesIn.run()
    }

    /// Updates the index after a message changed its status. nil: it had none before, or was removed.
    func change(of row: Row, from old: StoredStatus?, to new: StoredStatus?) throws(QueueError) {
        if old?.isHistory == true { excess = [] }
        try changeEntries(of: row, from: old, to: new)
    }

    /// The same for pruning.
    func changeEntries(of row: Row, from old: StoredStatus?, to new: StoredStatus?) throws(QueueError) {
        guard contains(row.sequence) else { return }
        let (old, new) = (old.flatMap { $0.isHistory ? $0 : nil }, new.flatMap { $0.isHistory ? $0 : nil })
        guard old != nil || new != nil else { return }
        if unsettled.contains(row.sequence) { try settle() }
        if let old {
            let entry = try database.statement("DELETE FROM history WHERE status = ?1 AND seq = ?2")
            try run(entry, old, row.sequence)
            let entryIn = try database.statement("DELETE FROM history_in WHERE conversation = ?3 AND status = ?1 AND seq = ?2")
            try entryIn.bind(3, row.conversation.text)
            try run(entryIn, old, row.sequence)
        }
        if let new { try insertEntry(of: (row.sequence, row.conversation, new)) }
    }

    private func run(_ statement: Statement, _ status: StoredStatus, _ sequence: Int64) throws(QueueError) {
        statement.bind(1, status.rawValue)
        statement.bind(2, sequence)
        try statement.run()
    }

    /// Adds the rows after one sequence number and up to another one.
    func add(after first: Int64, through last: Int64) throws(QueueError) {
        for statement in [
            try database.statement(
                """
                INSERT OR IGNORE INTO history(status, seq) SELECT status, seq FROM message NOT INDEXED
                WHERE seq > ?1 AND seq <= ?2 AND status IN (\(StoredStatus.history)) ORDER BY seq
                """),
            try database.statement(
                """
                INSERT OR IGNORE INTO history_in(conversation, status, seq) SELECT conversation, status, seq FROM message NOT INDEXED
                WHERE seq > ?1 AND seq <= ?2 AND status IN (\(StoredStatus.history)) ORDER BY seq
                """),
        ] {
            statement.bind(1, first)
            statement.bind(2, last)
            try statement.run()
        }
    }

    // MARK: Older stores

    func hasTables() throws(QueueError) -> Bool {
        let tables = try database.statement("SELECT count(*) FROM sqlite_schema WHERE name IN ('history', 'history_in', 'recent_own')")
        return try tables.first { () throws(QueueError) in tables.int(0) } == 3
    }

    /// Reads how far the index goes, and the sent messages without entries.
    func read() throws(QueueError) {
        start = try HistoryMark.read(database, upTo: state.foldedThrough)
        let ended = try database.statement(
            """
            SELECT m.seq, m.conversation, m.status FROM in_flight AS f CROSS JOIN message AS m ON m.seq = f.seq
            WHERE m.status IN (\(StoredStatus.history))
            """)
        try ended.forEach { () throws(QueueError) in
            if let status = StoredStatus(rawValue: ended.int(2)) { unsettled.append((ended.int(0), Name(ended.text(1)), status)) }
            return true
        }
        unsettled.begin()
    }

    /// Creates the tables in a store of an earlier version, whose rows get their entries later.
    func create() throws(QueueError) {
        start = state.foldedThrough
        for sql in Schema.historyTables { try database.execute(sql) }
        try writeMark()
    }

    /// Whether rows of an older store are not in the index yet.
    var isIncomplete: Bool { start > 0 }

    /// Adds some rows of an older store, the newest first, inside the caller's transaction.
    func extend(by rows: Int64) throws(QueueError) {
        let lowest = try database.statement(
            "SELECT min(seq) FROM (SELECT seq FROM message NOT INDEXED WHERE seq <= ?1 ORDER BY seq DESC LIMIT ?2)")
        lowest.bind(1, start)
        lowest.bind(2, rows)
        let first = try lowest.first { () throws(QueueError) in lowest.int(0) } ?? 0
        let last = start
        start = max(first - 1, 0)
        // What `start` excluded until now.
        try add(after: start, through: last)
        try writeMark()
    }

    private func writeMark() throws(QueueError) {
        try database.statement("DELETE FROM history WHERE status = -1").run()
        guard start > 0 else { return }
        let mark = try database.statement("INSERT INTO history(status, seq) VALUES(-1, ?1)")
        mark.bind(1, start)
        try mark.run()
    }

    // MARK: Repair

    /// Rebuilds the index from the messages, inside the caller's transaction.
    func rebuild() throws(QueueError) {
        excess = []
        try database.execute("DELETE FROM history")
        try database.execute("DELETE FROM history_in")
        start = 0
        try add(after: 0, through: state.foldedThrough)
        // The messages of `unsettled` have their entries now, and keep their rows of `in_flight` until the next `settle`.
    }
}

/// The row of `history` that says how far back the index goes in an older store.
enum HistoryMark {
    /// Returns the sequence number after which the index contains the rows up to `last`.
    static func read(_ database: Database, upTo last: Int64) throws(QueueError) -> Int64 {
        let mark = try database.statement("SELECT max(seq) FROM history WHERE status = -1")
        return min(max(try mark.first { () throws(QueueError) in mark.int(0) } ?? 0, 0), last)
    }
}
