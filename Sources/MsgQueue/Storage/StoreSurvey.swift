import Glibc

/// The condition of a store, determined by reading before anything in it is changed.
struct StoreSurvey {
    let layout: Int64
    /// nil: the row is damaged and is to be rebuilt.
    let state: StoreState?
    /// The number of frames in complete commits of the log.
    let logFrames: Int
    /// The number of valid bytes in the log.
    let logSize: Int64
    let hasLog: Bool
    /// The header of the database selects the write-ahead log.
    let isHeaderReady: Bool
    /// The last owner did not close the store.
    let wasOpen: Bool
    let loss: LostTail?
    /// An index does not agree with the messages and is to be rebuilt.
    let needsIndexes: Bool
    /// A build before priorities made the store, without their index.
    let lacksPriorityIndex: Bool
    /// The system stopped while the store was in use, and the store is too large to be checked completely while it is opened.
    let needsCheck: Bool
}

/// The lost end of a store's log.
package struct LostTail: Sendable, Equatable {
    /// The lost sequence numbers; `last` is 0 when their number is unknown.
    package let first: Int64
    package let last: Int64
    package let text: String
}

extension StoreSurvey {
    /// Reads the store through a view. Throws when the store must be refused.
    static func take(
        _ view: StoreView, _ database: Database, currentBoot: String, _ layout: Layout
    ) throws(QueueError) -> StoreSurvey {
        do throws(QueueError) {
            return try inspect(view, database, currentBoot, layout)
        } catch {
            throw asDamage(error, of: view.path)
        }
    }

    /// Returns an error that names the file. SQLite reports a damaged schema as an error in a statement, and damaged pages in several ways.
    static func asDamage(_ error: QueueError, of path: String) -> QueueError {
        let isNamed = strstr(error.detail, path) != nil
        guard error.code == .internal || error.code == .tooLarge || (error.code == .corrupt && !isNamed) else { return error }
        return QueueError(.corrupt, "\(path) is damaged: \(error.detail)")
    }

    private static func inspect(
        _ view: StoreView, _ database: Database, _ currentBoot: String, _ own: Layout
    ) throws(QueueError) -> StoreSurvey {
        let path = view.path
        let raw = try Posix.read(view.database, at: 0, count: 100, path)
        let layout = try StoreHeader.check(with: try view.header(), raw: raw, path, own)
        let lacksPriorityIndex = try checkObjects(database, layout, own)
        var state = try StoreState.read(database, ofLayout: layout)
        let log = view.log
        let binding = try LogBinding(view, page: try statePage(database))
        if let log, !log.isEmpty { try binding.check(log, path) }
        let wasOpen = binding.isRawOpen ?? (state?.mark != .closed && state?.mark != .copied)
        let (last, isPossible) = try lastSequence(database)
        guard isPossible else { throw QueueError(.corrupt, "\(path) is damaged: it contains sequence numbers out of range") }
        if let known = state, known.sequenceCeiling < last {
            // An earlier version could leave it so. No number may be assigned twice.
            state?.sequenceCeiling = last
        }
        let loss = try LostTail.find(view, binding, wasOpen: wasOpen, lastSequence: last) { () throws(QueueError) in
            try SideRecord.read(of: path)
        }
        let isSuspect = state == nil || loss != nil || !raw.starts(with: StorePath.header)
        var needsIndexes = try verify(database, pages: view.pages, whole: isSuspect)
        // A crash of the process does not damage the file; a crash of the system may.
        let isUnchecked = state.map { $0.isUnchecked || $0.mark == .open && ($0.bootID != currentBoot || $0.bootID.isEmpty) } ?? false
        let needsCheck = isUnchecked && !isSuspect && view.pages > smallStore
        if needsCheck { try FreePages.check(view) }
        if let state, !needsIndexes, view.pages <= smallStore { needsIndexes = try !derivedFits(database, state, layout) }
        return StoreSurvey(
            layout: layout, state: state, logFrames: log?.frames.count ?? 0, logSize: log?.validSize ?? 0, hasLog: log != nil,
            isHeaderReady: raw.count >= 20 && raw[18] == 2 && raw[19] == 2, wasOpen: wasOpen, loss: loss, needsIndexes: needsIndexes,
            lacksPriorityIndex: lacksPriorityIndex, needsCheck: needsCheck)
    }

