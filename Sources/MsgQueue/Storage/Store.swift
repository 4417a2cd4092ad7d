import Glibc

/// The only room that knows SQL. Used under the engine's lock; every writing function needs `begin()` before and `commit` after.
///
/// What is kept in memory beside the tables (counts, the next sequence) follows the transaction: `rollback` undoes it.
package final class Store {
    let database: Database
    let file: FileIdentity
    private(set) var nextSequence: Int64
    private var sequenceCeiling: Int64
    var foldedThrough: Int64
    var counters: Counters
    /// A receiver asked the whole queue to wait: wall time, the delay that led to it, the boot then, and milliseconds since that boot; nil: none.
    package private(set) var hold: (until: Int64, delay: Int64, boot: Int64, uptime: Int64)?
    /// History up to this sequence was looked at for pruning.
    var pruneCursor: Int64 = 0
    /// What this transaction changed in memory, to be undone when it fails.
    private var sequenceAtBegin: (next: Int64, ceiling: Int64, folded: Int64)?

    /// Messages that wait for the fold at most, so that it stays a short pause.
    static let foldEvery: Int64 = 512
    static let sequenceBlock: Int64 = 4096

    /// Opens the store at `path`, or makes it.
    package init(path given: String, options: Options) throws(QueueError) {
        let path = try StorePath.resolve(given)
        if try StorePath.inspect(path) == nil { try StoreBirth.make(path) }
        guard let file = try StorePath.inspect(path) else {
            throw QueueError(.storage, "\(path) vanished while it was opened")
        }
        guard StoreOwner.claim(file) else {
            throw QueueError(.locked, "\(path) is open in this process (\(getpid())) already, or was when it was forked")
        }
        do {
            try StorePath.checkHeader(path)
            database = try Self.connect(path, file, options)
        } catch {
            StoreOwner.release(file)
            throw error
        }
        self.file = file
        (nextSequence, sequenceCeiling, foldedThrough) = (1, 0, 0)
        counters = Counters()
        do {
            try start()
        } catch {
            database.rollback()
            close(clean: false)
            throw error
        }
    }

    private static func connect(_ path: String, _ file: FileIdentity, _ options: Options) throws(QueueError) -> Database {
        let deadline = 20
        for tries in 0... {
            do {
                return try Database(path: path, lengthLimit: Options.bodyCeiling + (64 << 20))
            } catch {
                guard error.code == .locked else { throw error }
                // An owner that is just closing gets a moment.
                if tries < deadline {
                    usleep(5_000)
                    continue
                }
                let owner = StoreOwner.process(locking: file).map { "process \($0)" } ?? "another process"
                throw QueueError(.locked, "\(path) is open in \(owner)")
            }
        }
        throw QueueError(.internal, "unreachable")
    }

    /// Reads where the last owner left off.
    private func start() throws(QueueError) {
        try checkObjects()
        let statement = try database.statement(
            """
            SELECT sequence_ceiling, folded_through, is_clean, boot_id, queued, sent, delivered, "read", failed, received, unread,
              unsent_bytes, hold_until, hold_delay, hold_boot, hold_uptime FROM state
            """)
        var totals = Counts()
        let state = try statement.first { () throws(QueueError) in
            totals = counts(statement, from: 4)
            if statement.int(12) > 0 {
                hold = (statement.int(12), max(statement.int(13), 0), statement.int(14), max(statement.int(15), 0))
            }
            return (statement.int(0), statement.int(1), statement.bool(2), statement.text(3))
        }
        guard let (ceiling, folded, isClean, bootID) = state, ceiling >= 0, folded >= 0, ceiling <= MessageID.sequenceCeiling else {
            throw QueueError(.corrupt, "\(database.path): the table state is empty or impossible")
        }
        (sequenceCeiling, nextSequence, foldedThrough) = (ceiling, ceiling + 1, folded)
        let currentBoot = Self.bootID()
        // A crash of the process leaves the file whole; only a crash of the system may not.
        if !isClean, bootID != currentBoot || bootID.isEmpty { try quickCheck() }
        try begin()
        if isClean, totals.isPlausible {
            counters = Counters(totals: totals)
        } else {
            try fold()
            counters = Counters(totals: try sumOfConversations())
        }
        let opened = try database.statement("UPDATE state SET is_clean = 0, boot_id = ?1")
        try opened.bind(1, currentBoot)
        try opened.run()
        try commit(durable: true)
    }

    private func checkObjects() throws(QueueError) {
        var names: [String] = []
        let statement = try database.statement("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
        try statement.forEach { () throws(QueueError) in
            names.append(statement.text(0))
            return true
        }
        guard names == Schema.objects else {
            throw QueueError(.corrupt, "\(database.path) has other tables than a message store: \(names.joined(separator: ", "))")
        }
    }

    private func quickCheck() throws(QueueError) {
        let statement = try database.statement("PRAGMA quick_check(1)")
        let answer = try statement.first { () throws(QueueError) in statement.text(0) }
        guard answer == "ok" else { throw QueueError(.corrupt, "\(database.path): \(answer ?? "no answer")") }
    }

    /// Names this run of the system; "" where that is not known, which counts as another one.
    private static func bootID() -> String {
        guard let file = fopen("/proc/sys/kernel/random/boot_id", "re") else { return "" }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 36)
        guard fread(&bytes, 1, bytes.count, file) == bytes.count else { return "" }
        return String(decoding: bytes, as: UTF8.self)
    }

    // MARK: Transactions

    package func begin() throws(QueueError) {
        guard !database.isInTransaction else { return }
        try database.begin()
        sequenceAtBegin = (nextSequence, sequenceCeiling, foldedThrough)
    }

    package var isInTransaction: Bool { database.isInTransaction }
    package var lastCommitWrote: Bool { database.lastCommitWrote }

    package func commit(durable: Bool) throws(QueueError) {
        guard database.isInTransaction else { return }
        do {
            try database.commit(durable: durable)
        } catch {
            // After a flush that failed the rows may be there: memory goes on as if, and the queue is closed to writes.
            if !database.isPoisoned { undo() }
            throw error
        }
        counters.commit()
    }

    package func rollback() {
        guard database.isInTransaction else { return }
        database.rollback()
        undo()
    }

    private func undo() {
        if let (next, ceiling, folded) = sequenceAtBegin {
            (nextSequence, sequenceCeiling, foldedThrough) = (next, ceiling, folded)
        }
        counters.rollback()
    }

    /// The next place in the order. Blocks of numbers are reserved on disk, so that none is given out twice, whatever is deleted.
    func takeSequence() throws(QueueError) -> Int64 {
        if nextSequence > sequenceCeiling {
            let ceiling = nextSequence + Self.sequenceBlock - 1
            guard ceiling <= MessageID.sequenceCeiling else { throw QueueError(.full, "the store's numbers are used up") }
            let statement = try database.statement("UPDATE state SET sequence_ceiling = ?1")
            statement.bind(1, ceiling)
            try statement.run()
            sequenceCeiling = ceiling
        }
        defer { nextSequence += 1 }
        return nextSequence
    }

    /// Inside the caller's transaction.
    package func setHold(_ hold: (until: Int64, delay: Int64, boot: Int64, uptime: Int64)) throws(QueueError) {
        let statement = try database.statement("UPDATE state SET hold_until = ?1, hold_delay = ?2, hold_boot = ?3, hold_uptime = ?4")
        for (index, value) in [hold.until, hold.delay, hold.boot, hold.uptime].enumerated() { statement.bind(Int32(index + 1), value) }
        try statement.run()
        self.hold = hold
    }

    /// Closes the file; `clean` also writes down what the next open would else have to count.
    package func close(clean: Bool) {
        if clean, !database.isPoisoned {
            do {
                try begin()
                try fold()
                try saveTotals()
                try commit(durable: true)
                database.checkpoint(truncate: true)
            } catch {
                // The next open counts for itself; nothing is lost but time.
                rollback()
                Log.warning("\(database.path): not closed in order: \(error.detail)")
            }
        }
        database.close()
        StoreOwner.release(file)
    }

    private func saveTotals() throws(QueueError) {
        let statement = try database.statement(
            """
            UPDATE state SET is_clean = 1, sequence_ceiling = ?1, queued = ?2, sent = ?3, delivered = ?4, "read" = ?5, failed = ?6,
              received = ?7, unread = ?8, unsent_bytes = ?9
            """)
        statement.bind(1, nextSequence - 1)
        bind(counters.totals, to: statement, from: 2)
        try statement.run()
    }

    /// Removes what was deleted from the log and the file, not only from the tables.
    package func scrub() { database.checkpoint(truncate: true) }

    package var path: String { database.path }
    package var isPoisoned: Bool { database.isPoisoned }
}
