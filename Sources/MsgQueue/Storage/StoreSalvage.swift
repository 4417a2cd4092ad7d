import Glibc

/// Creates a new store from the intact messages of another one, which may be damaged and is not changed.
package enum StoreSalvage {
    /// The number of messages in one transaction.
    private static let batch = 512

    /// `given` must not exist. When the new store is opened, the attempts in flight of the old one count as interrupted by a crash.
    package static func run(from source: String, to given: String) throws(QueueError) -> CheckReport {
        try run(from: source, to: given, .current)
    }

    static func run(from source: String, to given: String, _ layout: Layout) throws(QueueError) -> CheckReport {
        let store = try InspectedStore(source, layout)
        defer { store.close() }
        let path = try StorePath.resolve(given)
        try StorePath.inspectNew(path)
        let file = try NewFile(for: path)
        try Posix.write(file.descriptor, at: 0, try StoreCreation.image(usesLog: false), path)
        let database = try Database(building: file.temporary, lengthLimit: Store.lengthLimit)
        let report: CheckReport
        do throws(QueueError) {
            report = try fill(Store(over: database, store.lock, ""), from: store)
        } catch {
            database.close()
            throw error
        }
        database.close()
        try Posix.write(file.descriptor, at: StoreCreation.walMode.offset, StoreCreation.walMode.bytes, path)
        guard try file.finish(replacing: false) else { throw QueueError(.conflict, "\(path) already exists") }
        return report
    }

    private static func fill(_ target: Store, from store: InspectedStore) throws(QueueError) -> CheckReport {
        let check = StoreCheck(store)
        let attempts = AttemptRows(store.database)
        defer { attempts.close() }
        var count = 0
        try target.begin()
        try check.collect { row throws(QueueError) in
            guard try target.insertion.insertSalvaged(row) else { return false }
            for attempt in attempts.attempts(of: row.sequence) { try target.outcomes.write(attempt, of: row.sequence) }
            count += 1
            if count % Self.batch == 0 {
                try target.commit(durable: false)
                try target.begin()
            }
            return true
        }
        if attempts.incomplete > 0 { check.addFinding("attempts of \(Words.messages(Int64(attempts.incomplete))) may be lost") }
        try copyInFlight(store, check, to: target)
        try copyTitles(store, check, to: target)
        try copyHandOvers(store, check, to: target)
        var last = try copyRecent(store, check, to: target, known: check.ceiling)
        // Numbers that may have been assigned are not assigned again.
        if !check.isSound || store.state?.mark != .closed { last = last.addingClamped(StateRow.sequenceBlock) }
        target.state.hold = store.state?.hold
        try target.finishBuilding(through: min(last, MessageID.sequenceCeiling))
        return check.report()
    }

    // MARK: Other tables

    /// Reads a table, whose key is the column `key`, from its start and, if that fails at some row, also from its end. Returns whether all of
    /// it was read. A table that has a key twice is damaged, and may not come to an end.
    private static func read(
        _ store: InspectedStore, _ columns: String, orderedBy order: [String], key: Int32 = 0,
        _ take: (Statement) throws(QueueError) -> Void
    ) throws(QueueError) -> Bool {
        var isFirst = true
        for direction in ["", " DESC"] {
            var failure: QueueError?
            let order = order.map { $0 + direction }.joined(separator: ", ")
            do throws(QueueError) {
                let statement = try Statement("SELECT \(columns) ORDER BY \(order)", store.database)
                defer { statement.finalize() }
                var keys = Set<Name>()
                try statement.forEach { () throws(QueueError) in
                    guard keys.insert(Name(statement.text(key))).inserted else { throw QueueError(.corrupt, "a table has a row twice") }
                    do throws(QueueError) { try take(statement) } catch { failure = error }
                    return failure == nil
                }
                if let failure { throw failure }
                return isFirst
            } catch {
                if let failure { throw failure }
            }
            isFirst = false
        }
        return false
    }

    private static func copyInFlight(_ store: InspectedStore, _ check: StoreCheck, to target: Store) throws(QueueError) {
        let isComplete = try read(store, "seq, number, started_at FROM in_flight", orderedBy: ["seq"]) { statement throws(QueueError) in
            guard check.isWhole(statement.int(0)), let number = UInt32(exactly: statement.int(1)), number > 0 else { return }
            try target.attempts.begin(attempt: number, of: statement.int(0), at: statement.int(2))
        }
        if !isComplete { check.addFinding("the list of messages that were being sent is incomplete") }
    }

    private static func copyTitles(_ store: InspectedStore, _ check: StoreCheck, to target: Store) throws(QueueError) {
        guard store.hasTitles else { return }
        var isComplete = true
        isComplete =
            try read(store, "conversation, text, checksum FROM title", orderedBy: ["conversation"]) { statement throws(QueueError) in
                let (conversation, title) = (statement.text(0), statement.text(1))
                guard statement.int(2) == Titles.checksum(of: title, conversation) else { return isComplete = false }
                try target.titles.set(title, of: Name(conversation))
            } && isComplete
        if !isComplete { check.addFinding("some titles of conversations are lost") }
    }

    private static func copyHandOvers(_ store: InspectedStore, _ check: StoreCheck, to target: Store) throws(QueueError) {
        guard store.hasHandOvers else { return }
        var isComplete = true
        let key = "(hex(source) || ' ' || id_hash || ' ' || hex(id))"
        let columns: SQL = "\(HandedOverColumn.self)"
        isComplete =
            try read(
                store, "\(columns.text), \(key) FROM handed_over", orderedBy: ["source", "id_hash", "id"], key: HandedOverColumn.count
            ) { statement throws(QueueError) in
                guard let row = HandedOverRow(statement) else { return isComplete = false }
                try target.handOvers.write(row)
            } && isComplete
        if !isComplete { check.addFinding("some ids that were handed over are lost: they may be taken over again") }
    }

    /// Returns the highest sequence number that may have been assigned, if it is higher than `known`.
    private static func copyRecent(
        _ store: InspectedStore, _ check: StoreCheck, to target: Store, known: Int64
    ) throws(QueueError) -> Int64 {
        var last = known
        var isOwnComplete = true
        if store.hasOwnIDs {
            isOwnComplete = try read(store, "seq, high, low, gone_at FROM recent_own", orderedBy: ["seq"]) { statement throws(QueueError) in
                let id = RecentIDs.id(sequence: statement.int(0), high: statement.int(1), low: statement.int(2))
                if statement.int(0) <= MessageID.sequenceCeiling { last = max(last, statement.int(0)) }
                try target.recentIDs.add(id, of: statement.int(0), isReceived: statement.int(2) & 1 == 1, now: statement.int(3))
            }
        }
        let highest = RecentIDs.highestCredible(after: last)
        let isComplete = try read(store, "id, gone_at, is_received FROM recent", orderedBy: ["id"]) { statement throws(QueueError) in
            let id = statement.text(0)
            if let sequence = MessageID.sequence(in: id), sequence <= highest { last = max(last, sequence) }
            try target.recentIDs.add(id, of: nil, isReceived: statement.bool(2), now: statement.int(1))
        }
        if !isComplete || !isOwnComplete { check.addFinding("some ids of sent messages that were removed may be lost") }
        return last
    }
}

