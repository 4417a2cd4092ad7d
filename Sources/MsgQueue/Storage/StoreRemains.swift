import Glibc

/// A store as `check` and `salvage` read it: whatever of it can be read, without changing anything on disk.
final class StoreRemains {
    let path: String
    let lock: StoreLock
    private let opened: Opened

    var database: Database { opened.database }
    /// For reading rows; nothing else of it is set up.
    var store: Store { opened.store }
    var layout: Int64 { opened.layout }
    /// nil: the row is damaged or cannot be read.
    var state: StoreState? { opened.state }
    var isSchemaReplaced: Bool { opened.isSchemaReplaced }
    /// What was wrong so far.
    var findings: [String] { opened.findings }

    private struct Opened {
        let view: StoreView
        let database: Database
        let store: Store
        let layout: Int64
        let state: StoreState?
        let ties: Ties
        let isSchemaReplaced: Bool
        var findings: [String]
    }

    /// Throws `invalid` (there is no such file), `permission`, `locked`, `tooNew`, and `corrupt` when no table can be found in it.
    init(_ given: String) throws(QueueError) {
        path = try StorePath.resolve(given)
        lock = try StoreLock.take(path, try StorePath.inspectForReading(path), shared: true)
        do throws(QueueError) { opened = try Self.open(lock) } catch {
            lock.release()
            // SQLite finds damage of a schema as an error of the statement, and of pages as many things.
            throw [.internal, .tooLarge].contains(error.code) ? QueueError(.corrupt, "\(path) is damaged: \(error.detail)") : error
        }
    }

    func close() {
        opened.database.close()
        lock.release()
    }

    // MARK: Opening

    /// A log that does not belong to the database.
    private struct ForeignLog: Error {}

    private static func open(_ lock: StoreLock) throws(QueueError) -> Opened {
        let path = lock.path
        let log = StorePath.log(of: path)
        guard try Posix.status(lock.descriptor, path).st_size > 0 else {
            throw QueueError(.corrupt, "\(path) is not a message store: it is empty")
        }
        let first: QueueError
        do {
            return try attempt(lock)
        } catch let error as QueueError {
            guard error.code == .corrupt || error.code == .internal || error.code == .storage else { throw error }
            first = error
        } catch {
            var opened = try attemptWithoutLog(lock)
            opened.findings.append("\(log) does not belong to the database and was left out")
            return opened
        }
        // The log may be what is wrong.
        if try Posix.status(log) != nil, var opened = try? attemptWithoutLog(lock) {
            opened.findings.append(
                isForeign(lock, opened)
                    ? "\(log) does not belong to the database and was left out"
                    : "the database cannot be read together with \(log), which was left out")
            return opened
        }
        // The tables of every store of this library lie where those of a new one lie.
        for ignoringLog in [false, true] {
            guard let opened = try? attempt(lock, ignoringLog: ignoringLog, replacingSchema: true) else { continue }
            if opened.state != nil || Self.hasMessages(opened) { return opened }
            opened.database.close()
        }
        throw first
    }

    /// Whether the log is that of another database than was opened without it.
    private static func isForeign(_ lock: StoreLock, _ opened: Opened) -> Bool {
        guard let view = try? StoreView(path: lock.path, database: lock.descriptor), let log = view.log,
            let page = try? StoreSurvey.statePage(opened.database), let ties = try? Ties(view, page: page)
        else { return false }
        do throws(QueueError) {
            try ties.check(log, lock.path)
            return false
        } catch {
            return true
        }
    }

    private static func attemptWithoutLog(_ lock: StoreLock) throws(QueueError) -> Opened {
        do {
            return try attempt(lock, ignoringLog: true)
        } catch let error as QueueError { throw error } catch { throw QueueError(.internal, "a log was applied that was to be left out") }
    }

