/// The space of the log file. SQLite overwrites a log from its beginning after each checkpoint, and writing to existing blocks is faster
/// than extending a file at each commit. Therefore the file is extended ahead of the commits and keeps its size after a checkpoint, up to
/// `target` bytes. `close` removes it.
///
/// On a file system with little free space the log is truncated instead.
struct LogSpace {
    /// The number of bytes at which the log is checkpointed.
    static let target: Int64 = 4 << 20
    /// A longer log is shortened to `target` after its checkpoint.
    static let limit: Int64 = 6 << 20
    /// A shorter log is not extended: a store with few messages needs no more.
    static let shortest: Int64 = 256 << 10
    /// The log is extended by `step` bytes when less than `margin` are left.
    private static let (step, margin): (Int64, Int64) = (512 << 10, 64 << 10)
    /// The last commits before a checkpoint may need so much more than `target`.
    private static let slack: Int64 = 256 << 10

    /// The number of bytes at which this log is checkpointed: less where the size of the files is limited.
    var target = Self.target
    /// A longer log is shortened to `target` after its checkpoint.
    var limit: Int64 { target + target / 2 }
    /// The number of bytes at which the log is checkpointed between two steps of a call: the more pages, the longer others are held.
    var targetBetweenSteps: Int64 { target / 2 }
    /// The number of bytes at which a commit no longer leaves the checkpoint to the timer thread.
    var overdue: Int64 { target + Self.slack / 2 }
    /// The size up to which the file grows ahead of the commits.
    var goal: Int64 { target + Self.slack }

    /// Whether there is space for it.
    private(set) var isKept = false
    /// The size of the file.
    private(set) var size: Int64 = 0
    /// Bytes up to here may contain text of messages.
    private var used: Int64 = 0

    /// Decides whether the log is kept. `free`: bytes in the file system.
    mutating func update(free: UInt64) { isKept = free > DiskReserve.plenty }

    /// Takes over a log of an earlier connection.
    mutating func adopt(size: Int64) { (self.size, used) = (size, size) }

    /// Records a commit whose last frame ends at `end`, and extends the file when the next commits need it.
    mutating func append(through end: Int64, _ file: OpenFile) {
        used = max(used, end)
        size = max(size, end)
        guard isKept, end >= Self.shortest, size < goal, size - end < Self.margin else { return }
        let length = min(Self.step, goal - size)
        // On a full disk the log grows with its commits, as far as there is space.
        guard file.writeZeros(at: size, count: length) else { return isKept = false }
        size += length
    }

    /// Records a transaction that was rolled back: SQLite may have written pages of it.
    mutating func recordRollback(_ file: OpenFile) {
        size = max(size, file.size ?? size)
        used = max(used, size)
    }

    /// Overwrites all text in the file, and shortens the file to `target`. The header must be invalid on disk before: the frames of a log
    /// with a valid header would be replayed after a crash, and only a part of them is left. Returns false when that failed.
    mutating func clean(_ file: OpenFile) -> Bool {
        if isTooLong {
            guard file.truncate(to: target) else { return false }
            size = target
        }
        guard file.writeZeros(at: 0, count: min(used, size)) else { return false }
        used = 0
        return true
    }

    /// Whether the file must be shortened after the next checkpoint.
    var isTooLong: Bool { size > limit }

    /// Records that the file was truncated to zero bytes.
    mutating func reset() { (size, used) = (0, 0) }
}