/// Reads the rows of `attempt`, as far as possible.
private final class AttemptRows {
    private let database: Database
    private var statements: [Statement] = []
    /// The number of messages whose attempts could not all be read.
    private(set) var incomplete = 0

    init(_ database: Database) { self.database = database }

    func close() { for statement in statements { statement.finalize() } }

    /// Returns the attempts of a message, read from the start and, if that fails at some row, also from the end.
    func attempts(of sequence: Int64) -> [Attempt] {
        if statements.isEmpty {
            for direction in ["", " DESC"] {
                let sql: SQL = "SELECT \(AttemptColumn.self) FROM attempt WHERE seq = ?1 ORDER BY number"
                guard let statement = try? Statement(sql.text + direction, database) else { return [] }
                statements.append(statement)
            }
        }
        var found: [UInt32: Attempt] = [:]
        var isIncomplete = false
        for statement in statements {
            statement.bind(1, sequence)
            do throws(QueueError) {
                try statement.forEach { () throws(QueueError) in
                    if let attempt = Attempt(Fields(statement)) { found[attempt.number] = attempt }
                    return true
                }
                break
            } catch { isIncomplete = true }
        }
        if isIncomplete { incomplete += 1 }
        return found.values.sorted { $0.number < $1.number }
    }
}

extension Store {
    /// Finishes a store that was filled row by row: writes its counts, and marks it as a copy.
    fileprivate func finishBuilding(through sequence: Int64) throws(QueueError) {
        try begin()
        try counts.countRows(after: 0)
        state.foldedThrough = sequence
        try history.rebuild()
        try failures.rebuild()
        state.markAssigned(through: sequence)
        try times.arrange()
        try commit(durable: false)
        try database.execute(state.copy.update)
    }
}
