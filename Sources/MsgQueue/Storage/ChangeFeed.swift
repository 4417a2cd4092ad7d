/// The durable feed of changes: each change of a message's status has a position, and is written by the transaction of its fact.
///
/// The table `change` exists in stores that were opened with the option `keep_changes`. A row has the changes of one commit, or of a part of
/// it (`ChangeRows`). The row at 0 is the head: how many changes are kept (0: the feed is off), the epoch, and the first position of the
/// epoch. A new epoch begins when changes may be missing: nothing that a token of another one said is true then.
///
/// Follows the transaction of the store, like the values that `Store` keeps in memory.
final class ChangeFeed {
    /// The place of what is stored.
    private struct Extent {
        var epoch: Int64 = 0
        /// The first position of this epoch.
        var start: Int64 = 1
        /// The first position of the first row, and the last position; `last` is less than `first` when there are no rows.
        var first: Int64 = 1
        var last: Int64 = 0
        /// Of the changes in all rows, and in those that were removed.
        var bytes: Int64 = 0
        var removedBytes: Int64 = 0

        var keptBytes: Int64 { bytes.subtractingClamped(removedBytes) }
    }

    /// A row of the table.
    private struct StoredRow {
        let first: Int64
        let count: Int64
        let at: Int64
        /// A random number of the session that wrote it: another history of the store has another one. In the head the epoch.
        let salt: Int64
        /// Of the changes in this row and all before it. In the head the first position of the epoch.
        let bytes: Int64
        let rows: [UInt8]

        /// Reads a row with all columns in order; nil: it is damaged.
        init?(_ statement: Statement) {
            (first, count, at) = (statement.int(0), statement.int(1), statement.int(2))
            (salt, bytes, rows) = (statement.int(3), statement.int(4), statement.blob(5))
            guard statement.int(6) == rows.withUnsafeBytes(checksum) else { return nil }
            guard count >= 0, first >= 0, first <= ChangeFeed.lastPosition, count <= ChangeFeed.lastPosition else { return nil }
        }

        /// A row that is written without a copy of its changes.
        init(first: Int64, count: Int64, at: Int64, salt: Int64, bytes: Int64) {
            (self.first, self.count, self.at, self.salt, self.bytes, rows) = (first, count, at, salt, bytes, [])
        }

        func checksum(_ changes: UnsafeRawBufferPointer) -> Int64 {
            var checksum = Checksum()
            checksum.add(first)
            checksum.add(count)
            checksum.add(at)
            checksum.add(salt)
            checksum.add(bytes)
            checksum.add(changes)
            return checksum.stored
        }

        /// The position after its last change.
        var end: Int64 { first &+ count }

        func check(of change: ArraySlice<UInt8>, at position: Int64) -> UInt64 {
            var checksum = Checksum()
            checksum.add(salt)
            checksum.add(position)
            change.withUnsafeBytes { checksum.add($0) }
            // 0 says that there was no row.
            return max(checksum.value, 1)
        }
    }

    /// A row has about so many bytes at most.
    private static let rowBytes = 4096
    /// The most changes that one commit removes, beside as many as it adds.
    private static let removalStep: Int64 = 4096
    /// Of the limit of the files, the feed takes this part at most.
    private static let partOfFiles: Int64 = 4
    /// Bytes of changes that remain when the files are over their limit, or the disk is full.
    private static let leastBytes: Int64 = 16 << 10
    /// Bytes of disk space for the changes that an unsent message may still make.
    static let reservePerUnsent: Int64 = 256
    private static let lastPosition: Int64 = 1 << 60

    // The store owns the database, and this.
    private unowned let database: Database
    /// The most changes that are kept.
    private let keep: Int64
    private let limitFileBytes: Int64
    private let salt = Int64.random(in: Int64.min...Int64.max)
    /// Returns the wall time in milliseconds.
    var wall: () -> Int64 = { Ports.system.wall() }
    private var extent = Extent()
    /// As it was committed.
    private var committed = Extent()
    private var pending = ChangeRows()
    /// Changes are not written, because the disk has no room for them.
    private(set) var isGivingWay = false
    /// The check value of the oldest change.
    private var oldestCheck: (position: Int64, check: UInt64)?

