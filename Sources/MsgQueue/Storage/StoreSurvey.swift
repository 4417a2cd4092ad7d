import Glibc

/// What a store turns out to be before anything in it is changed: found by reading alone.
struct StoreSurvey {
    let layout: Int64
    /// nil: the row does not fit its checksum, and is made anew.
    let state: StoreState?
    /// Whole commits in the log that was found.
    let logFrames: Int
    /// Bytes of it that are valid.
    let logSize: Int64
    let hasLog: Bool
    /// The database's header says that it has a log.
    let isHeaderReady: Bool
    /// The last owner did not close it.
    let wasOpen: Bool
    let loss: LostTail?
    /// An index does not fit the messages, and is made anew from them.
    let needsIndexes: Bool
}

/// The end of a store's log that is not there any more.
package struct LostTail: Sendable, Equatable {
    /// Sequence numbers of which nothing is known; `last` 0: it is not known how many there were.
    package let first: Int64
    package let last: Int64
    package let text: String
}

extension StoreSurvey {
    /// Reads the store through a view. Throws when it cannot be accepted.
    static func take(_ view: StoreView, _ database: Database, currentBoot: String) throws(QueueError) -> StoreSurvey {
        do throws(QueueError) {
            return try inspect(view, database, currentBoot)
        } catch {
            throw asDamage(error, of: view.path)
        }
    }

    /// SQLite finds damage of a schema as an error of the statement, and of pages as many things; and it does not name the file.
    static func asDamage(_ error: QueueError, of path: String) -> QueueError {
        let isNamed = error.detail.contains(path)
        guard error.code == .internal || error.code == .tooLarge || (error.code == .corrupt && !isNamed) else { return error }
        return QueueError(.corrupt, "\(path) is damaged: \(error.detail)")
    }

    private static func inspect(_ view: StoreView, _ database: Database, _ currentBoot: String) throws(QueueError) -> StoreSurvey {
        let path = view.path
        let raw = try Posix.read(view.database, at: 0, count: 100, path)
        let layout = try StoreHeader.check(with: try view.header(), raw: raw, path)
        try checkObjects(database, layout)
        var state = try StoreState.read(database, layout: layout)
        let log = view.log
        var ties = Ties()
        if layout >= 2 { ties = try Ties(view, page: try statePage(database)) }
        if let log, !log.isEmpty { try ties.check(log, path) }
        let wasOpen = ties.isRawOpen ?? (state?.mark != .closed && state?.mark != .copied)
        let (last, isPossible) = try lastSequence(database)
        guard isPossible else { throw QueueError(.corrupt, "\(path) is damaged: it holds messages with impossible sequence numbers") }
        if let known = state, known.sequenceCeiling < last {
            // An earlier version could leave it so; no number may be given out twice.
            state?.sequenceCeiling = last
        }
        let loss = try LostTail.find(view, ties, wasOpen: wasOpen, layout: layout, lastSequence: last)
        // A crash of the process leaves the file whole; only a crash of the system may not.
        let isSuspect = state == nil || loss != nil || !raw.starts(with: StorePath.header)
        let isOtherBoot = state.map { $0.bootID != currentBoot || $0.bootID.isEmpty } ?? true
        var needsIndexes = try verify(database, pages: view.pages, whole: isSuspect || (state?.mark == .open && isOtherBoot))
        if let state, !needsIndexes, view.pages <= smallStore { needsIndexes = try !countsFit(database, through: state.foldedThrough) }
        return StoreSurvey(
            layout: layout, state: state, logFrames: log?.frames.count ?? 0, logSize: log?.validSize ?? 0, hasLog: log != nil,
            isHeaderReady: raw.count >= 20 && raw[18] == 2 && raw[19] == 2, wasOpen: wasOpen, loss: loss, needsIndexes: needsIndexes)
    }

