import CSQLite

/// The disk space that the store uses and needs.
final class DiskSpace {
    private let database: Database
    private let state: StateRow
    private let counts: ConversationCounts
    /// nil: a store in memory.
    private let lock: StoreLock?
    /// Outcomes also need room for their changes (`ChangeFeed`).
    var keepsChanges = false
    private let limitBody: Int64

    init(_ database: Database, _ state: StateRow, _ counts: ConversationCounts, _ lock: StoreLock?, limitBody: Int64) {
        (self.database, self.state, self.counts, self.lock, self.limitBody) = (database, state, counts, lock, limitBody)
        reserve = database.log.map { DiskReserve(database, $0) }
    }

    // MARK: Disk reserve

    /// Reserves disk space after the opening, so that a disk that becomes full before the first change stops nothing.
    func beginReserve() { reserve?.begin(keeping: neededReserve) }

    /// Releases what a closed store does not keep.
    func endReserve() { reserve?.end(keeping: counts.totals.unsent > 0 || counts.totals.history > 0 ? neededReserve : 0) }

    /// nil: nothing is written to files that need it.
    let reserve: DiskReserve?
    /// The disk is full: what is written now may need the reserve.
    var usesReserve: Bool { reserve.map { !$0.isWhole } ?? false }

    /// Bytes that accepted messages may still need: for each unsent message an outcome and a row of `attempt`, the index entries of
    /// unfolded rows, the pages of deleted bodies, and what closing writes.
    var neededReserve: Int64 {
        let unsent = min(max(0, counts.totals.queued.addingClamped(counts.totals.failed)), 1 << 40)
        let bodies = min(max(0, counts.totals.unsentBytes, longestBody), Self.bodyReserve)
        let each = Self.reservePerUnsent + (keepsChanges ? ChangeFeed.reservePerUnsent : 0)
        return Self.leastReserve + bodies + bodies / 8 + unsent * each + foldReserve
    }
    private static let (leastReserve, bodyReserve): (Int64, Int64) = (192 << 10, 4 << 20)
    private static let reservePerUnsent: Int64 = 256

    /// The size that a body may have beyond what `leastReserve` covers. Its pages are overwritten when the message is deleted.
    private var longestBody: Int64 { min(limitBody, ((try? database.sizes().file) ?? Int64.max).subtractingClamped(Self.leastReserve)) }

    /// Bytes that the fold writes: for each row four times the name of the conversation, in pages at least half full, and numbers.
    private var foldReserve: Int64 {
        counts.counters.unfolded.reduce(0) { sum, entry in
            let rows = min(max(0, entry.value.queued &+ entry.value.failed &+ entry.value.history), 1 << 40)
            return sum.addingClamped(rows * (200 + 8 * Int64(min(entry.key.text.utf8.count, 1 << 10))))
        }
    }

    /// Bytes that a new message needs: its row, its entry in the index of ids, what the fold writes, and its part of the reserve.
    static func needed(for draft: borrowing BorrowedDraft) -> Int64 {
        let text = draft.metadata.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
        let names = 3 * (draft.id?.utf8.count ?? 0) + 9 * draft.conversation.text.utf8.count + (draft.sender?.utf8.count ?? 0)
        let content = Int64(draft.body.count) + Int64(text)
        return content + content / 4 + Int64(names) + 600 + reservePerUnsent
    }

    /// The size of the store's files, for the option `limitFileBytes`: the pages of the database that are in use, the log, and what the
    /// indexes and the outcomes of the accepted messages will need. `more`: bytes that the open transaction will write to the log.
    func use(adding more: Int64) throws(QueueError) -> Int64 {
        let unsent = min(max(0, counts.totals.queued.addingClamped(counts.totals.failed)), 1 << 40)
        let (file, free) = try database.sizes()
        return (file - free).addingClamped(database.log?.size(adding: more.addingClamped(more / 4)) ?? 0)
            .addingClamped(unsent * Self.reservePerUnsent + foldReserve)
    }

    /// Returns the size of the database in bytes, and how much of it is free.
    func sizes() throws(QueueError) -> (file: Int64, free: Int64) { try database.sizes() }

    /// Returns the size of the database file, and how much of it is free. Pages that are only in the log so far do not count.
    func fileSizes() throws(QueueError) -> (file: Int64, free: Int64) {
        let sizes = try database.sizes()
        guard let lock else { return sizes }
        let file = Int64(try Posix.status(lock.descriptor, database.path).st_size)
        return (file, min(sizes.free, file))
    }

    // MARK: Free pages

    /// Whether free pages can be returned to the file system in steps. Stores of earlier versions cannot before a VACUUM.
    private(set) var canVacuumInSteps = false

    func readVacuumMode() throws(QueueError) {
        guard database.log != nil else { return }
        let statement = try database.statement("PRAGMA auto_vacuum")
        canVacuumInSteps = try statement.first { () throws(QueueError) in statement.int(0) } == 2
    }

    /// Moves up to so many pages from the end of the file to free ones, inside the caller's transaction. The file becomes shorter with the
    /// next checkpoint.
    func vacuumStep(pages: Int64) throws(QueueError) {
        try database.execute("PRAGMA incremental_vacuum(\(pages))")
        state.requireWrite()
    }

    /// In pages. Closing runs VACUUM when more than half of the file and more than `unused` pages are free. With more than `rest` pages in
    /// use it would take longer than 20 ms, and the next session gives the space back in steps. A store that cannot do that may have more.
    private static let (unused, rest, restWithoutSteps): (Int64, Int64, Int64) = (256, 256, 8192)

    /// Returns free pages to the file system, if that is worthwhile. After a failure the file keeps them. Not inside a transaction.
    /// A store that cannot vacuum in steps can do so afterwards. Returns true when the file was rewritten, with its indexes.
    func vacuum() -> Bool {
        guard !database.isInTransaction, !database.isPoisoned else { return false }
        do throws(QueueError) {
            let free = try database.freePages()
            let used = try database.pageCount() - free
            let most = canVacuumInSteps ? Self.rest : Self.restWithoutSteps
            guard free > Self.unused, free > used, used <= most else { return false }
            if !canVacuumInSteps { try database.execute("PRAGMA auto_vacuum=INCREMENTAL") }
            // VACUUM attaches a temporary database.
            sqlite3_limit(database.handle, SQLITE_LIMIT_ATTACHED, 1)
            defer { sqlite3_limit(database.handle, SQLITE_LIMIT_ATTACHED, 0) }
            try database.execute("VACUUM")
            try readVacuumMode()
            return true
        } catch {
            Log.warning("\(database.path): VACUUM failed: \(error.detail)")
            return false
        }
    }
}
