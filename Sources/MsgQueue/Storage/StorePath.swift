import Glibc

/// Where a store may lie, and what may lie there already.
enum StorePath {
    static let header = Array("SQLite format 3\0".utf8)

    /// The absolute path of a store, its directory's links resolved.
    static func resolve(_ path: String) throws(QueueError) -> String {
        guard !path.isEmpty else { throw QueueError(.invalid, "the path is empty") }
        guard !path.utf8.contains(0) else { throw QueueError(.invalid, "the path holds a NUL") }
        guard path != ":memory:", !path.hasPrefix("file:") else {
            throw QueueError(.invalid, "\(path) is not a file: a queue that forgets is none")
        }
        let slash = path.utf8.lastIndex(of: 0x2f)
        let name = slash.map { String(path[path.utf8.index(after: $0)...]) } ?? path
        guard !name.isEmpty, name != ".", name != ".." else {
            throw QueueError(.permission, "\(path) is a directory, not a file")
        }
        let given = slash == nil ? "." : directory(of: path)
        guard let real = realpath(given, nil) else {
            throw QueueError(errno == ENOENT || errno == ENAMETOOLONG ? .invalid : .permission, "\(given): \(Posix.lastError())")
        }
        defer { free(real) }
        let directory = String(cString: real)
        return directory == "/" ? "/" + name : directory + "/" + name
    }

    static func directory(of path: String) -> String {
        guard let slash = path.utf8.lastIndex(of: 0x2f) else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    /// Throws when the place is not safe. nil: there is nothing yet.
    static func inspect(_ path: String) throws(QueueError) -> FileIdentity? {
        guard let place = try Posix.status(directory(of: path)) else {
            throw QueueError(.invalid, "\(directory(of: path)) does not exist")
        }
        if place.st_mode & S_IWOTH != 0, place.st_mode & S_ISVTX == 0 {
            throw QueueError(.permission, "anyone may replace files in \(directory(of: path))")
        }
        guard let status = try Posix.status(path) else {
            for log in [path + "-wal", path + "-journal"] where try Posix.status(log) != nil {
                throw QueueError(.corrupt, "\(log) lies there without its database; put them together again, or move it away")
            }
            return nil
        }
        switch status.st_mode & S_IFMT {
        case S_IFREG: break
        case S_IFDIR: throw QueueError(.permission, "\(path) is a directory")
        case S_IFLNK: throw QueueError(.permission, "\(path) is a symbolic link")
        default: throw QueueError(.permission, "\(path) is not an ordinary file")
        }
        guard status.st_nlink == 1 else {
            throw QueueError(.permission, "\(path) has \(status.st_nlink) names; two owners could open it by two of them")
        }
        guard status.st_uid == geteuid() else { throw QueueError(.permission, "\(path) belongs to another user") }
        for place in [path, directory(of: path)] where faccessat(AT_FDCWD, place, R_OK | W_OK, AT_EACCESS) != 0 {
            throw QueueError(.permission, "\(place): \(Posix.lastError())")
        }
        return FileIdentity(status)
    }

    /// Throws when the file is not a store of a version that is known. Must not run while this process has the file open: closing a
    /// descriptor drops the locks on its file.
    static func checkHeader(_ path: String) throws(QueueError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw QueueError(errno == EACCES || errno == EPERM ? .permission : .storage, "\(path): \(Posix.lastError())")
        }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 100)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        guard count >= 0 else { throw QueueError(.storage, "\(path): \(Posix.lastError())") }
        guard count == bytes.count, Array(bytes[..<header.count]) == header else {
            throw QueueError(.corrupt, "\(path) is not a message store: it has no SQLite header")
        }
        func number(_ offset: Int) -> Int64 { bytes[offset..<offset + 4].reduce(0) { $0 << 8 | Int64($1) } }
        guard number(68) == Schema.applicationID else {
            throw QueueError(.corrupt, "\(path) is another program's database, not a message store")
        }
        guard number(60) <= Schema.version else {
            throw QueueError(.tooNew, "\(path) has schema \(number(60)); this library knows \(Schema.version)")
        }
    }
}