    private static func attempt(_ lock: StoreLock, ignoringLog: Bool = false, replacingSchema: Bool = false) throws -> Opened {
        let path = lock.path
        let view = try StoreView(
            path: path, database: lock.descriptor, ignoringLog: ignoringLog, pageSize: replacingSchema ? StoreBirth.pageSize : nil)
        var findings: [String] = []
        let layout: Int64
        if replacingSchema {
            for (page, bytes) in try StoreBirth.schema(pages: view.pages) { view.replace(page: page, with: bytes) }
            layout = Schema.version
            findings.append("the header or the schema is damaged, and the tables were looked for in their usual places")
        } else {
            let raw = try Posix.read(lock.descriptor, at: 0, count: 100, path)
            layout = try StoreHeader.check(with: try view.header(), raw: raw, path)
            do throws(QueueError) { try Ties.checkUpgrade(view, raw, layout: layout) } catch { throw ForeignLog() }
        }
        let database = try Database(view: view, lengthLimit: Store.lengthLimit)
        do {
            try StoreSurvey.checkObjects(database, layout)
            var state: StoreState?
            do throws(QueueError) { state = try StoreState.read(database, layout: layout) } catch {}
            if state == nil { findings.append("the table state is damaged") }
            var ties = Ties()
            if layout >= 2, let found = try? Ties(view, page: try StoreSurvey.statePage(database)) { ties = found }
            if let log = view.log, !log.isEmpty {
                do throws(QueueError) { try ties.check(log, path) } catch { throw ForeignLog() }
            }
            return Opened(
                view: view, database: database, store: Store(over: database, lock, ""), layout: layout, state: state, ties: ties,
                isSchemaReplaced: replacingSchema, findings: findings)
        } catch {
            database.close()
            throw error
        }
    }

    /// Whether there is a message that is what was written: then this is a store.
    private static func hasMessages(_ opened: Opened) -> Bool {
        let rows = MessageRows(opened.database, opened.store, layout: opened.layout)
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

    // MARK: The log's end

    /// What the log lost, given the highest sequence that is in the store.
    func loss(lastSequence: Int64) -> (LostTail?, finding: String?) {
        let wasOpen = opened.ties.isRawOpen ?? (state.map { $0.mark == .open } ?? false)
        do throws(QueueError) {
            let loss = try LostTail.find(opened.view, opened.ties, wasOpen: wasOpen, layout: layout, lastSequence: lastSequence)
            return (loss, loss?.text)
        } catch {
            return (nil, error.detail)
        }
    }

    /// The last sequence that was given out, as far as it is known exactly.
    var lastGiven: Int64 {
        if let state, state.mark == .closed { return state.sequenceCeiling }
        guard let record = try? SideRecord.read(of: path), opened.ties.includes(record) else { return 0 }
        return record.lastSequence
    }
}

/// The rows of `message`, read one by one whatever is wrong with others. Works with the columns of every layout.
final class MessageRows {
    enum Found {
        case whole(Row)
        /// There is a row with this sequence, but not what was written.
        case damaged(Int64)
    }

    enum Probe {
        case found(Found)
        case nothing
        /// Nobody knows whether there is one.
        case unreadable
    }

    private let database: Database
    private let store: Store
    private let columns: String
    private var single: Statement?

    init(_ database: Database, _ store: Store, layout: Int64) {
        self.database = database
        self.store = store
        columns = MessageColumn.list(ofLayout: layout)
    }

    func close() { single?.finalize() }

    private func read(_ statement: Statement) -> Found {
        let fields = Fields<MessageColumn>(statement)
        let sequence = fields.int(.seq)
        guard (1...MessageID.sequenceCeiling).contains(sequence), let row = try? store.read(fields, .whole) else {
            return .damaged(sequence)
        }
        return .whole(row)
    }

    /// Reads rows behind (or before) a sequence in the order of the table, until `take` answers false. False: it could not be read to
    /// its end.
    func scan(from start: Int64, isBackward: Bool, _ take: (Found) -> Bool) -> Bool {
        let order = isBackward ? "seq < ?1 ORDER BY seq DESC" : "seq > ?1 ORDER BY seq"
        do throws(QueueError) {
            let statement = try Statement("SELECT \(columns) FROM message NOT INDEXED WHERE \(order)", database)
            defer { statement.finalize() }
            statement.bind(1, start)
            try statement.forEach { () throws(QueueError) in take(read(statement)) }
            return true
        } catch {
            return false
        }
    }

    /// The row with this sequence. What cannot be read is read once more, from the disk.
    func probe(_ sequence: Int64) -> Probe {
        let first = probeOnce(sequence)
        if case .nothing = first { return first }
        if case .found(.whole) = first { return first }
        database.forgetPages()
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
            // Another row than was asked for lies where this one should.
            if case .whole(let row) = found, row.sequence != sequence { return .unreadable }
            return .found(found)
        } catch {
            return .unreadable
        }
    }
}