    private init(_ database: Database, keep: Int64, limitFileBytes: Int64) {
        (self.database, self.keep, self.limitFileBytes) = (database, keep, limitFileBytes)
    }

    // MARK: Opening

    /// Whether the store has the table.
    static func exists(in database: Database) throws(QueueError) -> Bool {
        let tables = try database.statement("SELECT 1 FROM sqlite_schema WHERE name = 'change'")
        return try tables.first { true } ?? false
    }

    /// How many changes are kept by what the table says; 0: none, or the head is damaged.
    static func storedLimit(of database: Database) throws(QueueError) -> Int64 { try head(of: database)?.count ?? 0 }

    private static func head(of database: Database) throws(QueueError) -> StoredRow? {
        let statement = try database.statement("SELECT first, count, at, salt, bytes, rows, checksum FROM change WHERE first = 0")
        return try statement.first { () throws(QueueError) in StoredRow(statement) } ?? nil
    }

    /// The feed of a store that is only read; nil: it has none.
    static func reading(_ database: Database) throws(QueueError) -> ChangeFeed? {
        guard try exists(in: database), let head = try head(of: database), head.count > 0 else { return nil }
        let feed = ChangeFeed(database, keep: head.count, limitFileBytes: 0)
        guard try feed.read(head) else { return nil }
        return feed
    }

    /// The feed of a store that is written, inside a transaction of the opening if `needsTransaction`.
    static func writing(_ database: Database, keep: Int64, limitFileBytes: Int64) throws(QueueError) -> ChangeFeed {
        let feed = ChangeFeed(database, keep: keep, limitFileBytes: limitFileBytes)
        if try !exists(in: database) {
            try database.execute(Schema.changeTable)
            try feed.restart()
        } else if let head = try head(of: database), head.count > 0 {
            if try feed.read(head) {
                if head.count != keep { try feed.writeHead(keep: keep) }
            } else {
                Log.error("\(database.path): the feed of changes is damaged and begins again")
                try feed.clear()
            }
        } else {
            // It was off, so changes may be missing.
            if try feed.readRows() { try feed.restart() } else { try feed.clear() }
        }
        feed.committed = feed.extent
        return feed
    }

    /// Whether the opening must write something before the feed can be used.
    static func needsTransaction(_ database: Database, keep: Int64) throws(QueueError) -> Bool {
        guard try exists(in: database), let head = try head(of: database), head.count == keep else { return true }
        return try !ChangeFeed(database, keep: keep, limitFileBytes: 0).read(head)
    }

    /// Ends the feed, because the store is changed without it. Inside the caller's transaction.
    static func end(in database: Database) throws(QueueError) {
        guard let head = try head(of: database), head.count > 0 else { return }
        try write(StoredRow(first: 0, count: 0, at: head.at, salt: head.salt, bytes: head.bytes), to: database)
    }

    /// Returns false if the table is damaged.
    private func read(_ head: StoredRow) throws(QueueError) -> Bool {
        (extent.epoch, extent.start) = (head.salt, max(head.bytes, 1))
        guard try readRows() else { return false }
        committed = extent
        return true
    }

    /// Finds the first and the last position. Returns false if a row is damaged.
    private func readRows() throws(QueueError) -> Bool {
        let statement = try database.statement(
            "SELECT first, count, at, salt, bytes, rows, checksum FROM change WHERE first > 0 ORDER BY first DESC LIMIT 1")
        let last = try statement.first { () throws(QueueError) in StoredRow(statement) } ?? nil
        guard let last, let first = try firstRow() else {
            let rows = try database.statement("SELECT count(*) FROM change WHERE first > 0")
            guard try rows.first({ () throws(QueueError) in rows.int(0) }) == 0 else { return false }
            (extent.first, extent.last) = (extent.start, extent.start - 1)
            return true
        }
        (extent.first, extent.last, extent.bytes) = (first.first, last.end - 1, last.bytes)
        extent.removedBytes = first.bytes.subtractingClamped(Int64(first.rows.count))
        return last.end > last.first && extent.start <= last.end
    }

