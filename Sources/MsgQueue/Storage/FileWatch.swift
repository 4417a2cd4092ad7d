import CPlatform
import Glibc

/// Detects that the database or its log was removed or replaced, or that the database was modified from outside. SQLite does not check this:
/// it continues to write to removed files, and overwrites the changes of others.
final class FileWatch {
    private let path: String
    private let descriptor: Int32
    private var database: Known?
    private var checkedAt = 0
    private var log: FileIdentity?
    /// A hash of the first pages of the database. They include the page of the table `state`, which every session changes. nil: unknown,
    /// because reading them failed.
    private var beginning: UInt64?

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

    /// `descriptor`: of the database; borrowed.
    init(path: String, descriptor: Int32) {
        self.path = path
        self.descriptor = descriptor
    }

    /// Records the present files as the expected ones. After an error nothing is watched.
    func begin() throws(QueueError) {
        let known = Known(try Posix.status(descriptor, path))
        beginning = try fingerprint()
        log = try Posix.status(StorePath.log(of: path)).map(FileIdentity.init)
        database = known
    }

    /// Records the database after a change of this process.
    func record() {
        guard database != nil else { return }
        beginning = nil
        do throws(QueueError) {
            database = Known(try Posix.status(descriptor, path))
            beginning = try fingerprint()
        } catch {
            // A failed read is no change from outside: the next check takes the present content as the expected one.
            Log.warning(error.detail)
        }
    }

    /// Records the file's times after a change that kept its content.
    func recordTimes() {
        guard database != nil else { return }
        do throws(QueueError) { database = Known(try Posix.status(descriptor, path)) } catch { Log.warning(error.detail) }
    }

    private func fingerprint() throws(QueueError) -> UInt64 {
        try Posix.read(descriptor, at: 0, count: 3 * 4096, path).withUnsafeBytes { Checksum.hash($0, seed: 0) }
    }

    /// Checks the open files, and once a second also their names. A file without a name was removed. `log`: the descriptor of the
    /// log.
    func check(log: Int32) throws(QueueError) {
        guard let known = database else { return }
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
        guard time.tv_sec == checkedAt else {
            checkedAt = time.tv_sec
            return try check()
        }
        let status = try Posix.status(descriptor, path)
        let links = platform_link_count(log)
        guard links >= 0 else { throw Posix.error(errno, StorePath.log(of: path)) }
        guard status.st_nlink > 0 else { throw removed(path) }
        guard links > 0 else { throw removed(StorePath.log(of: path)) }
        if Known(status) != known { try check() }
    }

    /// Throws when a file was removed or replaced, or when the database was modified from outside.
    func check() throws(QueueError) {
        guard let known = database else { return }
        guard let status = try Posix.status(path) else { throw removed(path) }
        let now = Known(status)
        guard now.file == known.file else { throw removed(path) }
        if now != known {
            let present = try fingerprint()
            // New times with the same content are harmless.
            guard beginning == nil || now.size == known.size && present == beginning else {
                throw QueueError(.unknown, "\(path) was modified from outside while the queue was open")
            }
            (database, beginning) = (now, present)
        }
        guard try Posix.status(StorePath.log(of: path)).map(FileIdentity.init) == log else { throw removed(StorePath.log(of: path)) }
    }

    private func removed(_ path: String) -> QueueError {
        QueueError(.unknown, "\(path) was removed or replaced while the queue was open")
    }
}