    /// Throws if these are not the tables of a store, with their columns, or if an index has another condition. Returns whether the index of
    /// priorities is missing.
    @discardableResult
    static func checkObjects(_ database: Database, _ layout: Int64, _ own: Layout) throws(QueueError) -> Bool {
        var names: [String] = []
        let statement = try database.statement("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
        try statement.forEach { () throws(QueueError) in
            names.append(statement.text(0))
            return true
        }
        guard own.hasObjects(names, of: layout) else {
            throw QueueError(.corrupt, "\(database.path) has other tables than a message store: \(names.joined(separator: ", "))")
        }
        var statements = [
            "SELECT \(MessageColumn.list(ofLayout: layout)) FROM message",
            "SELECT \(ConversationColumn.list(ofLayout: layout)) FROM conversation",
        ]
        for (table, columns) in Schema.columns where names.contains(table) {
            statements.append("SELECT \(columns.joined(separator: ", ")) FROM \(table)")
        }
        for part in Derived.all(ofLayout: layout) where part.isIndex && names.contains(part.name.text) {
            if let entries = part.entries { statements.append("SELECT 1 FROM \(entries.text)") }
        }
        // A damaged schema is found by preparing what uses all of it.
        for sql in statements {
            do throws(QueueError) { try Statement(sql, database).finalize() } catch { throw asDamage(error, of: database.path) }
        }
        return !names.contains(Schema.priorityIndexName)
    }

    static func statePage(_ database: Database) throws(QueueError) -> UInt32 {
        let statement = try database.statement("SELECT rootpage FROM sqlite_schema WHERE name = 'state'")
        guard let page = try statement.first({ () throws(QueueError) in UInt32(exactly: statement.int(0)) }), let page else {
            throw QueueError(.corrupt, "\(database.path) is damaged: the table state has no page")
        }
        return page
    }

    /// Returns the highest sequence number, and whether all are in the valid range.
    static func lastSequence(_ database: Database) throws(QueueError) -> (last: Int64, isPossible: Bool) {
        let lowest = try database.statement("SELECT min(seq) FROM message")
        let highest = try database.statement("SELECT max(seq) FROM message")
        let low = try lowest.first { () throws(QueueError) in lowest.isNull(0) ? 1 : lowest.int(0) } ?? 1
        let high = try highest.first { () throws(QueueError) in highest.int(0) } ?? 0
        return (high, low >= 1 && high <= MessageID.sequenceCeiling)
    }

    /// Stores of up to this many pages (2 MiB) are checked completely at each opening.
    private static let smallStore: Int64 = 512

    /// Checks the structure of the file. Returns true when only indexes are damaged, which can be rebuilt from the messages.
    static func verify(_ database: Database, pages: Int64, whole: Bool) throws(QueueError) -> Bool {
        guard whole || pages <= smallStore else { return false }
        // In a large store comparing the indexes with the table would take long; checking the pages does not.
        let statement =
            pages <= smallStore
            ? try database.statement("PRAGMA integrity_check(100)") : try database.statement("PRAGMA quick_check(100)")
        var findings: [String] = []
        var hasOtherTypes = false
        try statement.forEach { () throws(QueueError) in
            let finding = statement.text(0)
            // A value of another type than its column damages only its message.
            if strstr(finding, " value in message.") == nil { findings.append(finding) } else { hasOtherTypes = true }
            return true
        }
        if findings == ["ok"] || findings.isEmpty && hasOtherTypes { return false }
        // `String.contains` would link the library of regular expressions.
        let isOfIndexes = findings.allSatisfy { finding in
            [" missing from index ", "wrong # of entries in index ", "non-unique entry in index "].contains { (part: String) in
                strstr(finding, part) != nil
            }
        }
        guard isOfIndexes, !findings.isEmpty else {
            throw QueueError(.corrupt, "\(database.path) is damaged: \(findings.first ?? "the check returned nothing")")
        }
        return true
    }

    /// Whether what is derived from the messages agrees with them.
    private static func derivedFits(_ database: Database, _ state: StoreState, _ layout: Int64) throws(QueueError) -> Bool {
        guard state.agrees(last: try lastSequence(database).last) else { return false }
        if state.mark == .closed, try !totalsFit(database, state, layout) { return false }
        // The size of a damaged message may differ from the size that was counted.
        let sizes = try database.statement(
            """
            SELECT 1 FROM message AS m NOT INDEXED
            WHERE ifnull(length(body), (SELECT length(l.body) FROM large_body AS l WHERE l.seq = m.seq)) IS NOT body_size LIMIT 1
            """)
        let isDamaged = try sizes.first { () throws(QueueError) in true } ?? false
        let check = try DerivedCheck.compareTables(of: database, folded: state.foldedThrough, layout: layout, ignoringBytes: isDamaged)
        return check.findings.isEmpty
    }

    /// Whether the totals agree with the counts by conversation.
    private static func totalsFit(_ database: Database, _ state: StoreState, _ layout: Int64) throws(QueueError) -> Bool {
        let statement = try Statement("SELECT \(ConversationColumn.list(ofLayout: layout)) FROM conversation", database)
        defer { statement.finalize() }
        var sum = Counts()
        try statement.forEach { () throws(QueueError) in
            sum += Counts(Fields<ConversationColumn>(statement))
            return true
        }
        return sum == state.totals
    }
}

/// The list of free pages (https://sqlite.org/fileformat2.html#the_freelist). A page that is listed twice would be used twice, and the
/// second use would overwrite messages.
enum FreePages {
    /// Throws when the list is damaged.
    static func check(_ view: StoreView) throws(QueueError) {
        let header = try view.header()
        guard header.count == 100 else { return }
        var (trunk, left) = (number(header, 32), number(header, 36))
        var used = Set<Int>()
        func use(_ page: Int) throws(QueueError) {
            guard page >= 2, page <= view.pages, used.insert(page).inserted, left > 0 else {
                throw QueueError(.corrupt, "\(view.path) is damaged: its list of free pages contains page \(page)")
            }
            left -= 1
        }
        while trunk != 0 {
            try use(trunk)
            let bytes = try view.page(UInt32(clamping: trunk))
            let count = bytes.count >= 8 ? number(bytes, 4) : Int.max
            guard count <= bytes.count / 4 - 2 else {
                throw QueueError(.corrupt, "\(view.path) is damaged: page \(trunk) of its list of free pages is invalid")
            }
            for index in 0..<count { try use(number(bytes, 8 + 4 * index)) }
            trunk = number(bytes, 0)
        }
        guard left == 0 else { throw QueueError(.corrupt, "\(view.path) is damaged: \(left) pages are missing in its list of free pages") }
    }