    /// Returns the first row; nil: there is none, or it is damaged.
    private func firstRow() throws(QueueError) -> StoredRow? {
        let statement = try database.statement(
            "SELECT first, count, at, salt, bytes, rows, checksum FROM change WHERE first > 0 ORDER BY first LIMIT 1")
        return try statement.first { () throws(QueueError) in StoredRow(statement) } ?? nil
    }

    // MARK: Writing

    /// Adds a change of the open transaction.
    func note(
        _ kind: StoredChange.Kind, _ status: MessageStatus, of row: Row, _ failure: FailureKind = .none, code: Int32 = 0
    ) throws(QueueError) {
        guard !isGivingWay else { return }
        // Before it, so that it can be amended.
        if pending.bytes.count >= Self.rowBytes { try writePending() }
        pending.append(
            ChangeRows.Change(kind: kind, status: status, failure: failure, code: code, id: row.id, conversation: row.conversation),
            of: row.sequence)
    }

    /// Adds what the last change of the open transaction failed with, if it is one of this message.
    func amend(_ sequence: Int64, _ failure: FailureKind, code: Int32) {
        pending.amend(sequence, failure, code: code) { $0 == .status }
    }

    /// Adds why the message is gone, if that is the last change of the open transaction.
    func amendGone(_ sequence: Int64, _ failure: FailureKind) { pending.amend(sequence, failure) { $0 != .status } }

    /// Gives the last change of the open transaction another status, if it is one of this message.
    func amend(_ sequence: Int64, _ status: MessageStatus) { pending.amend(sequence, status) }

    /// Writes the changes of the transaction, before its commit. `fileUse` returns the size of the files.
    func write(usesReserve: Bool, fileUse: () throws(QueueError) -> Int64) throws(QueueError) {
        guard !isGivingWay else { return try restart() }
        guard !pending.isEmpty else { return }
        let kept = extent.keptBytes
        try writePending()
        var (ceiling, isFull) = (Int64.max, usesReserve)
        if limitFileBytes > 0 {
            ceiling = max(limitFileBytes / Self.partOfFiles, Self.leastBytes)
            if !isFull { isFull = try fileUse() > limitFileBytes }
        }
        // What is reserved on a full disk is for outcomes.
        if isFull { ceiling = min(ceiling, max(kept, Self.leastBytes)) }
        try trim(ceiling)
    }

    private func writePending() throws(QueueError) {
        let (count, before) = (pending.count, extent)
        guard count > 0 else { return }
        guard before.last < Self.lastPosition - count else { throw QueueError(.full, "the feed of changes has no positions left") }
        let statement = try database.statement(
            "INSERT INTO change(first, count, at, salt, bytes, rows, checksum) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)")
        let bytes = before.bytes.addingClamped(Int64(pending.bytes.count))
        let row = StoredRow(first: before.last + 1, count: count, at: wall(), salt: salt, bytes: bytes)
        try pending.bytes.withBytes { changes throws(QueueError) in try Self.run(statement, row, changes) }
        pending.removeAll()
        (extent.last, extent.bytes) = (before.last + count, bytes)
    }

    /// Writes the head.
    private static func write(_ head: StoredRow, to database: Database) throws(QueueError) {
        let statement = try database.statement(
            "INSERT OR REPLACE INTO change(first, count, at, salt, bytes, rows, checksum) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)")
        try run(statement, head, UnsafeRawBufferPointer(start: nil, count: 0))
    }

