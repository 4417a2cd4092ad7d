/// Compares what the store derives (`Derived`) with what it derives it from: all at once, or in steps while the store is in use.
///
/// A step compares entries and messages as they are at that moment, in both directions, so that only the counts of the conversation that is
/// being read must follow the changes between two steps.
struct DerivedCheck {
    /// The rows of `message` that are folded, and that are in the history's index.
    struct Bounds {
        let folded: Int64
        let historyAfter: Int64

        init(folded: Int64, historyAfter: Int64) { (self.folded, self.historyAfter) = (folded, historyAfter) }

        /// `folded`: from the row of `state`.
        init(_ database: Database, folded: Int64) throws(QueueError) {
            self.folded = folded
            let hasHistory = try database.hasObject("history")
            historyAfter = hasHistory ? try HistoryMark.read(database, upTo: folded) : 0
        }
    }

    private enum Stage {
        /// The messages have their entries.
        case messages
        /// The entries are right: those of this part.
        case entries(Int)
        case counts
        case done
    }

    /// The messages of a conversation that were read.
    private struct Sum {
        var conversation = Name("")
        var last: Int64 = 0
        var counts = Counts()
    }

    private let parts: [Derived]
    private let layout: Int64
    private let comparesCounts: Bool
    var ignoresBytes = false
    private var stage = Stage.messages
    /// The last message that was read.
    private var cursor: Int64 = 0
    /// The last entry that was read.
    private var last: [String] = []
    private var sum = Sum()
    /// The parts that lack the entry of a message, as bits.
    private var lacking: Int64 = 0
    private(set) var findings: [String] = []
    /// Something differs from what it is derived from, so that it must be rebuilt.
    private(set) var differs = false
    /// The last step found damage. It is repeated with an empty page cache: a single failed read may not be damage.
    private var isReadAgain = false

    /// `parts`: those to compare, as far as the store has them.
    init(
        _ parts: [Derived] = Derived.all(ofLayout: Layout.current.version), counts: Bool = true, of database: Database,
        layout: Int64 = Layout.current.version
    ) throws(QueueError) {
        var present: [Derived] = []
        for part in parts {
            let isThere = try database.hasObject(part.name.text)
            if isThere || part.entries == nil { present.append(part) }
        }
        self.parts = present
        self.layout = layout
        comparesCounts = counts
    }

    /// Compares everything at once, without the indexes that `PRAGMA integrity_check` compares. `ignoringBytes`: messages are damaged, and
    /// their sizes may differ from those that were counted.
    static func compareTables(
        of database: Database, folded: Int64, layout: Int64, ignoringBytes: Bool = false
    ) throws(QueueError) -> DerivedCheck {
        var check = try DerivedCheck(Derived.all(ofLayout: layout).filter { !$0.isIndex }, of: database, layout: layout)
        check.ignoresBytes = ignoringBytes
        let bounds = try Bounds(database, folded: folded)
        while !check.isDone { try check.step(database, bounds) { true } }
        return check
    }

    var isDone: Bool {
        if case .done = stage { true } else { false }
    }

    /// Applies a change of the counts of a folded message.
    mutating func changed(_ sequence: Int64, _ conversation: Name, by delta: Counts) {
        guard case .counts = stage, sequence <= sum.last, conversation == sum.conversation else { return }
        sum.counts += delta
    }

    /// Runs one step, until `isTimeLeft` returns false. Throws when the files cannot be read.
    mutating func step(_ database: Database, _ bounds: Bounds, _ isTimeLeft: () -> Bool) throws(QueueError) {
        var next = self
        do throws(QueueError) {
            switch stage {
            case .messages: try next.readMessages(database, bounds, isTimeLeft)
            case .entries(let index): try next.readEntries(parts[index], index, database, bounds, isTimeLeft)
            case .counts: try next.readCounts(database, isTimeLeft)
            case .done: return
            }
        } catch {
            guard error.code == .corrupt else { throw error }
            guard isReadAgain else { return readAgain(database) }
            return endDamagedStage(error)
        }
        guard next.findings.count == findings.count || isReadAgain else { return readAgain(database) }
        self = next
        isReadAgain = false
    }

    private mutating func readAgain(_ database: Database) {
        isReadAgain = true
        database.dropPageCache()
    }

    private mutating func endDamagedStage(_ error: QueueError) {
        isReadAgain = false
        switch stage {
        case .messages:
            findings.append("the index entries of messages after sequence \(cursor) cannot all be read: \(error.detail)")
            nextEntries(after: -1)
        case .entries(let index):
            findings.append("\(parts[index].title) is damaged: \(error.detail)")
            nextEntries(after: index)
        case .counts:
            findings.append("the counts cannot all be read: \(error.detail)")
            stage = .done
        case .done: return
        }
    }

    private mutating func add(_ title: String) {
        findings.append("\(title) not agree with the messages")
        differs = true
    }

    // MARK: Messages