    static func checkObjects(_ database: Database, _ layout: Int64) throws(QueueError) {
        var names: [String] = []
        let statement = try database.statement("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
        try statement.forEach { () throws(QueueError) in
            names.append(statement.text(0))
            return true
        }
        guard names == Schema.objects(ofLayout: layout) else {
            throw QueueError(.corrupt, "\(database.path) has other tables than a message store: \(names.joined(separator: ", "))")
        }
    }

    static func statePage(_ database: Database) throws(QueueError) -> UInt32 {
        let statement = try database.statement("SELECT rootpage FROM sqlite_schema WHERE name = 'state'")
        guard let page = try statement.first({ () throws(QueueError) in UInt32(exactly: statement.int(0)) }), let page else {
            throw QueueError(.corrupt, "\(database.path) is damaged: the table state has no page")
        }
        return page
    }

    /// The highest sequence number, and whether all can be.
    static func lastSequence(_ database: Database) throws(QueueError) -> (last: Int64, isPossible: Bool) {
        let lowest = try database.statement("SELECT min(seq) FROM message")
        let highest = try database.statement("SELECT max(seq) FROM message")
        let low = try lowest.first { () throws(QueueError) in lowest.isNull(0) ? 1 : lowest.int(0) } ?? 1
        let high = try highest.first { () throws(QueueError) in highest.int(0) } ?? 0
        return (high, low >= 1 && high <= MessageID.sequenceCeiling)
    }

    /// Stores of up to so many pages (2 MiB) are checked whole at each opening.
    private static let smallStore: Int64 = 512

    /// Checks the structure of the file. True when only indexes are wrong, which the messages can make anew.
    static func verify(_ database: Database, pages: Int64, whole: Bool) throws(QueueError) -> Bool {
        guard whole || pages <= smallStore else { return false }
        // What a large store's indexes hold takes long to compare; its pages do not.
        let statement =
            pages <= smallStore
            ? try database.statement("PRAGMA integrity_check(100)") : try database.statement("PRAGMA quick_check(1)")
        var findings: [String] = []
        try statement.forEach { () throws(QueueError) in
            findings.append(statement.text(0))
            return true
        }
        if findings == ["ok"] { return false }
        let isOfIndexes = findings.allSatisfy { finding in
            [" missing from index ", "wrong # of entries in index ", "non-unique entry in index "].contains { finding.contains($0) }
        }
        guard isOfIndexes, !findings.isEmpty else {
            throw QueueError(.corrupt, "\(database.path) is damaged: \(findings.first ?? "the check gave no answer")")
        }
        return true
    }

    /// Whether the counts by conversation are those of the folded messages, and all of these stand in the indexes. (The size of
    /// a damaged message may be anything: the bytes are as they were counted when it was written.)
    private static func countsFit(_ database: Database, through folded: Int64) throws(QueueError) -> Bool {
        let statement = try database.statement(
            """
            SELECT 1 FROM (
              SELECT name, queued, sent, delivered, "read", failed, received, unread, last_seq, 0 AS hidden, 1 AS sign
              FROM conversation
              UNION ALL
              SELECT conversation, sum(status = \(.queued)), sum(status = \(.sent)), sum(status = \(.delivered)), sum(status = \(.read)),
                sum(status = \(.failed)), sum(status IN (\([.received, .receivedRead]))), sum(status = \(.received)), max(seq), sum(indexed != 1), -1
              FROM message NOT INDEXED WHERE seq <= ?1 GROUP BY conversation)
            GROUP BY name HAVING total(sign * queued) != 0 OR total(sign * sent) != 0 OR total(sign * delivered) != 0
              OR total(sign * "read") != 0 OR total(sign * failed) != 0 OR total(sign * received) != 0 OR total(sign * unread) != 0
              OR total(sign * last_seq) != 0 OR total(hidden) != 0
            LIMIT 1
            """)
        statement.bind(1, folded)
        return try statement.first { () throws(QueueError) in false } ?? true
    }
}

/// The header of the database file.
enum StoreHeader {
    /// The layout. `bytes` as the log has them, `raw` as the file has them; throws when either says that this is no store, or one of a
    /// later version.
    static func check(with bytes: [UInt8], raw: [UInt8], _ path: String) throws(QueueError) -> Int64 {
        guard isDatabase(bytes) else {
            throw QueueError(.corrupt, "\(path) is not a message store, or its first page is damaged: it has no SQLite header")
        }
        // A header that was being written when the power failed is in the log; another program's is not ours to repair.
        for header in [bytes, raw] where isDatabase(header) {
            guard number(header, 68) == Schema.applicationID else {
                throw QueueError(.corrupt, "\(path) is another program's database, not a message store")
            }
            guard number(header, 60) <= Schema.version else {
                throw QueueError(
                    .tooNew, "\(path) has layout \(number(header, 60)); this library knows layouts up to \(Schema.version)")
            }
        }
        let layout = number(bytes, 60)
        guard layout >= 1 else { throw QueueError(.corrupt, "\(path) has no layout number") }
        return layout
    }

    /// Of a header; nil: it is none.
    static func layout(_ bytes: [UInt8]) -> Int64? { isDatabase(bytes) ? number(bytes, 60) : nil }

    private static func isDatabase(_ bytes: [UInt8]) -> Bool {
        bytes.count == 100 && bytes[..<StorePath.header.count] == StorePath.header[...]
    }