    private static func run(_ statement: Statement, _ row: StoredRow, _ changes: UnsafeRawBufferPointer) throws(QueueError) {
        statement.bind(1, row.first)
        statement.bind(2, row.count)
        statement.bind(3, row.at)
        statement.bind(4, row.salt)
        statement.bind(5, row.bytes)
        try statement.bind(6, borrowing: changes)
        statement.bind(7, row.checksum(changes))
        try statement.run()
    }

    private func writeHead(keep: Int64) throws(QueueError) {
        try Self.write(StoredRow(first: 0, count: keep, at: wall(), salt: extent.epoch, bytes: extent.start), to: database)
    }

    /// Begins a new epoch, because changes may be missing. Inside the caller's transaction.
    func restart() throws(QueueError) {
        extent.epoch = Int64.random(in: Int64.min...Int64.max)
        extent.start = extent.last + 1
        try writeHead(keep: keep)
    }

    /// Removes all changes, some of which are damaged, and begins a new epoch. Inside the caller's transaction.
    func clear() throws(QueueError) {
        try database.execute("DELETE FROM change")
        try restart()
        (extent.first, extent.bytes, extent.removedBytes) = (extent.start, 0, 0)
    }

    /// The disk has no room for changes: those of the next transaction are left out, and a new epoch begins with it.
    func giveWay() { isGivingWay = true }

    // MARK: Removing

    /// Removes the oldest rows. Some more changes than `keep` remain, which pages do not show, so that not every commit removes some.
    private func trim(_ ceiling: Int64) throws(QueueError) {
        let stored = extent.last - extent.first + 1
        var floor = Int64.min
        let slack = min(max(keep / 8, 64), Self.removalStep)
        if stored > keep.addingClamped(slack) { floor = extent.last - keep + 1 }
        if extent.start - extent.first > slack { floor = max(floor, extent.start) }
        let over = extent.keptBytes.subtractingClamped(ceiling)
        if over > 0, stored > 0 {
            // As many as have so many bytes, by their average.
            let part = Double(over) / Double(max(extent.keptBytes, 1)) * Double(stored)
            floor = max(floor, extent.first + (Int64(exactly: part.rounded(.up)) ?? stored) + 1)
        }
        guard floor > extent.first else { return }
        floor = min(floor, extent.first + Self.removalStep + 2 * (extent.last - committed.last), extent.last)
        let search = try database.statement("SELECT max(first) FROM change WHERE first > 0 AND first <= ?1")
        search.bind(1, floor)
        guard let next = try search.first({ () throws(QueueError) in search.int(0) }), next > extent.first else { return }
        let removal = try database.statement("DELETE FROM change WHERE first > 0 AND first < ?1")
        removal.bind(1, next)
        try removal.run()
        // A damaged row is no reason to refuse an outcome.
        guard let first = try firstRow() else { return try clear() }
        extent.first = first.first
        extent.removedBytes = first.bytes.subtractingClamped(Int64(first.rows.count))
    }

    // MARK: The transaction

    func committedTransaction() {
        committed = extent
        isGivingWay = false
    }

    func rollback() {
        extent = committed
        pending.removeAll()
    }

    // MARK: Reading

    /// Whether there are changes after the token; nil: before the oldest.
    func hasChanges(after token: ChangeToken?) -> Bool { committed.last > token?.position ?? 0 || token?.isBefore ?? true }

    /// The first position that pages show; `committed.last + 1` if there is none.
    private var oldest: Int64 { max(committed.first, committed.start, committed.last.subtractingClamped(keep) + 1) }

    /// Returns the changes after a token; nil: from the oldest. Throws `conflict` when they are not all there, and `corrupt`.
    func page(after token: ChangeToken?, limit: Int) throws(QueueError) -> ChangePage {
        let oldest = try oldestToken()
        var position = self.oldest
        if let token { position = try self.position(after: token, oldest) }
        var changes: [StoredChange] = []
        if position <= committed.last {
            changes.reserveCapacity(min(limit, Int(clamping: committed.last - position + 1)))
            try forEach(from: position) { row, position, change, check in
                changes.append(
                    StoredChange(
                        kind: change.kind, status: change.status, failure: change.failure, code: change.code, at: row.at, id: change.id,
                        conversation: change.conversation.text,
                        token: ChangeToken(epoch: committed.epoch, position: position, check: check, isBefore: false)))
                return changes.count < limit
            }
        }
        return ChangePage(changes: changes, next: changes.last?.token ?? token ?? oldest, oldest: oldest)
    }

