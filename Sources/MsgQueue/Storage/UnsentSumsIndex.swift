/// Reading the sums of the unsent messages that may have to wait.
final class UnsentSumsIndex {
    private let database: Database
    private let queue: QueueIndex
    private(set) var sums = UnsentSums()
    /// How often the sums were discarded, to be read again.
    private(set) var discarded = 0

    init(_ database: Database, _ queue: QueueIndex) { (self.database, self.queue) = (database, queue) }

    func begin() { sums.isTouched = false }

    /// They are read again.
    func rollback() { if sums.isTouched { discard() } }

    func discard(at now: Int64? = nil) {
        sums = now.map { UnsentSums(at: $0) } ?? UnsentSums()
        discarded &+= 1
    }

    /// The number of messages that one step reads.
    static let step = 500

    /// Brings the sums to this wall time. Returns false until everything has been read: each call reads some. Later changes are applied as
    /// they happen.
    func read(at now: Int64) throws(QueueError) -> Bool {
        if database.isInTransaction { sums.isTouched = true }
        // After the clock was set back, messages are scheduled again.
        if now < sums.border.time || sums.readThrough == .start { discard(at: now) }
        guard sums.readThrough == .end else {
            let rows = try queue.deferred(after: sums.readThrough, until: Int64.max)
            sums.read(rows, areFailed: false, complete: rows.count < Self.step)
            return sums.isComplete && sums.border.time >= now
        }
        guard sums.failedThrough == Int64.max else {
            let rows = try queue.failedHeads(after: sums.failedThrough, limit: Self.step)
            sums.read(rows, areFailed: true, complete: rows.count < Self.step)
            return sums.isComplete && sums.border.time >= now
        }
        guard sums.border < TimePlace(now, Int64.max) else { return true }
        let rows = try queue.deferred(after: sums.border, until: now)
        let isComplete = rows.count < Self.step
        sums.pass(rows, through: isComplete ? now : nil)
        return isComplete
    }

    /// Applies a change of a message; nil: it is new, or removed.
    func note(from old: Row?, to new: Row?) {
        if sums.isInUse { sums.changed(from: old, to: new) }
    }

    /// Applies a change of the progress of a message.
    func note(_ row: Row, to progress: Progress) {
        let mayWait = row.notBefore != 0 || row.unmeteredOnly || progress.dueAt != 0 || sums.isRetried(row)
        guard sums.isInUse, mayWait || row.progress.status == .failed || progress.status == .failed else { return }
        var changed = row
        changed.progress = progress
        note(from: row, to: changed)
    }
}
