import CPlatform
import Glibc

/// Where a store may lie, and what may lie there already.
enum StorePath {
    static let header = Array("SQLite format 3\0".utf8)

    static func log(of path: String) -> String { path + "-wal" }
    static func journal(of path: String) -> String { path + "-journal" }
    /// The side record: how far the log went. It is there while the store is open, and after a crash.
    static func tail(of path: String) -> String { path + "-tail" }

    /// Side files that belong to a store.
    private static func sideFiles(of path: String) -> [String] { [log(of: path), journal(of: path), tail(of: path)] }

    private static let reservedSuffixes = ["-wal", "-journal", "-shm", "-tail"]

    /// The absolute path of a store, its directory's links resolved.
    static func resolve(_ path: String) throws(QueueError) -> String {
        guard !path.isEmpty else { throw QueueError(.invalid, "the path is empty") }
        guard !path.utf8.contains(0) else { throw QueueError(.invalid, "the path holds a NUL") }
        guard path != ":memory:", !path.hasPrefix("file:") else {
            throw QueueError(.invalid, "\(path) is not a file name: in-memory databases are not supported")
        }
        let slash = path.utf8.lastIndex(of: 0x2f)
        let name = slash.map { String(path[path.utf8.index(after: $0)...]) } ?? path
        guard !name.isEmpty, name != ".", name != ".." else {
            throw QueueError(.permission, "\(path) is a directory, not a file")
        }
        for suffix in reservedSuffixes where name.hasSuffix(suffix) {
            throw QueueError(.invalid, "\(path): a store's name must not end in \(suffix), the name of another store's side file")
        }
        let given = slash == nil ? "." : Posix.directory(of: path)
        guard let real = realpath(given, nil) else {
            throw QueueError(errno == ENOENT || errno == ENAMETOOLONG ? .invalid : .permission, "\(given): \(Posix.lastError())")
        }
        defer { free(real) }
        let directory = String(cString: real)
        return directory == "/" ? "/" + name : directory + "/" + name
    }

    /// Throws when the place is not safe. nil: there is nothing yet.
    static func inspect(_ path: String) throws(QueueError) -> FileIdentity? {
        let folder = Posix.directory(of: path)
        guard let place = try Posix.status(folder) else { throw QueueError(.invalid, "\(folder) does not exist") }
        guard place.st_uid == geteuid() || place.st_uid == 0 else {
            throw QueueError(.permission, "\(folder) belongs to another user, who could replace the files in it")
        }
        guard place.st_mode & S_IWOTH == 0 || place.st_mode & S_ISVTX != 0 else {
            throw QueueError(.permission, "anyone may replace files in \(folder)")
        }
        guard let status = try Posix.status(path) else {
            for file in sideFiles(of: path) where try Posix.status(file) != nil {
                throw QueueError(.corrupt, "\(file) exists without its database; put them together again, or move it away")
            }
            return nil
        }
        try checkKind(path, status)
        guard status.st_nlink == 1 else {
            throw QueueError(.permission, "\(path) has \(status.st_nlink) names; two owners could open it by two of them")
        }
        guard status.st_uid == geteuid() else { throw QueueError(.permission, "\(path) belongs to another user") }
        guard status.st_mode & (S_IWGRP | S_IWOTH) == 0 else {
            throw QueueError(.permission, "\(path) may be written by others; take that right from them (chmod go-w)")
        }
        guard platform_is_mount_point(path) == 0 else {
            throw QueueError(.permission, "\(path) is a mount point: its log would be on another file system; mount its directory")
        }
        for place in [path, folder] where faccessat(AT_FDCWD, place, R_OK | W_OK, AT_EACCESS) != 0 {
            throw Posix.error(errno, place)
        }
        return FileIdentity(status)
    }

    /// The same for reading: nothing is written, so less can go wrong.
    static func inspectForReading(_ path: String) throws(QueueError) -> FileIdentity {
        guard let status = try Posix.status(path) else { throw QueueError(.invalid, "\(path) does not exist") }
        try checkKind(path, status)
        guard faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0 else { throw Posix.error(errno, path) }
        return FileIdentity(status)
    }

    private static func checkKind(_ path: String, _ status: stat) throws(QueueError) {
        switch status.st_mode & S_IFMT {
        case S_IFREG: break
        case S_IFDIR: throw QueueError(.permission, "\(path) is a directory")
        case S_IFLNK: throw QueueError(.permission, "\(path) is a symbolic link")
        default: throw QueueError(.permission, "\(path) is not an ordinary file")
        }
    }

    /// A log is applied to the database: nobody else may have made it, or may write it. With the store's lock held.
    static func inspectSideFiles(of path: String) throws(QueueError) {
        guard let owner = try Posix.status(path)?.st_uid else { return }
        for file in sideFiles(of: path) {
            guard let status = try Posix.status(file) else { continue }
            try checkKind(file, status)
            guard status.st_uid == owner else { throw QueueError(.permission, "\(file) belongs to another user than \(path)") }
            guard status.st_nlink == 1 else { throw QueueError(.permission, "\(file) has \(status.st_nlink) names") }
            guard status.st_mode & (S_IWGRP | S_IWOTH) == 0 else { throw QueueError(.permission, "\(file) may be written by others") }
            // A queue of that name would be destroyed.
            if try startsWithHeader(file) {
                throw QueueError(.permission, "\(file) is a database of its own, not a side file of \(path)")
            }
            if file == journal(of: path), status.st_size > 0 {
                throw QueueError(
                    .corrupt, "\(file) is a rollback journal, which no store of this library has; if it is not needed, move it away")
            }
        }
    }

    private static func startsWithHeader(_ path: String) throws(QueueError) -> Bool {
        let descriptor = try Posix.open(path, O_RDONLY)
        defer { Glibc.close(descriptor) }
        return try Posix.read(descriptor, at: 0, count: header.count, path) == header
    }
}
