import Glibc

/// The condition of a store, determined by reading before anything in it is changed.
struct StoreSurvey {
    let layout: Int64
    /// The page of the table `state`.
    let statePage: UInt32
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

extension StoreSurvey {
    /// A store in memory, which is sound.
    init(inMemory database: Database) throws(QueueError) {
        let state = try StoreState.read(database, ofLayout: Layout.current.version)
        self.init(
            layout: Layout.current.version, statePage: 0, state: state, logFrames: 0, logSize: 0, hasLog: false, isHeaderReady: true,
            wasOpen: state?.mark == .open, loss: nil, needsIndexes: false, lacksPriorityIndex: false, needsCheck: false)
    }

    /// Reads the store through a view. Throws when the store must be refused. `isNew`: this process has just made it; as long as it has
    /// had no message, nothing is compared.
    static func take(
        _ view: StoreView, _ database: Database, isNew: Bool, currentBoot: String, _ layout: Layout
    ) throws(QueueError) -> StoreSurvey {
        do throws(QueueError) {
            return try inspect(view, database, isNew, currentBoot, layout)
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
        _ view: StoreView, _ database: Database, _ isNew: Bool, _ currentBoot: String, _ own: Layout
    ) throws(QueueError) -> StoreSurvey {
        let path = view.path
        let raw = try Posix.read(view.database, at: 0, count: 100, path)
        let layout = try StoreHeader.check(with: try view.header(), raw: raw, path, own)
        let lacksPriorityIndex = try checkObjects(database, layout, own)
        var state = try StoreState.read(database, ofLayout: layout)
        let log = view.log
        let statePage = try statePage(database)
        let binding = try LogBinding(view, page: statePage)
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
        let isCompared = !isNew || state?.sequenceCeiling != 0 || isSuspect
        var needsIndexes = isCompared ? try verify(database, pages: view.pages, whole: isSuspect) : false
        // A crash of the process does not damage the file; a crash of the system may.
        let isUnchecked = state.map { $0.isUnchecked || $0.mark == .open && ($0.bootID != currentBoot || $0.bootID.isEmpty) } ?? false
        let needsCheck = isUnchecked && !isSuspect && view.pages > smallStore
        if needsCheck { try FreePages.check(view) }
        if let state, isCompared, !needsIndexes, view.pages <= smallStore { needsIndexes = try !derivedFits(database, state, layout) }
        return StoreSurvey(
            layout: layout, statePage: statePage, state: state, logFrames: log?.frames.count ?? 0, logSize: log?.validSize ?? 0,
            hasLog: log != nil, isHeaderReady: raw.count >= 20 && raw[18] == 2 && raw[19] == 2, wasOpen: wasOpen, loss: loss,
            needsIndexes: needsIndexes, lacksPriorityIndex: lacksPriorityIndex, needsCheck: needsCheck)
    }

    /// Throws if these are not the tables of a store, with their columns, or if an index has another condition. Returns whether the index of
    /// priorities is missing.
    @discardableResult
    static func checkObjects(_ database: Database, _ layout: Int64, _ own: Layout) throws(QueueError) -> Bool {
        let (names, checksum) = try schema(of: database)
        guard own.hasObjects(names, of: layout) else {
            throw QueueError(.corrupt, "\(database.path) has other tables than a message store: \(names.joined(separator: ", "))")
        }
        for (table, columns) in Schema.columns where Schema.optional.added.contains(table) && names.contains(table) {
            let sql = "SELECT \(columns.joined(separator: ", ")) FROM \(table)"
            do throws(QueueError) { try Statement(sql, database).finalize() } catch { throw asDamage(error, of: database.path) }
        }
        guard checksum != Schema.checksum else { return false }
        var statements = [
            "SELECT \(MessageColumn.list(ofLayout: layout)) FROM message",
            "SELECT \(ConversationColumn.list(ofLayout: layout)) FROM conversation",
        ]
        for (table, columns) in Schema.columns where names.contains(table) && !Schema.optional.added.contains(table) {
            statements.append("SELECT \(columns.joined(separator: ", ")) FROM \(table)")
        }
        for part in Derived.all(ofLayout: layout) where part.isIndex && names.contains(part.name.text) {
            if let entries = part.entries { statements.append("SELECT 1 FROM \(entries.text)") }
        }
        // The schema of an earlier build, or a damaged one, which is found by preparing what uses all of it.
        for sql in statements {
            do throws(QueueError) { try Statement(sql, database).finalize() } catch { throw asDamage(error, of: database.path) }
        }
        return !names.contains(Schema.priorityIndexName)
    }

    /// Returns the names of the objects, sorted, and a checksum of the definitions of those that a new store has.
    static func schema(of database: Database) throws(QueueError) -> (names: [String], checksum: UInt64) {
        var (names, checksum) = ([String](), Checksum())
        let statement = try database.statement(
            """
            SELECT name, type || ' ' || tbl_name || ' ' || ifnull(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name
            """)
        try statement.forEach { () throws(QueueError) in
            names.append(statement.text(0))
            guard !Schema.optional.added.contains(statement.text(0)) else { return true }
            checksum.add(statement.text(0))
            checksum.add(statement.text(1))
            return true
        }
        return (names, checksum.value)
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
