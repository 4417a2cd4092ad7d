import CPlatform
import Glibc

/// The few words of the operating system that the store needs.
enum Posix {
    static func lastError() -> String { describe(errno) }

    static func describe(_ code: Int32) -> String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard strerror_r(code, &buffer, buffer.count) == 0 else { return "error \(code)" }
        return buffer.withUnsafeBufferPointer { text in
            String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
    }

    /// What lies under a path, symbolic links not followed; nil: nothing.
    static func status(_ path: String) throws(QueueError) -> stat? {
        var status = stat()
        guard lstat(path, &status) == 0 else {
            if errno == ENOENT { return nil }
            throw QueueError(errno == EACCES || errno == ENOTDIR ? .permission : .storage, "\(path): \(lastError())")
        }
        return status
    }

    /// Gives a file another name unless that is taken; false when it is.
    static func renameExclusively(_ old: String, _ new: String) throws(QueueError) -> Bool {
        if platform_rename_exclusively(old, new) == 0 { return true }
        guard errno == EEXIST else { throw QueueError(.storage, "\(new): \(lastError())") }
        return false
    }

    /// Makes a new empty file that only its owner can read.
    static func makeFile(_ path: String) throws(QueueError) -> Int32 {
        let descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            let isForbidden = errno == EACCES || errno == EPERM || errno == EROFS
            throw QueueError(isForbidden ? .permission : .storage, "\(path): \(lastError())")
        }
        return descriptor
    }

    /// Beside `path`, for a file that is built before it gets that name.
    static func temporaryName(for path: String) -> String {
        path + ".new-\(getpid())-\(UInt32.random(in: 0...UInt32.max))"
    }

    /// Makes what was written to a file durable.
    static func syncFile(_ path: String) throws(QueueError) {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
        guard descriptor >= 0 else { throw QueueError(.storage, "\(path): \(lastError())") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw QueueError(.storage, "flush of \(path): \(lastError())") }
    }

    /// Makes the names in a directory durable. SQLite ignores it when this fails; a store must not.
    static func syncDirectory(of path: String) throws(QueueError) {
        let directory = StorePath.directory(of: path)
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw QueueError(.storage, "\(directory): \(lastError())") }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw QueueError(.storage, "flush of \(directory): \(lastError())") }
    }
}

/// One file, whatever it is called.
struct FileIdentity: Hashable {
    let device: UInt
    let inode: UInt

    init(_ status: stat) {
        device = UInt(status.st_dev)
        inode = UInt(status.st_ino)
    }
}

/// Sees to it that the database and its log are still the files that were opened: SQLite goes on writing to files that were removed.
struct FileWatch {
    private let paths: [String]
    private var known: [FileIdentity?] = [nil, nil]
    private var checkedAt: Int = 0

    init(path: String) { paths = [path, path + "-wal"] }

    /// At most once a second; throws when a file is gone or another.
    mutating func check() throws(QueueError) {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
        guard time.tv_sec != checkedAt else { return }
        let isFirst = checkedAt == 0
        checkedAt = time.tv_sec
        for (index, path) in paths.enumerated() {
            let identity = try Posix.status(path).map(FileIdentity.init)
            if let old = known[index], identity != old {
                throw QueueError(.unknown, "\(path) was removed or replaced while the queue is open")
            }
            guard let identity else {
                throw QueueError(.unknown, "\(path) was removed while the queue is open")
            }
            known[index] = identity
        }
        // The log's name was made by the first write: a power cut must not lose it.
        if isFirst { try Posix.syncDirectory(of: paths[0]) }
    }
}
