import CPlatform
import Glibc

/// Disk space reserved for a full disk: blocks allocated beyond the end of the database file. With them accepted messages can be sent,
/// changed and deleted, and the queue can be closed. The log reuses its own blocks: after a checkpoint it is written from its beginning.
struct DiskReserve {
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

    /// Subtracts `bytes` from the reserve. Returns whether more must be allocated before a message of this size is accepted.
    mutating func isNeeded(for bytes: Int64) -> Bool {
        left = left.subtractingClamped(bytes)
        return isPossible && (left < 0 || !isWhole)
    }

    /// Releases all reserved blocks; the caller allocates `bytes` again. `loosely`: only if many more than `bytes` are reserved, because
    /// truncating a file is slow. Returns false, with `errno` set, when that failed: the blocks stay reserved.
    mutating func trim(_ descriptor: Int32, size: Int64, allocated: Int64, bytes: Int64, loosely: Bool) -> Bool {
        left = -1
        guard !loosely || allocated - size > bytes.addingClamped(bytes / 2 + Self.slack) else { return true }
        return ftruncate(descriptor, off_t(size)) == 0
    }

    /// Allocates `bytes` beyond the end of the file, and up to one step more. Returns false when the disk is full, or the file may not be so
    /// long. (The system allocates blocks beyond the limit of a file's size, but lets nothing be written to them.)
    mutating func allocate(_ descriptor: Int32, size: Int64, bytes: Int64) -> Bool {
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
    mutating func allocateAvailable(_ descriptor: Int32, size: Int64, bytes: Int64) {
        var (taken, part) = (Int64(0), bytes)
        while part >= Self.page {
            if taken + part <= bytes, platform_allocate(descriptor, size, taken + part) == 0 { taken += part }
            part /= 2
        }
        if taken > 0 { isGone = false }
    }

    /// Releases half of the allocated blocks, or all when few are left. Returns false when none were left.
    mutating func release(_ descriptor: Int32, size: Int64, allocated: Int64) -> Bool {
        guard isPossible, !isGone else { return false }
        isWhole = false
        guard ftruncate(descriptor, off_t(size)) == 0 else { return false }
        let half = (allocated - size) / 2 / Self.page * Self.page
        isGone = half < 4 * Self.page || platform_allocate(descriptor, size, half) != 0
        return true
    }

    /// Releases what a closed store does not keep: all of it where there is plenty of free space, otherwise all but `kept` bytes.
    mutating func end(_ descriptor: Int32, size: Int64, allocated: Int64, keeping needed: Int64) throws(QueueError) {
        let kept = Self.freeBytes(descriptor) > Self.plenty ? 0 : needed
        // The blocks of the file itself end with a page.
        guard allocated - size > kept + Self.page else { return }
        guard ftruncate(descriptor, off_t(size)) == 0 else { throw QueueError(.storage, Posix.lastError()) }
        if kept > 0 { allocateAvailable(descriptor, size: size, bytes: kept) }
    }

    /// Free bytes of the file system; 0: unknown.
    static func freeBytes(_ descriptor: Int32) -> UInt64 {
        var status = statvfs()
        guard fstatvfs(descriptor, &status) == 0 else { return 0 }
        return UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize)).partialValue
    }
}
