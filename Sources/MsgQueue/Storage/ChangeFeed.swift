/// The durable feed of changes: each change of a message's status has a position, and is written by the transaction of its fact.
///
/// A new epoch begins when changes may be missing: nothing that a token of another one said is true then.
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

    private let table: ChangeTable
    /// The store is only read: a change that only this process has made is none, because no token may be ahead of the store.
    private let isReading: Bool
    /// The most changes that are kept.
    private let keep: Int64
    private let limitFileBytes: Int64
    private let salt = Int64.random(in: Int64.min...Int64.max)
    /// Returns the wall time in milliseconds.
    var wall: () -> Int64 = { Ports.system.wall() }
    /// The least bytes of changes that were kept since the files were full; nil: they are not.
    private var fullBytes: Int64?
    private var extent = Extent()
    /// As it was committed.
    private var committed = Extent()
    private var pending = ChangeRows()
    /// Changes are not written, because the disk has no room for them.
    private(set) var isGivingWay = false
    /// The check value of the oldest change.
    private var oldestCheck: (position: Int64, check: UInt64)?

    private init(_ database: Database, keep: Int64, limitFileBytes: Int64, isReading: Bool = false) {
        (table, self.keep, self.limitFileBytes, self.isReading) = (ChangeTable(database), keep, limitFileBytes, isReading)
    }

    // MARK: Opening

    /// The feed of a store that is only read; nil: it has none.
    static func reading(_ database: Database) throws(QueueError) -> ChangeFeed? {
        guard let head = try ChangeTable(database).head(), head.count > 0 else { return nil }
        let feed = ChangeFeed(database, keep: head.count, limitFileBytes: 0, isReading: true)
        guard try feed.read(head) else { return nil }
        return feed
    }

    /// The feed of a store that is written, inside a transaction of the opening if `needsTransaction`.
    static func writing(_ database: Database, keep: Int64, limitFileBytes: Int64) throws(QueueError) -> ChangeFeed {
        let feed = ChangeFeed(database, keep: keep, limitFileBytes: limitFileBytes)
        if try !feed.table.exists() {
            try feed.table.create()
            try feed.restart()
        } else if let head = try feed.table.head(), head.count > 0 {
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
        guard let head = try ChangeTable(database).head(), head.count == keep else { return true }
        return try !ChangeFeed(database, keep: keep, limitFileBytes: 0).read(head)
    }

    /// Ends the feed, because the store is changed without it. Inside the caller's transaction.
    static func end(in database: Database) throws(QueueError) {
        let table = ChangeTable(database)
        guard let head = try table.head(), head.count > 0 else { return }
        try table.write(StoredChanges(first: 0, count: 0, at: head.at, salt: head.salt, bytes: head.bytes))
    }

    /// Returns false if the table is damaged.
    private func read(_ head: StoredChanges) throws(QueueError) -> Bool {
        (extent.epoch, extent.start) = (head.salt, max(head.bytes, 1))
        guard try readRows() else { return false }
        committed = extent
        return true
    }

    /// Finds the first and the last position. Returns false if a row is damaged.
    private func readRows() throws(QueueError) -> Bool {
        guard let last = try table.last(), let first = try table.first() else {
            guard try table.isEmpty() else { return false }
            (extent.first, extent.last) = (extent.start, extent.start - 1)
            return true
        }
        (extent.first, extent.last, extent.bytes) = (first.first, last.end - 1, last.bytes)
        extent.removedBytes = first.bytes.subtractingClamped(Int64(first.rows.count))
        return last.end > last.first && extent.start <= last.end
    }

    // MARK: Writing

    /// Adds a change of the open transaction.
    func note(
        _ kind: StoredChange.Kind, _ status: MessageStatus, of row: Row, _ failure: FailureKind = .none, code: Int32 = 0
    ) throws(QueueError) {
        guard !isGivingWay, !isReading else { return }
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
        // What is reserved on a full disk is for outcomes. A row with many changes is removed only when all of them are too much, so the
        // ceiling must not follow what is kept meanwhile.
        fullBytes = isFull ? min(fullBytes ?? kept, kept) : nil
        if let fullBytes { ceiling = min(ceiling, max(fullBytes, Self.leastBytes)) }
        try trim(ceiling)
    }

    private func writePending() throws(QueueError) {
        let (count, before) = (pending.count, extent)
        guard count > 0 else { return }
        guard before.last < ChangeTable.lastPosition - count else { throw QueueError(.full, "the feed of changes has no positions left") }
        let bytes = before.bytes.addingClamped(Int64(pending.bytes.count))
        let row = StoredChanges(first: before.last + 1, count: count, at: wall(), salt: salt, bytes: bytes)
        try pending.bytes.withBytes { changes throws(QueueError) in try table.insert(row, changes) }
        pending.removeAll()
        (extent.last, extent.bytes) = (before.last + count, bytes)
    }

    private func writeHead(keep: Int64) throws(QueueError) {
        try table.write(StoredChanges(first: 0, count: keep, at: wall(), salt: extent.epoch, bytes: extent.start))
    }

    /// Begins a new epoch, because changes may be missing. Inside the caller's transaction.
    func restart() throws(QueueError) {
        extent.epoch = Int64.random(in: Int64.min...Int64.max)
        extent.start = extent.last + 1
        try writeHead(keep: keep)
    }

    /// Removes all changes, some of which are damaged, and begins a new epoch. Inside the caller's transaction.
    func clear() throws(QueueError) {
        try table.removeAll()
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
        guard let next = try table.start(of: floor), next > extent.first else { return }
        try table.remove(before: next)
        // A damaged row is no reason to refuse an outcome.
        guard let first = try table.first() else { return try clear() }
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
            try table.forEach(from: position, through: committed.last) { row, position, change, check in
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
        try table.forEach(from: position, through: committed.last) { _, _, _, check in
            found = check
            return false
        }
        return found
    }

    /// Whether the table is intact, or there is none.
    static func isIntact(in database: Database) throws(QueueError) -> Bool {
        let table = ChangeTable(database)
        guard try table.exists() else { return true }
        guard let head = try table.head() else { return false }
        let feed = ChangeFeed(database, keep: max(head.count, 1), limitFileBytes: 0)
        return try feed.read(head) && feed.isIntact()
    }

    private func isIntact() -> Bool {
        guard committed.last >= committed.first else { return true }
        var count: Int64 = 0
        let isRead =
            (try? table.forEach(from: committed.first, through: committed.last) { _, _, _, _ in
                count += 1
                return true
            }) != nil
        return isRead && count == committed.last - committed.first + 1
    }
}
