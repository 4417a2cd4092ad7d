import Glibc

/// Builds a new store of every whole message of another one, which may be damaged and is not changed.
package enum StoreSalvage {
    /// Messages in one transaction.
    private static let batch = 512

    /// `given` must not exist yet. What was being sent is found as cut by a crash when the new store is opened.
    package static func run(from source: String, to given: String) throws(QueueError) -> CheckReport {
        let remains = try StoreRemains(source)
        defer { remains.close() }
        let path = try StorePath.resolve(given)
        guard try StorePath.inspect(path) == nil else { throw QueueError(.conflict, "\(path) exists already") }
        let file = try NewFile(for: path)
        try Posix.write(file.descriptor, at: 0, try StoreBirth.image(usesLog: false), path)
        let database = try Database(building: file.temporary, lengthLimit: Store.lengthLimit)
        let report: CheckReport
        do throws(QueueError) {
            report = try fill(Store(over: database, remains.lock, ""), from: remains)
        } catch {
            database.close()
            throw error
        }
        database.close()
        try Posix.write(file.descriptor, at: StoreBirth.logMark.offset, StoreBirth.logMark.bytes, path)
        guard try file.finish(replacing: false) else { throw QueueError(.conflict, "\(path) exists already") }
        return report
    }

    private static func fill(_ target: Store, from remains: StoreRemains) throws(QueueError) -> CheckReport {
        let check = StoreCheck(remains)
        let ledger = LedgerRows(remains.database)
        defer { ledger.close() }
        var count = 0
        try target.begin()
        try check.collect { row throws(QueueError) in
            guard try target.insertSalvaged(row) else { return false }
            for attempt in ledger.attempts(of: row.sequence) { try target.write(attempt, of: row.sequence) }
            count += 1
            if count % Self.batch == 0 {
                try target.commit(durable: false)
                try target.begin()
            }
            return true
        }
        if ledger.torn > 0 { check.note("attempts of \(Words.messages(Int64(ledger.torn))) may be lost") }
        try copyInFlight(remains, check, to: target)
        var last = check.ceiling
        try copyRecent(remains, check, to: target) { id in last = max(last, MessageID.sequence(in: id) ?? 0) }
        // What is not known to be unused is not given out.
        if !check.isSound || remains.state?.mark != .closed { last = last.addingClamped(Store.sequenceBlock) }
        if let hold = remains.state?.hold, hold != StoreState.Hold() {
            target.setHold((hold.until, hold.delay, hold.boot, hold.uptime))
        }
        try target.finishBuilding(through: min(last, MessageID.sequenceCeiling))
        return check.report()
    }

    // MARK: What is beside the messages

    /// Reads a table from its start, and where it cannot be read on, from its end.
    private static func read(
        _ remains: StoreRemains, _ columns: String, orderedBy key: String, _ take: (Statement) throws(QueueError) -> Void
    ) throws(QueueError) -> Bool {
        var isFirst = true
        for direction in ["", " DESC"] {
            var failure: QueueError?
            do throws(QueueError) {
                let statement = try Statement("SELECT \(columns) ORDER BY \(key)\(direction)", remains.database)
                defer { statement.finalize() }
                try statement.forEach { () throws(QueueError) in
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

    private static func copyInFlight(_ remains: StoreRemains, _ check: StoreCheck, to target: Store) throws(QueueError) {
        let isComplete = try read(remains, "seq, number, started_at FROM in_flight", orderedBy: "seq") { statement throws(QueueError) in
            guard check.isWhole(statement.int(0)), let number = UInt32(exactly: statement.int(1)), number > 0 else { return }
            try target.begin(attempt: number, of: statement.int(0), at: statement.int(2))
        }
        if !isComplete { check.note("which messages were being sent is not known completely") }
    }

    private static func copyRecent(
        _ remains: StoreRemains, _ check: StoreCheck, to target: Store, _ found: (String) -> Void
    ) throws(QueueError) {
        let isComplete = try read(remains, "id, gone_at, is_received FROM recent", orderedBy: "id") { statement throws(QueueError) in
            let id = statement.text(0)
            found(id)
            try target.remember(id, isReceived: statement.bool(2), now: statement.int(1))
        }
        if !isComplete { check.note("ids of messages that were sent and are gone may be lost") }
    }
}

/// The ledgers of messages, as far as they can be read.
private final class LedgerRows {
    private let database: Database
    private var statements: [Statement] = []
    /// Messages whose ledger could not be read to its end.
    private(set) var torn = 0

    init(_ database: Database) { self.database = database }

    func close() { for statement in statements { statement.finalize() } }

    /// From the start, and where that cannot be read on, from the end.
    func attempts(of sequence: Int64) -> [Attempt] {
        if statements.isEmpty {
            for direction in ["", " DESC"] {
                let sql: SQL = "SELECT \(AttemptColumn.self) FROM attempt WHERE seq = ?1 ORDER BY number"
                guard let statement = try? Statement(sql.text + direction, database) else { return [] }
                statements.append(statement)
            }
        }
        var found: [UInt32: Attempt] = [:]
        var isTorn = false
        for statement in statements {
            statement.bind(1, sequence)
            do throws(QueueError) {
                try statement.forEach { () throws(QueueError) in
                    if let attempt = Attempt(Fields(statement)) { found[attempt.number] = attempt }
                    return true
                }
                break
            } catch { isTorn = true }
        }
        if isTorn { torn += 1 }
        return found.values.sorted { $0.number < $1.number }
    }
}

extension Store {
    /// Puts a row that is whole where it was, as it was. False: its id is taken.
    fileprivate func insertSalvaged(_ row: Row) throws(QueueError) -> Bool {
        var row = row
        // An id that does not carry its sequence is found by the index alone.
        row.isNamed = row.isNamed || MessageID.sequence(in: row.id) != row.sequence
        let statement = try database.statement(
            """
            INSERT OR IGNORE INTO message(indexed, \(MessageColumn.self)) VALUES(1, \(parameters: MessageColumn.self))
            """)
        row.progress.bind(to: Fields(statement))
        return try Self.lending(row.body) { bytes throws(QueueError) in try insert(row, bytes, statement) }
    }

    private static func lending(
        _ bytes: [UInt8], _ body: (UnsafeRawBufferPointer) throws(QueueError) -> Bool
    ) throws(QueueError) -> Bool {
        let result = bytes.withUnsafeBytes { buffer -> Result<Bool, QueueError> in
            do throws(QueueError) { return .success(try body(buffer)) } catch { return .failure(error) }
        }
        return try result.get()
    }

    /// Ends a store that was filled row by row: its counts, and its state as that of a copy.
    fileprivate func finishBuilding(through sequence: Int64) throws(QueueError) {
        try begin()
        try countRows(after: 0)
        foldedThrough = sequence
        giveOut(through: sequence)
        try commit(durable: false)
        try database.execute(stateOfCopy.update)
    }
}
