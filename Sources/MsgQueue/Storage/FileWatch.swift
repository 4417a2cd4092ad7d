import Glibc

/// Sees to it that the database and its log are still the files that were opened, and that nobody else writes the database: SQLite goes
/// on writing to files that were removed, and over those that were replaced.
struct FileWatch {
    private let path: String
    private let descriptor: Int32
    private var database: Known?
    private var checkedAt = 0
    private var log: FileIdentity?
    /// Of the database's first pages, among them the one with the state, which every session changes.
    private var beginning: UInt64 = 0

    private struct Known: Equatable {
        let file: FileIdentity
        let size: Int64
        let seconds: Int
        let nanoseconds: Int

        init(_ status: stat) {
            file = FileIdentity(status)
            size = Int64(status.st_size)
            (seconds, nanoseconds) = (status.st_mtim.tv_sec, status.st_mtim.tv_nsec)
        }
    }

    /// `descriptor`: of the database, borrowed.
    init(path: String, descriptor: Int32) {
        self.path = path
        self.descriptor = descriptor
    }

    /// Takes the files as they are now for those that are meant.
    mutating func remember() {
        do throws(QueueError) {
            database = Known(try Posix.status(descriptor, path))
            beginning = try fingerprint()
            log = try Posix.status(StorePath.log(of: path)).map(FileIdentity.init)
        } catch {
            // The next check finds what changed.
            Log.warning(error.detail)
        }
    }

    /// The file's times changed and its content did not.
    mutating func rememberTimes() {
        guard database != nil else { return }
        do throws(QueueError) { database = Known(try Posix.status(descriptor, path)) } catch { Log.warning(error.detail) }
    }

    private func fingerprint() throws(QueueError) -> UInt64 {
        try Posix.read(descriptor, at: 0, count: 3 * 4096, path).withUnsafeBytes { Checksum.hash($0, seed: 0) }
    }

    /// The same for the names, once a second, and for the open files each time: those that lost their last name are gone. `log`: its
    /// descriptor.
    mutating func check(log: Int32) throws(QueueError) {
        guard let known = database else { return }
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
        guard time.tv_sec == checkedAt else {
            checkedAt = time.tv_sec
            return try check()
        }
        let status = try Posix.status(descriptor, path)
        guard status.st_nlink > 0, try Posix.status(log, path).st_nlink > 0 else { throw removed(path) }
        if Known(status) != known { try check() }
    }

    /// Throws when a file is gone, or another, or was written by somebody else.
    mutating func check() throws(QueueError) {
        guard let known = database else { return }
        guard let status = try Posix.status(path) else { throw removed(path) }
        let now = Known(status)
        guard now.file == known.file else { throw removed(path) }
        if now != known {
            // Its times can be set without harm; what is in it not.
            guard now.size == known.size, try fingerprint() == beginning else {
                throw QueueError(.unknown, "\(path) was written by somebody else while the queue is open")
            }
            database = now
        }
        guard try Posix.status(StorePath.log(of: path)).map(FileIdentity.init) == log else { throw removed(StorePath.log(of: path)) }
    }

    private func removed(_ path: String) -> QueueError {
        QueueError(.unknown, "\(path) was removed or replaced while the queue is open")
    }
}
