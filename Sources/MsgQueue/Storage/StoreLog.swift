/// The log: its checkpoints and flushes, the side record that says how long it is, and the disk space that they keep and free.
final class StoreLog {
    private let database: Database
    /// nil: the database has no log.
    private let log: WriteAheadLog?
    private let state: StateRow
    private let space: DiskSpace
    private let side: SideFile
    /// The page of the table `state`; nil: the opening is not complete, and may still change the schema.
    var statePage: UInt32?
    /// The log may contain text of messages that are gone, which the next checkpoint overwrites.
    var hasRemovedText = false

    /// `path`: of the store, beside which the side record is.
    init(_ database: Database, _ state: StateRow, _ space: DiskSpace, path: String) {
        (self.database, log, self.state, self.space, side) = (database, database.log, state, space, SideFile(of: path))
    }

    private var path: String { database.path }
    /// This session has written the side record.
    var isBegun: Bool { side.isOpen }

    /// Removes the files of a store that was closed, whose database contains everything.
    func remove() {
        // A log that cannot be removed keeps no text.
        if !Posix.remove(StorePath.log(of: path)) { Posix.empty(StorePath.log(of: path)) }
        side.remove()
    }

    // MARK: The log

    /// Makes the side record and the file names durable, before the log is written from its start. Without the record, a log that is
    /// overwritten could seem to be lost, and without its file, a log that a crash left with pages but without a commit could belong to any
    /// store.
    func prepare() throws(QueueError) {
        do throws(QueueError) { try prepareSideRecord() } catch {
            let advice =
                error.isFull
                ? ": make room on the disk"
                : error.code == .permission
                    ? ": it must be permitted to write the file and its directory" : "; the next change tries it again"
            throw QueueError(
                error.code, "\(error.detail). Nothing is changed before \(StorePath.tail(of: path)) is durable\(advice)",
                error.cause)
        }
    }

    private func prepareSideRecord() throws(QueueError) {
        guard let log else { return }
        // A checkpoint writes the record, which has failed.
        guard !side.isOpen else { return try side.write(record(of: log), durable: true) }
        try side.open()
        do throws(QueueError) {
            var first = record(of: log)
            if log.isFresh { (first.generation, first.base) = (state.firstGeneration, state.onDisk.generation) }
            // A new file beside a new log may be empty after a power failure (`LostTail`).
            try side.write(first, durable: !side.isNew || !log.isFresh)
            try log.watchFiles()
        } catch {
            side.undoOpen()
            throw error
        }
    }

    private func record(of log: WriteAheadLog) -> SideRecord {
        SideRecord(
            generation: state.row.generation, base: state.row.logBase, salts: log.salts, frames: Int64(log.frames),
            lastSequence: state.lastSequence)
    }

    /// Writes the durable length of the log to the side record.
    func noteFlushed() {
        guard let log, !database.isPoisoned, !log.isFresh else { return }
        do throws(QueueError) { try side.write(record(of: log), durable: false) } catch {
            // Without the record, only a loss of the log's end would not be detected.
            Log.warning(error.detail)
        }
    }

    /// Runs a checkpoint. Returns true when the log is no longer needed. After a failure the log is kept; nothing is lost.
    @discardableResult
    func checkpoint() -> Bool {
        guard let log, !log.isFresh else { return true }
        guard copy(log) else { return false }
        if hasRemovedText {
            if clean(log) { hasRemovedText = false } else { Log.warning("\(path): deleted text is still in the log") }
        } else if log.space.isTooLong, !clean(log) {
            // After a large batch most of the log's space is released.
            Log.warning("\(path): the log could not be shortened")
        }
        space.reserve?.adapt(keeping: space.neededReserve, exactly: false)
        return true
    }

    /// Runs a checkpoint and removes everything from the log with `remove`. Returns false when either failed.
    private func empty(_ log: WriteAheadLog, _ remove: (WriteAheadLog) -> Bool) -> Bool {
        guard log.isFresh || copy(log), remove(log) else { return false }
        space.reserve?.adapt(keeping: space.neededReserve, exactly: true)
        return true
    }

