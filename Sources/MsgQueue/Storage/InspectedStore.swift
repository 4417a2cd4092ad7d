import Glibc

/// A store, possibly damaged, as `check` and `salvage` read it. Nothing on disk is changed.
final class InspectedStore {
    let path: String
    let lock: StoreLock
    private let opened: Opened
    /// The side record, or why it could not be read.
    private let record: Result<SideRecord.Content, QueueError>

    var database: Database { opened.database }
    /// Only for reading rows: it was not started.
    var reader: Store { opened.reader }
    var layout: Int64 { opened.layout }
    /// nil: the row is damaged or cannot be read.
    var state: StoreState? { opened.state }
    var isSchemaReplaced: Bool { opened.isSchemaReplaced }
    /// Whether it has the tables that the first builds of layout 2 did not have.
    var hasHistoryTables: Bool { (try? reader.history.hasTables()) ?? false }
    /// A replaced schema has no other one of these tables.
    var hasOwnIDs: Bool { isSchemaReplaced || hasHistoryTables }
    /// A replaced schema has all tables.
    var hasTitles: Bool { isSchemaReplaced || layout >= Layout.withTimes }
    var hasHandOvers: Bool { isSchemaReplaced || (try? reader.handOvers.hasTable()) ?? false }
    /// The damage found so far.
    var findings: [String] { opened.findings }

    private struct Opened {
        let view: StoreView
        let database: Database
        let reader: Store
        let layout: Int64
        let state: StoreState?
        let binding: LogBinding
        let isSchemaReplaced: Bool
        var findings: [String]
    }

    /// Throws `invalid` (the file does not exist), `permission`, `locked`, `tooNew`, and `corrupt` when its tables cannot be found.
    init(_ given: String, _ own: Layout = .current) throws(QueueError) {
        path = try StorePath.resolve(given)
        lock = try StoreLock.acquire(path, try StorePath.inspectForReading(path), shared: true)
        do throws(QueueError) {
            record = try Self.readRecord(path)
            opened = try Self.open(lock, own)
        } catch {
            lock.release()
            // SQLite reports a damaged schema as an error in a statement, and damaged pages in several ways.
            throw [.internal, .tooLarge].contains(error.code) ? QueueError(.corrupt, "\(path) is damaged: \(error.detail)") : error
        }
    }

    func close() {
        opened.database.close()
        lock.release()
    }

    // MARK: Opening

    private static func readRecord(_ path: String) throws(QueueError) -> Result<SideRecord.Content, QueueError> {
        do throws(QueueError) { return .success(try SideRecord.read(of: path)) } catch {
            guard !error.isUnopened else { throw error }
            return .failure(error)
        }
    }

    /// A log that does not belong to the database.
    private struct ForeignLog: Error {}

    private static func open(_ lock: StoreLock, _ own: Layout) throws(QueueError) -> Opened {
        let path = lock.path
        let log = StorePath.log(of: path)
        guard try Posix.status(lock.descriptor, path).st_size > 0 else {
            throw QueueError(.corrupt, "\(path) is not a message store: it is empty")
        }
        try StoreHeader.refuseDevelopment(try Posix.read(lock.descriptor, at: 0, count: 100, path), path)
        let first: QueueError
        do {
            return try attemptTwice(lock, own)
        } catch let error as QueueError {
            guard error.code == .corrupt || error.code == .internal || error.code == .storage, !error.isUnopened else { throw error }
            first = error
        } catch {
            var opened = try attemptWithoutLog(lock, own)
            opened.findings.append("\(log) does not belong to the database and was ignored")
            return opened
        }
        // The log may be the damaged file.
        if try Posix.status(log) != nil, var opened = try? attemptWithoutLog(lock, own) {
            opened.findings.append(
                isForeign(lock, opened)
                    ? "\(log) does not belong to the database and was ignored"
                    : "the database cannot be read together with \(log), which was ignored")
            return opened
        }
        for ignoringLog in [false, true] {
            do {
                let opened = try attempt(lock, own, ignoringLog: ignoringLog, searching: true)
                if opened.state != nil || Self.hasMessages(opened) { return opened }
                opened.database.close()
            } catch let error as QueueError where error.isUnopened { throw error } catch {}
        }
        throw first
    }

