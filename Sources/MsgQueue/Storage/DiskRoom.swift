import CPlatform
import Glibc

/// Blocks that are allocated behind the database's end, so that messages which were accepted can be sent, changed and deleted, and the queue
/// closed, when the disk is full. The log takes no blocks that are not needed: it is copied and written again from its beginning.
struct DiskRoom {
    /// Room for new messages that is taken at a time: more where there is plenty, so that the log does not want for it.
    private static let (step, longStep): (Int64, Int64) = (64 << 10, 512 << 10)
    private static let plenty: UInt64 = 256 << 20
    private static let page: Int64 = 4096

    /// Whether the file system can allocate blocks behind a file's end.
    private var isPossible = true
    /// What must be kept is there. Without it no message is accepted.
    private var isWhole = true
    /// Nothing is left: all was given up in this session.
    private var isGone = false
    /// Bytes of new messages for which the room suffices.
    private var left: Int64 = -1

    /// Whether room must be taken before so many bytes more are accepted.
    mutating func isNeeded(for bytes: Int64) -> Bool {
        left = left.subtractingClamped(bytes)
        return isPossible && (left < 0 || !isWhole)
    }

    /// What was taken is not there any more: SQLite cuts the file off at its end when it has copied the log.
    mutating func forget() { left = -1 }

    /// Allocates `bytes` behind the end, and a step more. False: the disk is full.
    mutating func take(_ descriptor: Int32, size: Int64, bytes: Int64) -> Bool {
        let step = Self.freeBytes(descriptor) > Self.plenty ? Self.longStep : Self.step
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

    /// Allocates as much of `bytes` as there is.
    mutating func takeRest(_ descriptor: Int32, size: Int64, bytes: Int64) {
        var (taken, part) = (Int64(0), bytes)
        while part >= Self.page {
            if platform_allocate(descriptor, size, taken + part) == 0 { taken += part }
            part /= 2
        }
        if taken > 0 { isGone = false }
    }

    /// Gives up half of what is allocated, all of it when it is little. False: nothing was left.
    mutating func release(_ descriptor: Int32, size: Int64, allocated: Int64) -> Bool {
        guard isPossible, !isGone else { return false }
        isWhole = false
        guard ftruncate(descriptor, off_t(size)) == 0 else { return false }
        let half = (allocated - size) / 2 / Self.page * Self.page
        isGone = half < 4 * Self.page || platform_allocate(descriptor, size, half) != 0
        return true
    }

    /// Of the file system; 0 when it does not tell.
    private static func freeBytes(_ descriptor: Int32) -> UInt64 {
        var status = statvfs()
        guard fstatvfs(descriptor, &status) == 0 else { return 0 }
        return UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize)).partialValue
    }
}