    private static func number(_ bytes: [UInt8], _ offset: Int) -> Int { bytes[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) } }
}

/// The header of the database file.
enum StoreHeader {
    /// Returns the layout. `bytes`: the header with the log applied; `raw`: the header in the file. Throws when either is not of a store, or of
    /// a later version.
    static func check(with bytes: [UInt8], raw: [UInt8], _ path: String, _ own: Layout) throws(QueueError) -> Int64 {
        guard isDatabase(bytes) else {
            throw QueueError(.corrupt, "\(path) is not a message store, or its first page is damaged: it has no SQLite header")
        }
        // A header that a power failure damaged is in the log as well. A file of another program is never repaired.
        for header in [bytes, raw] where isDatabase(header) {
            guard number(header, 68) == Schema.applicationID else {
                throw QueueError(.corrupt, "\(path) is another program's database, not a message store")
            }
            try refuseDevelopment(header, path)
            guard number(header, 60) <= own.version else {
                throw QueueError(
                    .tooNew, "\(path) has layout \(number(header, 60)); this library supports layouts up to \(own.version)")
            }
        }
        let layout = number(bytes, 60)
        guard layout >= Layout.first else { throw QueueError(.corrupt, "\(path) has no layout number") }
        return layout
    }

    /// Throws when this is the header of a store of layout 1.
    static func refuseDevelopment(_ bytes: [UInt8], _ path: String) throws(QueueError) {
        guard isDatabase(bytes), number(bytes, 68) == Schema.applicationID, number(bytes, 60) == 1 else { return }
        throw QueueError(.corrupt, "\(path) has layout 1, written by a development version, which this library does not read")
    }

    private static func isDatabase(_ bytes: [UInt8]) -> Bool {
        bytes.count == 100 && bytes[..<StorePath.header.count] == StorePath.header[...]
    }

    private static func number(_ bytes: [UInt8], _ offset: Int) -> Int64 {
        bytes[offset..<offset + 4].reduce(0) { $0 << 8 | Int64($1) }
    }
}

/// Decides whether a log belongs to a database: each log starts with a new generation and names the previous one as its base, which the
/// database must have.
struct LogBinding {
    /// From the database file itself; nil: unreadable, for example because the power failed during a checkpoint.
    private(set) var rawGeneration: Int64?
    private(set) var isRawOpen: Bool?
    /// Generation and base in the log's first commit; nil: it did not write them.
    private(set) var first: (generation: Int64, base: Int64)?
    private var generations: Set<Int64> = []

    init() {}

    /// `page`: that of the table `state`, with the log applied.
    init(_ view: StoreView, page: UInt32) throws(QueueError) {
        if let raw = try Self.rawState(view, page) {
            rawGeneration = raw.generation
            isRawOpen = raw.mark == .open
        }
        guard let log = view.log, let commit = log.commits.first else { return }
        for version in try view.versions(of: page) {
            guard let found = StoreState.read(page: version.bytes), found.isWhole else { continue }
            if version.frame < commit.frames { first = (found.state.generation, found.state.logBase) }
            generations.insert(found.state.generation)
        }
    }