    private func oldestToken() throws(QueueError) -> ChangeToken {
        let position = oldest
        guard position <= committed.last else {
            return ChangeToken(epoch: committed.epoch, position: position, check: 0, isBefore: true)
        }
        if oldestCheck?.position != position { oldestCheck = (position, try check(at: position)) }
        return ChangeToken(epoch: committed.epoch, position: position, check: oldestCheck?.check ?? 0, isBefore: true)
    }

    /// Returns the position of the first change after the token.
    private func position(after token: ChangeToken, _ oldest: ChangeToken) throws(QueueError) -> Int64 {
        func conflict(_ reason: String) -> QueueError {
            QueueError(.conflict, "\(reason). List the messages again, and go on from the oldest token, \(oldest.text)")
        }
        guard token.epoch == oldest.epoch, token.position <= committed.last + (token.isBefore ? 1 : 0) else {
            throw conflict("The token is of another history of this store")
        }
        guard token.position >= oldest.position else { throw conflict("The changes after this token are not kept any more") }
        if token.check == 0 {
            // There were no changes: all of them follow.
            guard token.isBefore, token.position == committed.start else { throw conflict("The token is of another history of this store") }
            return token.position
        }
        guard token.position <= committed.last, try check(at: token.position) == token.check else {
            throw conflict("The token is of another history of this store")
        }
        return token.isBefore ? token.position : token.position + 1
    }

    private func check(at position: Int64) throws(QueueError) -> UInt64 {
        var found: UInt64 = 0
        try forEach(from: position) { _, _, _, check in
            found = check
            return false
        }
        return found
    }

    /// Calls `body` for each change from a position on, until it returns false.
    private func forEach(
        from position: Int64, _ body: (StoredRow, Int64, ChangeRows.Change, UInt64) -> Bool
    ) throws(QueueError) {
        let damage = QueueError(.corrupt, "the feed of changes is damaged")
        let search = try database.statement("SELECT max(first) FROM change WHERE first > 0 AND first <= ?1")
        search.bind(1, position)
        guard var next = try search.first({ () throws(QueueError) in search.int(0) }), next > 0 else { throw damage }
        let statement = try database.statement(
            "SELECT first, count, at, salt, bytes, rows, checksum FROM change WHERE first >= ?1 ORDER BY first")
        statement.bind(1, next)
        let last = committed.last
        var isFound = false
        try statement.forEach { () throws(QueueError) in
            guard let row = StoredRow(statement), row.first == next else { throw damage }
            var reader = ChangeReader(row.rows)
            while next < row.end {
                guard next <= last else { return false }
                guard let (change, bytes) = reader.next() else { throw damage }
                if next >= position {
                    isFound = true
                    guard body(row, next, change, row.check(of: bytes, at: next)) else { return false }
                }
                next += 1
            }
            guard reader.isAtEnd else { throw damage }
            return next <= last
        }
        guard isFound else { throw damage }
    }

    /// Whether the table is intact, or there is none.
    static func isIntact(in database: Database) throws(QueueError) -> Bool {
        guard try exists(in: database) else { return true }
        guard let head = try head(of: database) else { return false }
        let feed = ChangeFeed(database, keep: max(head.count, 1), limitFileBytes: 0)
        return try feed.read(head) && feed.isIntact()
    }

    private func isIntact() -> Bool {
        guard committed.last >= committed.first else { return true }
        var count: Int64 = 0
        let isRead =
            (try? forEach(from: committed.first) { _, _, _, _ in
                count += 1
                return true
            }) != nil
        return isRead && count == committed.last - committed.first + 1
    }
}