    /// Whether the log belongs to another database than this one, which was opened without it.
    private static func isForeign(_ lock: StoreLock, _ opened: Opened) -> Bool {
        guard let view = try? StoreView(path: lock.path, database: lock.descriptor), let log = view.log,
            let page = try? StoreSurvey.statePage(opened.database), let binding = try? LogBinding(view, page: page)
        else { return false }
        do throws(QueueError) {
            try binding.check(log, lock.path)
            return false
        } catch {
            return true
        }
    }

    private static func attemptWithoutLog(_ lock: StoreLock, _ own: Layout) throws(QueueError) -> Opened {
        do {
            return try attempt(lock, own, ignoringLog: true)
        } catch let error as QueueError { throw error } catch { throw QueueError(.internal, "a log was applied that was to be ignored") }
    }

    /// A file that could not be opened or read once may be whole.
    private static func attemptTwice(_ lock: StoreLock, _ own: Layout) throws -> Opened {
        do { return try attempt(lock, own) } catch let error as QueueError where error.code == .storage { return try attempt(lock, own) }
    }

    private static func attempt(
        _ lock: StoreLock, _ own: Layout, ignoringLog: Bool = false, searching: Bool = false
    ) throws -> Opened {
        let path = lock.path
        var view = try StoreView(path: path, database: lock.descriptor, ignoringLog: ignoringLog)
        var findings: [String] = []
        let layout: Int64
        if searching {
            let found = try search(lock, ignoringLog: ignoringLog)
            view = found.view
            layout = own.version
            findings += found.findings
        } else {
            let raw = try Posix.read(lock.descriptor, at: 0, count: 100, path)
            layout = try StoreHeader.check(with: try view.header(), raw: raw, path, own)
        }
        let database: Database
        do { database = try Database(view: view, lengthLimit: Store.lengthLimit) } catch {
            // Errors that follow from a failed read may look like damage.
            throw view.readError ?? error
        }
        do {
            if !searching { try StoreSurvey.checkObjects(database, layout, own) }
            var state: StoreState?
            do throws(QueueError) { state = try StoreState.read(database, ofLayout: layout) } catch {}
            if state == nil { findings.append("the table state is damaged") }
            var binding = LogBinding()
            if let found = try? LogBinding(view, page: try StoreSurvey.statePage(database)) { binding = found }
            if let log = view.log, !log.isEmpty {
                do throws(QueueError) { try binding.check(log, path) } catch { throw ForeignLog() }
            }
            return Opened(
                view: view, database: database, reader: Store(over: database, lock, ""), layout: layout, state: state, binding: binding,
                isSchemaReplaced: searching, findings: findings)
        } catch {
            database.close()
            throw error is ForeignLog ? error : view.readError ?? error
        }
    }

    /// Returns a view with a schema for the tables that were found by the content of the pages. The page size may be unknown.
    private static func search(
        _ lock: StoreLock, ignoringLog: Bool
    ) throws(QueueError) -> (view: StoreView, findings: [String]) {
        var best: (view: StoreView, search: TableSearch)?
        for pageSize in StoreCreation.pageSizes {
            let view = try StoreView(path: lock.path, database: lock.descriptor, ignoringLog: ignoringLog, pageSize: pageSize)
            // The log has the page size in its header.
            guard view.pageSize == pageSize else { continue }
            let search = try TableSearch(view)
            if search.score > best?.search.score ?? 0 { best = (view, search) }
        }
        guard let best else { throw QueueError(.corrupt, "\(lock.path) is damaged: no tables were found in it") }
        var search = best.search
        try search.install(in: best.view)
        return (best.view, search.findings)
    }

    /// Whether there is an intact message, which shows that the file is a store.
    private static func hasMessages(_ opened: Opened) -> Bool {
        let rows = MessageRows(opened.database, opened.reader, layout: opened.layout)
        defer { rows.close() }
        var isFound = false
        for isBackward in [false, true] where !isFound {
            _ = rows.scan(from: isBackward ? Int64.max : 0, isBackward: isBackward) { found in
                if case .whole = found { isFound = true }
                return !isFound
            }
        }
        return isFound
    }