    private mutating func readMessages(_ database: Database, _ bounds: Bounds, _ isTimeLeft: () -> Bool) throws(QueueError) {
        let lacks = parts.enumerated().compactMap { place, part in part.lacks.map { "iif(\($0.text), \(1 << place), 0)" } }
        guard !lacks.isEmpty else { return nextEntries(after: -1) }
        let statement = try Statement(
            "SELECT m.seq, \(lacks.joined(separator: " | ")) FROM message AS m NOT INDEXED WHERE m.seq > ?1 ORDER BY m.seq", database)
        defer { statement.finalize() }
        statement.bind(1, cursor)
        bind(bounds, to: statement)
        var (sequence, found, isAtEnd) = (cursor, Int64(0), true)
        try statement.forEach { () throws(QueueError) in
            sequence = statement.int(0)
            found |= statement.int(1)
            isAtEnd = isTimeLeft()
            return isAtEnd
        }
        cursor = sequence
        for (place, part) in parts.enumerated() where found & ~lacking & 1 << place != 0 { add("\(part.title) does") }
        lacking |= found
        if isAtEnd { nextEntries(after: -1) }
    }

    private func bind(_ bounds: Bounds, to statement: Statement) {
        statement.bind(8, bounds.folded)
        statement.bind(9, bounds.historyAfter)
    }

    // MARK: Entries

    private mutating func readEntries(
        _ part: Derived, _ index: Int, _ database: Database, _ bounds: Bounds, _ isTimeLeft: () -> Bool
    ) throws(QueueError) {
        let statement = try Statement(part.sql(isFirst: last.isEmpty), database)
        defer { statement.finalize() }
        for (position, value) in last.enumerated() {
            if part.keys[position].isText {
                try statement.bind(Int32(position + 1), value)
            } else {
                statement.bind(Int32(position + 1), Int64(value) ?? 0)
            }
        }
        bind(bounds, to: statement)
        let width = Int32(truncatingIfNeeded: part.keys.count)
        var (reached, isAtEnd, fits) = (last, true, true)
        try statement.forEach { () throws(QueueError) in
            fits = statement.bool(width)
            guard fits else { return false }
            guard !isTimeLeft() else { return true }
            isAtEnd = false
            reached = part.keys.indices.map { statement.text(Int32(truncatingIfNeeded: $0)) }
            return false
        }
        guard fits else {
            if lacking & 1 << index == 0 { add("\(part.title) does") }
            return nextEntries(after: index)
        }
        guard !isAtEnd else { return nextEntries(after: index) }
        guard reached != last else { throw QueueError(.corrupt, "its entries are not in order") }
        last = reached
    }

    private mutating func nextEntries(after index: Int) {
        last = []
        let next = parts.indices.first { $0 > index && parts[$0].entries != nil }
        stage = next.map { .entries($0) } ?? (comparesCounts ? .counts : .done)
    }

    // MARK: Counts

    /// Counts the folded messages by conversation, and compares them with the table `conversation`.
    private mutating func readCounts(_ database: Database, _ isTimeLeft: () -> Bool) throws(QueueError) {
        let columns = "conversation, seq, status, body_size"
        let select = "SELECT \(columns) FROM message INDEXED BY message_conversation WHERE indexed = 1 AND conversation"
        let statement = try Statement(
            sum.last == 0
                ? "\(select) >= ?1 ORDER BY 1, 2"
                : "\(select) = ?1 AND seq > ?2 UNION ALL \(select) > ?1 ORDER BY 1, 2", database)
        defer { statement.finalize() }
        try statement.bind(1, sum.conversation.text)
        statement.bind(2, sum.last)
        let table = try Statement("SELECT \(ConversationColumn.list(ofLayout: layout)) FROM conversation WHERE name = ?1", database)
        defer { table.finalize() }
        var (isAtEnd, fits) = (true, true)
        try statement.forEach { () throws(QueueError) in
            let conversation = Name(statement.text(0))
            if conversation != sum.conversation || sum.last == 0 {
                if sum.last > 0 { fits = try agrees(table) }
                sum = Sum(conversation: conversation)
            }
            sum.last = statement.int(1)
            if let stored = StoredStatus(rawValue: statement.int(2)) {
                sum.counts.add(stored.status, isReceived: stored.isReceived, amount: 1, bytes: Row.countedSize(statement.int(3)))
            }
            isAtEnd = isTimeLeft()
            return isAtEnd && fits
        }
        if fits, isAtEnd, sum.last > 0 { fits = try agrees(table) }
        if !fits { add("the counts do") }
        if isAtEnd || !fits { stage = .done }
    }

    /// Whether the row of the conversation that was read agrees with its messages. The parts of the list compare its newest message.
    private func agrees(_ table: Statement) throws(QueueError) -> Bool {
        try table.bind(1, sum.conversation.text)
        let stored = try table.first { () throws(QueueError) in Counts(Fields<ConversationColumn>(table)) }
        guard var stored else { return false }
        if ignoresBytes { stored.unsentBytes = sum.counts.unsentBytes }
        return stored == sum.counts
    }
}
