import CPlatform
import Glibc

/// The socket file of a queue, and the socket that listens there.
final class ControlAddress: @unchecked Sendable {
    static let suffix = "-control"
    /// The maximal length of a path in a socket address.
    private static let pathCeiling = 107
    /// How many connections may wait to be accepted.
    private static let backlog: Int32 = 64
    /// The attempts, 5 ms apart, to lock the directory.
    private static let tries = 400

    let path: String
    let listener: ControlDescriptor
    private let directory: ControlDescriptor
    private let name: String
    private let file: FileIdentity

    /// Creates the socket file and listens. A socket file that nobody listens on is replaced; the caller owns the store, so that it is not
    /// that of another owner.
    init(_ given: String) throws(QueueError) {
        (path, name) = try Self.resolve(given)
        let folder = Posix.directory(of: path)
        guard let directory = ControlDescriptor({ Glibc.open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK) }) else {
            throw Posix.error(errno, folder)
        }
        self.directory = directory
        try Self.check(directory, folder)
        // Two programs that start at one path must not remove each other's socket.
        try Self.lock(directory, folder)
        defer { _ = flock(directory.number, LOCK_UN) }
        let address = try Self.address(path, name, directory)
        try Self.removeStale(path, name, address, directory)
        guard let listener = ControlDescriptor({ platform_unix_socket() }) else { throw Posix.error(errno, "socket") }
        self.listener = listener
        // The kernel takes the mode of the file from the socket, without the bits of the umask.
        guard fchmod(listener.number, 0o600) == 0 else { throw Posix.error(errno, path) }
        guard platform_unix_bind(listener.number, address) == 0 else {
            throw errno == EADDRINUSE ? QueueError(.conflict, "\(path) exists") : Posix.error(errno, path)
        }
        do throws(QueueError) {
            var status = try Self.status(directory, name, path)
            if status.st_mode & 0o777 != 0o600 {
                // The umask removes rights of the owner.
                guard fchmodat(directory.number, name, 0o600, 0) == 0 else { throw Posix.error(errno, path) }
                status = try Self.status(directory, name, path)
            }
            guard status.st_mode & S_IFMT == S_IFSOCK, status.st_mode & 0o777 == 0o600, status.st_uid == geteuid() else {
                throw QueueError(.permission, "\(path) does not have the mode 0600 and this user as its owner")
            }
            file = FileIdentity(status)
            guard listen(listener.number, Self.backlog) == 0 else { throw Posix.error(errno, path) }
        } catch {
            unlinkat(directory.number, name, 0)
            throw error
        }
    }

    /// Removes the socket file, unless another one has its name.
    func remove() {
        var status = stat()
        guard fstatat(directory.number, name, &status, AT_SYMLINK_NOFOLLOW) == 0, FileIdentity(status) == file else { return }
        unlinkat(directory.number, name, 0)
    }

    // MARK: Checks

    /// Returns the absolute path, with the symbolic links in its directory resolved, and the name.
    private static func resolve(_ path: String) throws(QueueError) -> (path: String, name: String) {
        guard !path.isEmpty else { throw QueueError(.invalid, "the path is empty") }
        guard !path.utf8.contains(0) else { throw QueueError(.invalid, "the path contains a NUL byte") }
        let slash = path.utf8.lastIndex(of: 0x2f)
        let name = slash.map { String(path[path.utf8.index(after: $0)...]) } ?? path
        guard !name.isEmpty, name != ".", name != ".." else { throw QueueError(.invalid, "\(path) is a directory") }
        let given = Posix.directory(of: path)
        guard let real = realpath(given, nil) else {
            throw QueueError(errno == ENOENT || errno == ENAMETOOLONG ? .invalid : .permission, "\(given): \(Posix.lastError())")
        }
        defer { free(real) }
        let directory = String(cString: real)
        return (directory == "/" ? "/" + name : directory + "/" + name, name)
    }

    private static func check(_ directory: ControlDescriptor, _ path: String) throws(QueueError) {
        let status = try Posix.status(directory.number, path)
        guard status.st_uid == geteuid() || status.st_uid == 0 else {
            throw QueueError(.permission, "\(path) belongs to another user, who could replace the files in it")
        }
        guard status.st_mode & S_IWOTH == 0 || status.st_mode & S_ISVTX != 0 else {
            throw QueueError(.permission, "any user may replace files in \(path)")
        }
    }

    private static func lock(_ directory: ControlDescriptor, _ path: String) throws(QueueError) {
        for _ in 0..<tries {
            guard flock(directory.number, LOCK_EX | LOCK_NB) != 0, errno == EWOULDBLOCK || errno == EINTR else { return }
            usleep(5_000)
        }
        throw QueueError(.locked, "another program has locked \(path)")
    }

    /// Returns the path for the socket address. A path that is too long is reached through the descriptor of its directory.
    private static func address(_ path: String, _ name: String, _ directory: ControlDescriptor) throws(QueueError) -> String {
        guard path.utf8.count > pathCeiling else { return path }
        let short = "/proc/self/fd/\(directory.number)/\(name)"
        guard short.utf8.count <= pathCeiling else {
            throw QueueError(.invalid, "\(name) is too long for the name of a socket; give another path")
        }
        return short
    }

    private static func status(_ directory: ControlDescriptor, _ name: String, _ path: String) throws(QueueError) -> stat {
        var status = stat()
        guard fstatat(directory.number, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else { throw Posix.error(errno, path) }
        return status
    }

    /// Removes the socket file of a program that has ended. Throws if another file has the name, or if somebody listens.
    private static func removeStale(
        _ path: String, _ name: String, _ address: String, _ directory: ControlDescriptor
    ) throws(QueueError) {
        var status = stat()
        guard fstatat(directory.number, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else {
            guard errno == ENOENT else {
                throw errno == ENAMETOOLONG ? QueueError(.invalid, "\(name) is too long") : Posix.error(errno, path)
            }
            return
        }
        guard status.st_mode & S_IFMT == S_IFSOCK else { throw QueueError(.conflict, "\(path) exists and is not a socket") }
        guard status.st_uid == geteuid() else { throw QueueError(.permission, "\(path) belongs to another user") }
        guard let probe = ControlDescriptor({ platform_unix_socket() }) else { throw Posix.error(errno, "socket") }
        let isRefused = platform_unix_connect(probe.number, address) != 0 && errno == ECONNREFUSED
        guard isRefused else { throw QueueError(.locked, "another program listens on \(path)") }
        guard unlinkat(directory.number, name, 0) == 0 || errno == ENOENT else { throw Posix.error(errno, path) }
    }
}