    /// Runs a checkpoint and prepares the next log, so that the next change need not.
    private func copy(_ log: WriteAheadLog) -> Bool {
        guard log.checkpoint() else { return false }
        _ = isPrepared(log)
        return true
    }

    /// Overwrites the text in a checkpointed log.
    private func clean(_ log: WriteAheadLog) -> Bool { isPrepared(log) && log.clean() }

    /// Whether the log may be overwritten, after another attempt to prepare that.
    private func isPrepared(_ log: WriteAheadLog) -> Bool {
        do throws(QueueError) {
            try log.prepareChange()
            return true
        } catch {
            Log.warning(error.detail)
            return false
        }
    }

    /// Whether a commit is not durable yet.
    var needsFlush: Bool { log?.needsFlush ?? false }

    /// The number of successful flushes. What was committed before the last one is durable.
    var flushes: Int { log?.flushes ?? 0 }

    /// Makes all commits durable.
    func flush() throws(QueueError) {
        guard let log, log.needsFlush, !database.isInTransaction else { return }
        try log.flush()
        noteFlushed()
    }

    /// Removes deleted text from the log and the file as well.
    func scrub() {
        // A store in memory has no log.
        guard let log else { return hasRemovedText = false }
        // Before the first commit of a session the database is marked as closed, and a log beside it must be empty.
        guard empty(log, { state.isMarked ? clean($0) : $0.truncate() }) else {
            // The next checkpoint tries again.
            hasRemovedText = true
            return Log.warning("\(path): deleted text is still in the log")
        }
        hasRemovedText = false
    }

    /// Marks the database file as in use without a checkpoint, after which the next change would start the log again, with two flushes. The
    /// rest of the row stays as it was: the log was started for it. Returns false when a checkpoint must do it.
    func markFile() -> Bool {
        guard let log, let statePage, !log.isOverdue else { return false }
        do throws(QueueError) {
            if log.needsFlush { try log.flush() }
            guard try log.rewritePage(statePage, StoreState.markingOpen) else { return false }
            noteFlushed()
            return true
        } catch {
            Log.warning("\(path): \(error.detail)")
            return false
        }
    }

    /// Whether the log is long enough for a checkpoint. One that becomes much longer is checkpointed by the next commit.
    var isLong: Bool { log?.isLong ?? false }
    /// Whether it is long enough for one between two steps of a call.
    var isLongBetweenSteps: Bool { log?.isLongBetweenSteps ?? false }
    /// Whether a checkpoint cannot wait for the timer thread.
    var isOverdue: Bool { log?.isOverdue ?? false }

    // MARK: Disk space

    /// Reserves disk space for messages that need so many bytes (`space(for:)`) and for sending them. Throws when the disk is full.
    func reserveSpace(for wanted: Int64) throws(QueueError) {
        guard let reserve = space.reserve else { return }
        do throws(QueueError) { try reserve.reserve(for: wanted, keeping: space.neededReserve) } catch {
            guard error.isFull, !database.isInTransaction, checkpoint() else { throw error }
            try reserve.reserve(for: wanted, keeping: space.neededReserve)
        }
    }

    /// Frees disk space after a write failed because the disk is full: by a checkpoint, and then, if `usingReserve`, from the reserve.
    /// Returns false when nothing can be freed.
    func freeSpace(usingReserve mayRelease: Bool = true) -> Bool {
        guard !database.isInTransaction, !database.isPoisoned else { return false }
        if let log, !log.isFresh, checkpoint() { return true }
        guard mayRelease, space.reserve?.release() ?? false else { return false }
        Log.warning("\(path): the disk is full; using the space reserved for sending and deleting")
        return true
    }

    /// Runs a checkpoint, after which the file is as short as the database.
    func shortenFile() { if !checkpoint() { Log.warning("\(path): the file could not be shortened yet") } }
}