    /// Returns the row of `state` in the database file itself. Beside a log, one that does not match its checksum may be written in part.
    private static func rawState(_ view: StoreView, _ page: UInt32) throws(QueueError) -> StoreState? {
        let raw = StoreState.read(page: try view.rawPage(page))
        guard let log = view.log, !log.isEmpty else { return raw?.state }
        if let raw { return raw.isWhole ? raw.state : nil }
        // The database of another log may have the table on another page, by its own schema.
        let alone = try StoreView(path: view.path, database: view.database, ignoringLog: true)
        do throws(QueueError) {
            let database = try Database(view: alone, lengthLimit: Store.lengthLimit)
            defer { database.close() }
            let found = StoreState.read(page: try alone.rawPage(try StoreSurvey.statePage(database)))
            return found.flatMap { $0.isWhole ? $0.state : nil }
        } catch {
            if let unread = alone.readError { throw unread }
            return nil
        }
    }

    /// Throws when the log does not belong to the database.
    func check(_ log: LogImage, _ path: String) throws(QueueError) {
        guard let rawGeneration else { return }
        guard let first, first.base == rawGeneration || generations.contains(rawGeneration) else { throw Self.foreign(log, path) }
    }

    private static func foreign(_ log: LogImage, _ path: String) -> QueueError {
        QueueError(
            .corrupt,
            """
            \(log.path) does not belong to \(path): it was written for another database, or for another state of this one. Nothing was \
            changed. Copy all of these files first. To open \(path) as it is, move \(log.path) and \(StorePath.tail(of: path)) away; to keep \
            what the log holds, put the database back that it was written for
            """)
    }

    /// Whether a side record was written for this database.
    func matches(_ record: SideRecord) -> Bool {
        guard let rawGeneration else { return false }
        // The record may still be that of the previous log, after a checkpoint whose record was not written yet.
        return record.generation == rawGeneration || record.base == rawGeneration || generations.contains(record.generation)
            || record.generation == first?.base
    }
}

extension LostTail {
    /// Returns what a log has lost, by its side record; nil: nothing is missing.
    static func find(
        _ view: StoreView, _ binding: LogBinding, wasOpen: Bool, lastSequence: Int64, record read: () throws(QueueError) -> SideRecord?
    ) throws(QueueError) -> LostTail? {
        let isNeeded = wasOpen || view.log.map { !$0.isEmpty } ?? false
        if !isNeeded {
            // A closed store needs no log. One without a complete commit belongs to another store or is damaged, unless the record matches.
            guard let log = view.log, log.size > 0 else { return nil }
            guard let record = try read(), binding.matches(record) else {
                throw QueueError(
                    .corrupt,
                    """
                    \(log.path) has no complete transaction of \(view.path), which was closed cleanly: it belongs to another store or is \
                    damaged. Nothing was changed; if the log is not needed, move it away
                    """)
            }
            // The power may have failed when the log was started. Then only a durable part of it counts as lost.
            guard record.base == binding.rawGeneration else { return nil }
        }
        let name = StorePath.log(of: view.path)
        let record = try read()
        guard let record, binding.matches(record) else {
            guard wasOpen, view.log == nil || binding.rawGeneration != nil else { return nil }
            guard view.log == nil else {
                return LostTail(
                    first: lastSequence + 1, last: 0,
                    text: """
                        \(StorePath.tail(of: view.path)) is missing or damaged: it is unknown whether \(name) is complete. Messages after \
                        sequence \(lastSequence) and changes that were only in the log may be lost
                        """)
            }
            return LostTail(
                first: lastSequence + 1, last: 0,
                text: """
                    \(name) is missing: the queue was not closed when \(view.path) was copied, or the log was removed. Messages after \
                    sequence \(lastSequence) and changes that were only in the log are lost
                    """)
        }
        let salts = view.log?.header?.salts
        let found = view.log.map { Int64($0.frames.count) } ?? 0
        guard record.frames > 0, salts == nil || salts == record.salts, found < record.frames else { return nil }
        let what = view.log == nil ? "is missing" : "is damaged"
        guard record.lastSequence > lastSequence else {
            return LostTail(
                first: 0, last: 0,
                text:
                    "\(name) \(what): \(found) of \(record.frames) pages are intact. No message is missing, but changes to messages are lost"
            )
        }
        return LostTail(
            first: lastSequence + 1, last: record.lastSequence,
            text: """
                \(name) \(what): \(found) of \(record.frames) pages are intact. Messages with the sequences \(lastSequence + 1) to \
                \(record.lastSequence) are missing
                """)
    }
}