    private static func number(_ bytes: [UInt8], _ offset: Int) -> Int64 {
        bytes[offset..<offset + 4].reduce(0) { $0 << 8 | Int64($1) }
    }
}

/// What ties the log to the database: each log begins with a new generation and names the one before, which the database must have.
struct Ties {
    /// Of the database file itself; nil: not readable, or of layout 1.
    private(set) var rawGeneration: Int64?
    private(set) var isRawOpen: Bool?
    /// Generation and base as the log's first commit wrote them; nil: that commit did not write them.
    private(set) var first: (generation: Int64, base: Int64)?
    private var generations: Set<Int64> = []

    init() {}

    init(_ view: StoreView, page: UInt32) throws(QueueError) {
        if let raw = StoreState.tie(inPage: try view.rawPage(page)) {
            rawGeneration = raw.generation
            isRawOpen = raw.isOpen
        }
        guard let log = view.log, let commit = log.commits.first else { return }
        for version in try view.versions(of: page) {
            guard let tie = StoreState.tie(inPage: version.bytes) else { continue }
            if version.frame < commit.frames { first = (tie.generation, tie.base) }
            generations.insert(tie.generation)
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
            changed. To open \(path) as it is, move \(log.path) and \(StorePath.tail(of: path)) away; to keep what the log holds, put \
            the database back that it was written for
            """)
    }

    /// The database file has layout 1, whose logs have no ties. One of layout 2 must be that of its upgrade. `layout`: with the log.
    static func checkUpgrade(_ view: StoreView, _ raw: [UInt8], layout: Int64) throws(QueueError) {
        guard let log = view.log, !log.isEmpty, StoreHeader.layout(raw) == 1 else { return }
        let alone = try Database(
            view: try StoreView(path: view.path, database: view.database, ignoringLog: true), lengthLimit: Store.lengthLimit)
        defer { alone.close() }
        let state: StoreState?
        let page: UInt32
        do throws(QueueError) {
            (state, page) = (try StoreState.read(alone, layout: 1), try StoreSurvey.statePage(alone))
        } catch {
            // Without the log it is no store at all, as when the power failed while the log was copied: the rest is judged with the log.
            return
        }
        let ties = try view.versions(of: page).map { StoreState.tie(inPage: $0.bytes) }
        guard let first = ties.firstIndex(where: { $0 != nil }) else {
            guard layout < 2 else { throw foreign(log, view.path) }
            return
        }
        // Where the log of layout 1 could not be copied, the upgrade stands behind it.
        guard first > 0 || state == nil || ties[first]?.base == state?.generation else { throw foreign(log, view.path) }
    }

    /// Whether a side record was written for this database.
    func includes(_ record: SideRecord) -> Bool {
        guard let rawGeneration else { return false }
        // The record of the log before may be there still, when this one was copied and the record was not written yet.
        return record.generation == rawGeneration || record.base == rawGeneration || generations.contains(record.generation)
            || record.generation == first?.base
    }
}

extension LostTail {
    /// What the side record tells of a log that is shorter than it was; nil: nothing is missing.
    static func find(
        _ view: StoreView, _ ties: Ties, wasOpen: Bool, layout: Int64, lastSequence: Int64
    ) throws(QueueError) -> LostTail? {
        guard layout >= 2 else { return nil }
        let isNeeded = wasOpen || view.log.map { !$0.isEmpty } ?? false
        if !isNeeded {
            // A closed store needs no log; what is there without a whole commit was made by somebody else.
            guard let log = view.log, log.size > 0 else { return nil }
            guard let record = try SideRecord.read(of: view.path), ties.includes(record) else {
                throw QueueError(
                    .corrupt,
                    """
                    \(log.path) holds nothing whole of \(view.path), which was closed in order: it is another store's, or damaged. Nothing \
                    was changed; if it is not needed, move it away
                    """)
            }
            // Or it was being begun when the power failed; only what was flushed is lost.
            guard record.base == ties.rawGeneration else { return nil }
        }
        let name = StorePath.log(of: view.path)
        let record = try SideRecord.read(of: view.path)
        guard let record, ties.includes(record) else {
            guard wasOpen, view.log == nil || ties.rawGeneration != nil else { return nil }
            guard view.log == nil else {
                return LostTail(
                    first: lastSequence + 1, last: 0,
                    text: """
                        \(StorePath.tail(of: view.path)) is missing or damaged: whether \(name) is whole is not known. Messages after \
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
                    "\(name) \(what): of \(record.frames) pages \(found) are whole. No message is missing, but changes to messages are lost"
            )
        }
        return LostTail(
            first: lastSequence + 1, last: record.lastSequence,
            text: """
                \(name) \(what): of \(record.frames) pages \(found) are whole. Messages with the sequences \(lastSequence + 1) to \
                \(record.lastSequence) are missing
                """)
    }
}
