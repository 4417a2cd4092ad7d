import CPlatform
import Glibc

/// Disk space reserved for a full disk: blocks allocated beyond the end of the database file. With them accepted messages can be sent,
/// changed and deleted, and the queue can be closed. The log reuses its own blocks: after a checkpoint it is written from its beginning.
final class DiskReserve {
    private let database: Database
    private let log: WriteAheadLog
    /// Bytes reserved for new messages at a time. `longStep` only where more than `plenty` bytes are free, because the log needs some, too.
    private static let (step, longStep): (Int64, Int64) = (64 << 10, 512 << 10)
    static let plenty: UInt64 = 256 << 20
    /// A reserve that is adapted loosely may be greater than needed by a half and this.
    private static let slack: Int64 = 1 << 20
    private static let page: Int64 = 4096

    /// Whether the file system can allocate blocks beyond the end of a file.
    private var isPossible = true
    /// The reserve is complete. Otherwise an enqueue must complete it first.
    private(set) var isWhole = true
    /// All of the reserve was released.
    private var isGone = false
    /// Bytes of new messages that the reserve still covers.
    private var left: Int64 = -1

    init(_ database: Database, _ log: WriteAheadLog) { (self.database, self.log) = (database, log) }

    private var descriptor: Int32 { log.databaseDescriptor }

    /// The size of the file and its allocated blocks, in bytes.
    private func file() throws(QueueError) -> (size: Int64, allocated: Int64) {
        let status = try Posix.status(descriptor, database.path)
        return (Int64(status.st_size), Int64(status.st_blocks) * 512)
    }

    /// Reserves disk space: `bytes` of new messages, and `kept` bytes more, can then be checkpointed when the disk is full.
    func reserve(for bytes: Int64, keeping kept: @autoclosure () -> Int64) throws(QueueError) {
        left = left.subtractingClamped(bytes)
        guard isPossible, left < 0 || !isWhole else { return }
        let size = try file().size
        let grown = max(0, try database.sizes().file - size)
        // Allocation changes the file's times.
        defer { log.watch.recordTimes() }
        guard allocate(grown.addingClamped(bytes).addingClamped(kept()), size) else {
            throw QueueError(.storage, "the disk is full: no space for new messages and longer texts in \(database.path)", .full)
        }
    }

    /// Allocates `bytes` beyond the end of the file, and up to one step more. Returns false when the disk is full, or the file may not be so
    /// long. (The system allocates blocks beyond the limit of a file's size, but lets nothing be written to them.)
    private func allocate(_ bytes: Int64, _ size: Int64) -> Bool {
        let room = Posix.largestFile.subtractingClamped(size).subtractingClamped(bytes)
        guard room >= 0 else {
            isWhole = false
            return false
        }
        let step = min(Self.freeBytes(descriptor) > Self.plenty ? Self.longStep : Self.step, room)
        guard platform_allocate(descriptor, size, bytes.addingClamped(step)) == 0 else {
            guard Posix.isFull(errno) else {
                isPossible = false
                return true
            }
            isWhole = false
            return false
        }
        (isWhole, isGone, left) = (true, false, step)
        return true
    }

    /// Allocates as much of `bytes` as is free.
    private func allocateAvailable(_ bytes: Int64, _ size: Int64) {
        var (taken, part) = (Int64(0), bytes)
        while part >= Self.page {
            if taken + part <= bytes, platform_allocate(descriptor, size, taken + part) == 0 { taken += part }
            part /= 2
        }
        if taken > 0 { isGone = false }
    }

    /// Reserves `kept` bytes, or as much of it as is free, unless something is reserved already.
    func begin(keeping kept: Int64) {
        do throws(QueueError) { try reserve(for: 0, keeping: kept) } catch {
            // The next enqueue tries again and reports the error.
            guard let size = try? file().size else { return }
            allocateAvailable(kept, size)
            log.watch.recordTimes()
        }
    }

    /// Adapts the reserve after a checkpoint to what is needed, or to as much of it as is free. With plenty of free space a little more may
    /// stay reserved, because truncating a file is slow, unless `exactly`.
    func adapt(keeping kept: Int64, exactly: Bool) {
        do throws(QueueError) {
            let (size, allocated) = try file()
            left = -1
            let isKept = log.space.isKept && !exactly && allocated - size <= kept.addingClamped(kept / 2 + Self.slack)
            if !isKept, ftruncate(descriptor, off_t(size)) != 0 {
                Log.warning("\(database.path): reserved space could not be released: \(Posix.lastError())")
            }
            begin(keeping: kept)
        } catch {
            Log.warning("\(database.path): the reserved space could not be adapted: \(error.detail)")
        }
    }

    /// Releases half of the reserve for what must be written now, or all of it when little is left. Returns false when nothing is reserved.
    func release() -> Bool {
        guard let (size, allocated) = try? file() else { return false }
        defer { log.watch.record() }
        guard isPossible, !isGone else { return false }
        isWhole = false
        guard ftruncate(descriptor, off_t(size)) == 0 else { return false }
        let half = (allocated - size) / 2 / Self.page * Self.page
        isGone = half < 4 * Self.page || platform_allocate(descriptor, size, half) != 0
        return true
    }

    /// Leaves what a closed store keeps: nothing where there is plenty of free space, otherwise `needed` bytes, or as much of it as is free,
    /// with which its messages can be sent and deleted after it is opened on a full disk.
    func end(keeping needed: Int64) {
        do throws(QueueError) {
            let (size, allocated) = try file()
            let kept = Self.freeBytes(descriptor) > Self.plenty ? 0 : needed
            // The blocks of the file itself end with a page.
            if allocated - size > kept + Self.page, ftruncate(descriptor, off_t(size)) != 0 {
                throw QueueError(.storage, Posix.lastError())
            }
            allocateAvailable(kept, size)
        } catch {
            Log.warning("\(database.path): reserved space could not be released: \(error.detail)")
        }
    }

    /// Free bytes of the file system; 0: unknown.
    static func freeBytes(_ descriptor: Int32) -> UInt64 {
        var status = statvfs()
        guard fstatvfs(descriptor, &status) == 0 else { return 0 }
        return UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize)).partialValue
    }
}