    // MARK: The end of the log

    /// Returns what the log lost, given the highest sequence number in the store.
    func loss(lastSequence: Int64) -> (LostTail?, finding: String?) {
        let wasOpen = opened.binding.isRawOpen ?? (state.map { $0.mark == .open } ?? false)
        do throws(QueueError) {
            let loss = try LostTail.find(
                opened.view, opened.binding, wasOpen: wasOpen, lastSequence: lastSequence
            ) { () throws(QueueError) in try record.get() }
            return (loss, loss?.text)
        } catch {
            return (nil, error.detail)
        }
    }

    /// The last sequence number that was assigned; 0: it is not known exactly.
    var lastAssigned: Int64 {
        if let state, state.mark == .closed { return state.sequenceCeiling }
        guard case .success(.whole(let record)) = record, opened.binding.matches(record) else { return 0 }
        return record.lastSequence
    }
}

/// Reads the rows of `message` one by one, even if others are damaged. Supports all layouts.
final class MessageRows {
    enum Found {
        case whole(Row)
        /// There is a row with this sequence number, but it is damaged.
        case damaged(Int64)
    }

    enum Probe {
        case found(Found)
        case nothing
        /// It is not known whether there is one.
        case unreadable
    }

    private let database: Database
    private let reader: Store
    private let columns: String
    private var single: Statement?

    init(_ database: Database, _ reader: Store, layout: Int64) {
        self.database = database
        self.reader = reader
        columns = MessageColumn.list(ofLayout: layout)
    }

    func close() { single?.finalize() }

    private func read(_ statement: Statement) -> Found {
        let fields = Fields<MessageColumn>(statement)
        let sequence = fields.int(.seq)
        guard (1...MessageID.sequenceCeiling).contains(sequence), let row = try? reader.messages.read(fields, .whole, ofAnyType: true)
        else {
            return .damaged(sequence)
        }
        return .whole(row)
    }

    /// Reads the rows after (or, backward, before) a sequence number in the order of the table, until `take` returns false. Returns false
    /// when the table could not be read to its end. The pages of a damaged b-tree may lead to the same rows again, and so without end.
    func scan(from start: Int64, isBackward: Bool, _ take: (Found) -> Bool) -> Bool {
        let order = isBackward ? "seq < ?1 ORDER BY seq DESC" : "seq > ?1 ORDER BY seq"
        do throws(QueueError) {
            let statement = try Statement("SELECT \(columns) FROM message NOT INDEXED WHERE \(order)", database)
            defer { statement.finalize() }
            statement.bind(1, start)
            var last = start
            try statement.forEach { () throws(QueueError) in
                let sequence = statement.int(MessageColumn.seq.position)
                guard isBackward ? sequence < last : sequence > last else {
                    throw QueueError(.corrupt, "the messages are not in order")
                }
                last = sequence
                return take(read(statement))
            }
            return true
        } catch {
            return false
        }
    }

    /// Looks up the row with this sequence number. A damaged or unreadable row is read again, from the disk.
    func probe(_ sequence: Int64) -> Probe {
        let first = probeOnce(sequence)
        if case .nothing = first { return first }
        if case .found(.whole) = first { return first }
        database.dropPageCache()
        return probeOnce(sequence)
    }

    private func probeOnce(_ sequence: Int64) -> Probe {
        do throws(QueueError) {
            let statement: Statement
            if let single {
                statement = single
            } else {
                statement = try Statement("SELECT \(columns) FROM message WHERE seq = ?1", database)
                single = statement
            }
            statement.bind(1, sequence)
            let found = try statement.first { () throws(QueueError) in read(statement) }
            guard let found else { return .nothing }
            // A damaged b-tree led to another row.
            if case .whole(let row) = found, row.sequence != sequence { return .unreadable }
            return .found(found)
        } catch {
            return .unreadable
        }
    }
}
