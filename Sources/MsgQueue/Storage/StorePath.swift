import CPlatform
import Glibc

/// Checks of the path of a store and of the files there.
enum StorePath {
    static let header = Array("SQLite format 3\0".utf8)

    static func log(of path: String) -> String { path + "-wal" }
    static func journal(of path: String) -> String { path + "-journal" }
    /// The side record with the durable length of the log. It exists while the store is open, and after a crash.
    static func tail(of path: String) -> String { path + "-tail" }

    /// Whether the store has a log, or the record of one that is gone.
    static func hasLogOrRecord(_ path: String) throws(QueueError) -> Bool {
        for file in [log(of: path), tail(of: path)] where try Posix.status(file) != nil { return true }
        return false
    }

    /// The side files of a store.
    private static func sideFiles(of path: String) -> [String] { [log(of: path), journal(of: path), tail(of: path)] }

    private static let reservedSuffixes = ["-wal", "-journal", "-shm", "-tail"]
    /// In bytes. With a suffix it has the 255 bytes that a file name may have.
    private static let longestName = 247

    /// Returns the absolute path of a store, with the symbolic links in its directory resolved.
    static func resolve(_ path: String) throws(QueueError) -> String {
        guard !path.isEmpty else { throw QueueError(.invalid, "the path is empty") }
        guard !path.utf8.contains(0) else { throw QueueError(.invalid, "the path contains a NUL byte") }
        guard path != ":memory:", !path.hasPrefix("file:") else {
            throw QueueError(.invalid, "\(path) is not a file name: in-memory databases are not supported")
        }
        let slash = path.utf8.lastIndex(of: 0x2f)
        let name = slash.map { String(path[path.utf8.index(after: $0)...]) } ?? path
        guard !name.isEmpty, name != ".", name != ".." else {
            throw QueueError(.permission, "\(path) is a directory, not a file")
        }
        guard name.utf8.count <= longestName else {
            throw QueueError(.invalid, "\(path): the name has \(name.utf8.count) bytes; the limit is \(longestName)")
        }
        for suffix in reservedSuffixes where name.hasSuffix(suffix) {
            throw QueueError(.invalid, "\(path): the name of a store must not end in \(suffix), which is the name of a side file")
        }
        let given = slash == nil ? "." : Posix.directory(of: path)
        guard let real = realpath(given, nil) else {
            throw QueueError(errno == ENOENT || errno == ENAMETOOLONG ? .invalid : .permission, "\(given): \(Posix.lastError())")
        }
        defer { free(real) }
        let directory = String(cString: real)
        return directory == "/" ? "/" + name : directory + "/" + name
    }

    /// Checks the file and its directory; throws when they are not safe. nil: the file does not exist.
    static func inspect(_ path: String) throws(QueueError) -> FileIdentity? {
        let folder = Posix.directory(of: path)
        guard let place = try Posix.status(folder) else { throw QueueError(.invalid, "\(folder) does not exist") }
        guard place.st_uid == geteuid() || place.st_uid == 0 else {
            throw QueueError(.permission, "\(folder) belongs to another user, who could replace the files in it")
        }
        guard place.st_mode & S_IWOTH == 0 || place.st_mode & S_ISVTX != 0 else {
            throw QueueError(.permission, "any user may replace files in \(folder)")
        }
        guard let status = try Posix.status(path) else {
            for file in sideFiles(of: path) where try Posix.status(file) != nil {
                throw QueueError(.corrupt, "\(file) exists without its database; restore the database, or move the file away")
            }
            return nil
        }
        try checkKind(path, status)
        guard status.st_nlink == 1 else {
            throw QueueError(.permission, "\(path) has \(status.st_nlink) hard links; two owners could open it by different names")
        }
        guard status.st_uid == geteuid() else { throw QueueError(.permission, "\(path) belongs to another user") }
        guard status.st_mode & (S_IWGRP | S_IWOTH) == 0 else {
            throw QueueError(.permission, "\(path) is writable by other users; remove that permission (chmod go-w)")
        }
        guard platform_is_mount_point(path) == 0 else {
            throw QueueError(.permission, "\(path) is a mount point: its log would be on another file system; mount its directory")
        }
        for place in [path, folder] where faccessat(AT_FDCWD, place, R_OK | W_OK, AT_EACCESS) != 0 {
            throw Posix.error(errno, place)
        }
        return FileIdentity(status)
    }

    /// Checks the place of a new store; throws `conflict` when there is a file.
    static func inspectNew(_ path: String) throws(QueueError) {
        guard try inspect(path) != nil else { return }
        let isEmpty = try Posix.status(path)?.st_size == 0
        throw QueueError(
            .conflict, "\(path) already exists" + (isEmpty ? "; it is empty: if a backup or a salvage that failed left it, remove it" : ""))
    }

    /// Checks the file for reading only, which needs fewer conditions.
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
        default: throw QueueError(.permission, "\(path) is not a regular file")
        }
    }

    /// Checks the side files, because the log is applied to the database: no other user may own or write them. Needs the store's lock.
    static func inspectSideFiles(of path: String) throws(QueueError) {
        guard let owner = try Posix.status(path)?.st_uid else { return }
        for file in sideFiles(of: path) {
            guard let status = try Posix.status(file) else { continue }
            try checkKind(file, status)
            guard status.st_uid == owner else { throw QueueError(.permission, "\(file) belongs to another user than \(path)") }
            guard status.st_nlink == 1 else { throw QueueError(.permission, "\(file) has \(status.st_nlink) hard links") }
            guard status.st_mode & (S_IWGRP | S_IWOTH) == 0 else { throw QueueError(.permission, "\(file) is writable by other users") }
            // It may be a store with such a name, which would be destroyed.
            if try startsWithHeader(file) {
                throw QueueError(.permission, "\(file) is a database itself, not a side file of \(path)")
            }
            if file == journal(of: path), status.st_size > 0 {
                throw QueueError(
                    .corrupt, "\(file) is a rollback journal, which stores of this library do not have; if it is not needed, move it away")
            }
        }
    }

    private static func startsWithHeader(_ path: String) throws(QueueError) -> Bool {
        let descriptor = try Posix.open(path, O_RDONLY)
        defer { Glibc.close(descriptor) }
        return try Posix.read(descriptor, at: 0, count: header.count, path) == header
    }
}
