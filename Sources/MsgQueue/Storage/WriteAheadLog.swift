import CSQLite
import Glibc

/// The write-ahead log of a store that this process owns: its frames, which of them are durable, and its space. Beside it the database file,
/// to which a checkpoint copies it. A part of the connection, under whose lock it is used.
final class WriteAheadLog {
    private unowned let database: Database
    private let path: String
    /// Of the database file; borrowed.
    let databaseDescriptor: Int32
    private(set) var descriptor: Int32
    private let pageSize: Int64
    let watch: FileWatch
    private(set) var space = LogSpace()
    /// The number of frames after the last commit; written by the WAL hook.
    private var writtenFrames: Int32 = 0
    /// The number of durable frames.
    private var flushedFrames: Int32 = 0
    /// The number of successful flushes.
    private(set) var flushes = 0
    /// The whole log is checkpointed: the next commit starts a new log.
    private(set) var isFresh = true
    private(set) var salts: UInt64 = 0
    /// The header was overwritten, so the next commit must write one.
    private var isHeaderOverwritten = false
    /// A file was removed, replaced or modified from outside: what was committed may be lost.
    private(set) var lossOfFiles: QueueError?

    /// `descriptor`: of the log; owned.
    init(of database: Database, _ databaseDescriptor: Int32, _ descriptor: Int32, pageSize: Int64) {
        (self.database, path, self.pageSize) = (database, database.path, pageSize)
        (self.databaseDescriptor, self.descriptor) = (databaseDescriptor, descriptor)
        watch = FileWatch(path: path, descriptor: databaseDescriptor)
        space.update(free: DiskReserve.freeBytes(databaseDescriptor))
        sqlite3_wal_hook(
            database.handle,
            { context, _, _, frames in
                guard let context else { return SQLITE_MISUSE }
                Unmanaged<WriteAheadLog>.fromOpaque(context).takeUnretainedValue().writtenFrames = frames
                return SQLITE_OK
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    /// Called after the connection was closed.
    func close() {
        if descriptor >= 0 { Glibc.close(descriptor) }
        descriptor = -1
    }

    private var file: OpenFile? { OpenFile(database.handle, SQLITE_FCNTL_JOURNAL_POINTER) }

    // MARK: The first write

    /// Makes durable what must be so before the log is written from its start. (Pages of a large transaction are written to the log before
    /// its commit.)
    var prepare: (() throws(QueueError) -> Void)?
    private var isPrepared = false

    /// Called before each change. After an error the change must not be made; the next one tries again.
    func prepareChange() throws(QueueError) {
        guard !isPrepared, let prepare else { return }
        try prepare()
        isPrepared = true
    }

    /// Makes the names of the files durable and starts to watch the files.
    func watchFiles() throws(QueueError) {
        try Posix.syncDirectory(of: path)
        try watch.begin()
    }

    /// Throws when a file was removed, replaced or modified from outside. `thoroughly`: compares the file names even within the same second.
    func checkFiles(thoroughly: Bool) throws(QueueError) {
        do throws(QueueError) {
            if thoroughly { try watch.check() } else { try watch.check(log: descriptor) }
        } catch {
            database.poison()
            lossOfFiles = error
            throw error
        }
    }

    // MARK: Frames

    /// The number of frames that are not checkpointed.
    var frames: Int32 { isFresh ? 0 : writtenFrames }
    /// Whether a commit is not durable yet.
    var needsFlush: Bool { frames > flushedFrames && !database.isPoisoned }
    /// The end of the last frame, in bytes.
    private var end: Int64 { Int64(LogImage.headerSize) + Int64(frames) * (Int64(LogImage.frameHeaderSize) + pageSize) }
    /// Whether the log is long enough for a checkpoint.
    var isLong: Bool { end >= space.target }
    /// Whether it is long enough for one between two steps of a call.
    var isLongBetweenSteps: Bool { end >= space.targetBetweenSteps }
    /// Whether a checkpoint cannot wait for the timer thread.
    var isOverdue: Bool { end >= space.overdue }

    /// Continues a log that existed when the connection was opened. All its frames are durable.
    func adopt(frames: Int) {
        guard frames > 0 else { return }
        isFresh = false
        writtenFrames = Int32(clamping: frames)
        flushedFrames = writtenFrames
        space.adopt(size: file?.size ?? end)
        readSalts()
    }

    /// Records a commit. `durable`: makes it so.
    func record(wrote: Bool, durable: Bool) throws(QueueError) {
        if wrote, isFresh {
            isFresh = false
            flushedFrames = 0
            guard readSalts() || !isHeaderOverwritten else {
                database.poison()
                throw QueueError(.unknown, "the log of \(path) has no header")
            }
            isHeaderOverwritten = false
        } else if wrote, salts == 0 {
            // Reading them failed.
            readSalts()
        }
        if durable { try flush() }
        if wrote, let file { space.append(through: end, file) }
    }

    func recordRollback() { if let file { space.recordRollback(file) } }

    /// Reads the salts. When that fails they are 0, here and in the side record. Returns false when the log has no valid header.
    @discardableResult
    private func readSalts() -> Bool {
        do throws(QueueError) {
            let found = try LogImage.salts(descriptor, path: StorePath.log(of: path))
            salts = found ?? 0
            return found != nil
        } catch {
            salts = 0
            Log.warning(error.detail)
            return true
        }
    }

    /// Flushes the log. A failed flush is never repeated: the kernel may have dropped the pages and would report success.
    func flush() throws(QueueError) {
        guard !database.isPoisoned else { throw QueueError(.storage, "an earlier flush of \(path) failed") }
        guard let file else {
            database.poison()
            throw QueueError(.unknown, "cannot access the log of \(path) to flush it")
        }
        let result = file.flush()
        guard result == SQLITE_OK else {
            database.poison()
            throw QueueError(.unknown, "flushing the log of \(path) failed (SQLite \(result)): \(Posix.lastError())")
        }
        do throws(QueueError) { try checkFiles(thoroughly: false) } catch {
            // What was committed is in the log, which may be a file that was removed.
            throw QueueError(.unknown, error.detail)
        }
        flushedFrames = frames
        flushes += 1
    }

    // MARK: Checkpoints

    /// Runs a checkpoint, which copies the log into the database. Returns true when all frames were copied, so that the log is no longer
    /// needed. After a failure the log is kept; nothing is lost.
    func checkpoint() -> Bool {
        guard !database.isInTransaction, !database.isPoisoned else { return false }
        guard !isFresh else { return true }
        do throws(QueueError) {
            // Only durable frames may be copied, and a replaced file must not be written.
            if needsFlush { try flush() }
            try checkFiles(thoroughly: true)
        } catch {
            Log.warning(error.detail)
            return false
        }
        var (frames, copied): (Int32, Int32) = (0, 0)
        let code = sqlite3_wal_checkpoint_v2(database.handle, "main", SQLITE_CHECKPOINT_PASSIVE, &frames, &copied)
        if Database.isFlush(code) {
            database.poison()
            Log.warning("\(path): a flush failed during a checkpoint; close the queue and open it again")
        }
        watch.record()
        guard code == SQLITE_OK, frames == copied else { return false }
        isFresh = true
        isPrepared = false
        flushedFrames = 0
        space.update(free: DiskReserve.freeBytes(databaseDescriptor))
        return true
    }

    /// Writes `change` of a page to the database file itself, durably. The log must contain a version of the page and be flushed: a crash may
    /// leave a part of the page, which is then read from the log, as after a crash in a checkpoint. Returns false, without a change, when
    /// `change` returns nil.
    func rewritePage(_ number: UInt32, _ change: ([UInt8]) -> [UInt8]?) throws(QueueError) -> Bool {
        guard number >= 1, !database.isPoisoned else { return false }
        try checkFiles(thoroughly: true)
        let offset = (Int64(number) - 1) * pageSize
        let page = try Posix.read(databaseDescriptor, at: offset, count: Int(pageSize), path)
        guard let changed = change(page), changed.count == page.count else { return false }
        guard changed != page else { return true }
        defer { watch.record() }
        try Posix.write(databaseDescriptor, at: offset, changed, path)
        guard Posix.flush(databaseDescriptor) else {
            database.poison()
            throw QueueError(.storage, "flushing \(path): \(Posix.lastError()); close the queue and open it again")
        }
        return true
    }

    /// Overwrites a checkpointed log, so that it keeps no deleted text, and shortens a long one.
    func clean() -> Bool {
        guard isFresh, !database.isPoisoned else { return false }
        guard space.isKept, let file else { return truncate() }
        guard file.writeZeros(at: 0, count: Int64(LogImage.headerSize)) else { return false }
        isHeaderOverwritten = true
        guard file.flush() == SQLITE_OK else {
            database.poison()
            return false
        }
        return space.clean(file)
    }

    /// Truncates a checkpointed log to zero bytes.
    func truncate() -> Bool {
        guard isFresh, !database.isPoisoned else { return false }
        let code = sqlite3_wal_checkpoint_v2(database.handle, "main", SQLITE_CHECKPOINT_TRUNCATE, nil, nil)
        if Database.isFlush(code) { database.poison() }
        guard code == SQLITE_OK else { return false }
        space.reset()
        return true
    }

    // MARK: Size

    /// Limits the log to a share of `bytes`, the limit of the size of all files.
    func limit(to bytes: Int64) throws(QueueError) {
        guard bytes > 0 else { return }
        space.target = min(max(bytes / 16, LogSpace.shortest), LogSpace.target)
        try database.execute("PRAGMA journal_size_limit=\(space.limit)")
    }

    /// Bytes of the log after a transaction that writes `more` bytes to it; at least those that it has without large transactions.
    func size(adding more: Int64) -> Int64 { max(space.size, space.goal, end.addingClamped(more)) }
}
