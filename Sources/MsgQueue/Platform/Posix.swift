#if !canImport(Glibc)
    #error("libmsgqueue builds on Linux with glibc; Sources/README.md, \"A port\", lists what another system needs")
#endif

import CPlatform
import Glibc

/// System calls for files.
enum Posix {
    static func lastError() -> String { describe(errno) }

    static func describe(_ code: Int32) -> String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard strerror_r(code, &buffer, buffer.count) == 0 else { return "error \(code)" }
        return buffer.withUnsafeBufferPointer { text in
            String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
    }

    /// Whether the code means that the disk or the quota is full, or that the file size limit was reached.
    static func isFull(_ code: Int32) -> Bool { code == ENOSPC || code == EDQUOT || code == EFBIG }

    /// The most bytes that this process may write to a file (`ulimit -f`).
    static var largestFile: Int64 {
        var limits = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limits) == 0 else { return .max }
        return Int64(clamping: limits.rlim_cur)
    }

    /// Returns the library's error for an error of a system call.
    static func error(_ code: Int32, _ what: String) -> QueueError {
        let isForbidden = [EACCES, EPERM, EROFS, ENOTDIR].contains(code)
        return QueueError(
            isForbidden ? .permission : .storage, "\(what): \(describe(code))",
            isFull(code) ? .full : code == ENOENT ? .replaced : .other)
    }

    /// Returns the status of a file, without following symbolic links; nil: it does not exist.
    static func status(_ path: String) throws(QueueError) -> stat? {
        var status = stat()
        guard lstat(path, &status) == 0 else {
            if errno == ENOENT { return nil }
            throw error(errno, path)
        }
        return status
    }

    static func status(_ descriptor: Int32, _ path: String) throws(QueueError) -> stat {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw error(errno, path) }
        return status
    }

    // MARK: Descriptors

    /// Moves a descriptor above those of standard input, output and error. A host may have closed these, and what it then prints must not
    /// be written to a file of the store.
    static func aboveStandard(_ descriptor: Int32) -> Int32 {
        guard (0...2).contains(descriptor) else { return descriptor }
        let moved = fcntl(descriptor, F_DUPFD_CLOEXEC, 3)
        let code = errno
        close(descriptor)
        errno = code
        return moved
    }

    static func open(_ path: String, _ flags: Int32) throws(QueueError) -> Int32 {
        let descriptor = aboveStandard(Glibc.open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK))
        guard descriptor >= 0 else {
            // A device that fails here is damage of the file.
            let (failure, isDamage) = (error(errno, path), errno == EIO)
            throw QueueError(
                failure.code, "opening \(failure.detail)", isDamage || failure.cause == .replaced ? failure.cause : .unopened)
        }
        return descriptor
    }

    /// Creates a new empty file that only its owner can read and write.
    static func makeFile(_ path: String) throws(QueueError) -> Int32 {
        let descriptor = aboveStandard(Glibc.open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600))
        guard descriptor >= 0 else { throw error(errno, path) }
        return descriptor
    }

    /// Reads up to `count` bytes; fewer at the end of the file.
    static func read(_ descriptor: Int32, at offset: Int64, count: Int, _ path: String) throws(QueueError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let done = try bytes.withUnsafeMutableBytes { buffer -> Result<Int, QueueError> in
            do throws(QueueError) { return .success(try read(descriptor, at: offset, into: buffer, path)) } catch { return .failure(error) }
        }.get()
        if done < count { bytes.removeSubrange(done...) }
        return bytes
    }

    /// Reads until the buffer is full or the file ends. Returns the number of bytes. A read that failed is repeated once: unlike after a
    /// failed flush, nothing was lost by it.
    static func read(
        _ descriptor: Int32, at offset: Int64, into buffer: UnsafeMutableRawBufferPointer, _ path: String
    ) throws(QueueError) -> Int {
        var (done, hasFailed) = (0, false)
        while done < buffer.count, let base = buffer.baseAddress {
            let count = pread(descriptor, base + done, buffer.count - done, off_t(offset) + done)
            if count < 0 {
                if errno == EINTR { continue }
                guard errno == EIO, !hasFailed else { throw error(errno, "reading \(path)") }
                hasFailed = true
                continue
            }
            if count == 0 { break }
            done += count
        }
        return done
    }

    static func write(_ descriptor: Int32, at offset: Int64, _ bytes: UnsafeRawBufferPointer, _ path: String) throws(QueueError) {
        var done = 0
        while done < bytes.count, let base = bytes.baseAddress {
            let count = pwrite(descriptor, base + done, bytes.count - done, off_t(offset) + done)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw error(count == 0 ? ENOSPC : errno, "writing \(path)") }
            done += count
        }
    }

    static func write(_ descriptor: Int32, at offset: Int64, _ bytes: [UInt8], _ path: String) throws(QueueError) {
        let result = bytes.withUnsafeBytes { buffer -> Result<Void, QueueError> in
            do throws(QueueError) { return .success(try write(descriptor, at: offset, buffer, path)) } catch { return .failure(error) }
        }
        try result.get()
    }

    /// Flushes a file. A failed flush is never repeated: the kernel may have dropped the pages.
    static func sync(_ descriptor: Int32, _ path: String) throws(QueueError) {
        guard flush(descriptor) else { throw QueueError(.storage, "flushing \(path): \(lastError())") }
    }

    /// Flushes a file. Returns false, with `errno` set, when that failed.
    static func flush(_ descriptor: Int32) -> Bool {
        while fdatasync(descriptor) != 0 {
            guard errno == EINTR else { return false }
        }
        return true
    }

    /// Makes the names in the directory of a file durable. SQLite ignores errors of this; a store must not.
    static func syncDirectory(of path: String) throws(QueueError) {
        let directory = directory(of: path)
        let descriptor = Glibc.open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw error(errno, directory) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw QueueError(.storage, "flushing \(directory): \(lastError())") }
    }

    static func directory(of path: String) -> String {
        guard let slash = path.utf8.lastIndex(of: 0x2f) else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    // MARK: New files

    private static let temporaryMark = ".msgq-new-"

    /// The bytes of the name of a file with which the names of its temporary files begin, so that they are at most 255 bytes long.
    private static let longestStart = 216

    /// Returns a name beside `path`, for a file that is written before it is renamed to `path`.
    static func temporaryName(for path: String) -> String {
        "\(directory(of: path))/\(temporaryStart(of: path))\(getpid())-\(UInt32.random(in: 0...UInt32.max))"
    }

    private static func temporaryStart(of path: String) -> String {
        var start = path.split(separator: "/").last ?? ""
        while start.utf8.count > longestStart { start.removeLast() }
        return start + temporaryMark
    }

    /// Renames a file unless the new name exists; returns false when it does. Uses a hard link on file systems that cannot rename without
    /// replacing (NFS, some of FUSE).
    static func renameExclusively(_ old: String, _ new: String) throws(QueueError) -> Bool {
        if platform_rename_exclusively(old, new) == 0 { return true }
        if errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP {
            if link(old, new) == 0 {
                if unlink(old) == 0 { return true }
                throw removing(new, after: error(errno, old))
            }
            if errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS {
                // Neither is supported: create an empty file with the name, and then replace it.
                let descriptor = Glibc.open(new, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
                if descriptor >= 0 {
                    close(descriptor)
                    if rename(old, new) == 0 { return true }
                    throw removing(new, after: error(errno, new))
                }
            }
        }
        guard errno == EEXIST else { throw error(errno, new) }
        return false
    }

    /// Removes a file that is no longer needed. One that is left is logged, and false is returned.
    @discardableResult
    static func remove(_ path: String) -> Bool {
        guard unlink(path) != 0, errno != ENOENT else { return true }
        Log.warning("\(path) is not needed and could not be removed: \(lastError())")
        return false
    }

    /// Truncates a file that could not be removed. One that keeps its content is logged.
    static func empty(_ path: String) {
        let descriptor = Glibc.open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { return Log.warning("\(path) could not be truncated: \(lastError())") }
        close(descriptor)
    }

    /// Removes a new file after an error. Returns that error, which says so if the file is left.
    static func removing(_ path: String, after error: QueueError) -> QueueError {
        guard unlink(path) != 0 else { return error }
        let reason = lastError()
        return QueueError(
            error.code, "\(error.detail); \(path) is left, because it could not be removed (\(reason)): do not use it, and remove it",
            error.cause)
    }

    /// Removes temporary files beside `path` of processes that have ended. Their files are not locked.
    static func removeUnfinished(of path: String) {
        let directory = directory(of: path)
        guard let start = MemoryLayout<dirent>.offset(of: \.d_name), let entries = opendir(directory) else { return }
        defer { closedir(entries) }
        let prefix = temporaryStart(of: path)
        var found: [String] = []
        while let entry = readdir(entries) {
            // Read in place: the entry ends after its name and may be shorter than the struct.
            let name = String(cString: (UnsafeRawPointer(entry) + start).assumingMemoryBound(to: CChar.self))
            // Only names made by `temporaryName` in a process that no longer exists.
            guard name.hasPrefix(prefix) else { continue }
            // Earlier versions wrote a journal beside it.
            let end = name.hasSuffix("-journal") ? name.dropLast(8) : name[...]
            let parts = end.dropFirst(prefix.count).split(separator: "-", omittingEmptySubsequences: false)
            guard parts.count == 2, let process = pid_t(parts[0]), process > 0, UInt32(parts[1]) != nil, kill(process, 0) != 0,
                errno == ESRCH
            else { continue }
            found.append("\(directory)/\(name)")
        }
        for file in found {
            let descriptor = Glibc.open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
            guard descriptor >= 0 else { continue }
            var status = stat()
            // A file that was just created may not be locked yet.
            if fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(), status.st_nlink == 1,
                time(nil) - status.st_mtim.tv_sec > 1, flock(descriptor, LOCK_EX | LOCK_NB) == 0
            {
                remove(file)
            }
            close(descriptor)
        }
    }
}

/// A new file that is written under a temporary name, and renamed when it is complete and durable.
final class NewFile {
    let path: String
    let temporary: String
    let descriptor: Int32
    private var isDone = false

    init(for path: String) throws(QueueError) {
        self.path = path
        Posix.removeUnfinished(of: path)
        temporary = Posix.temporaryName(for: path)
        descriptor = try Posix.makeFile(temporary)
        // Without the lock another process could remove it as a leftover of a killed process.
        _ = flock(descriptor, LOCK_EX | LOCK_NB)
    }

    deinit {
        abandon()
        close(descriptor)
    }

    /// Removes the temporary file, unless it was renamed.
    func abandon() {
        guard !isDone else { return }
        isDone = true
        Posix.remove(temporary)
    }

    /// Flushes and renames the file. `replacing`: replaces an existing file; otherwise returns false when the name exists, and after an error
    /// there is no file with that name.
    func finish(replacing: Bool) throws(QueueError) -> Bool {
        try Posix.sync(descriptor, temporary)
        if replacing {
            guard rename(temporary, path) == 0 else { throw Posix.error(errno, path) }
            isDone = true
            try Posix.syncDirectory(of: path)
            return true
        }
        // Nobody can open the store until its name is durable, so that it can be removed. A file system without locks has no stores.
        _ = platform_lock_database(descriptor, 1)
        defer { _ = platform_unlock_database(descriptor) }
        guard try Posix.renameExclusively(temporary, path) else { return false }
        isDone = true
        do throws(QueueError) { try Posix.syncDirectory(of: path) } catch {
            throw isNamed ? Posix.removing(path, after: error) : error
        }
        return true
    }

    /// Whether `path` is the name of this file.
    private var isNamed: Bool {
        guard let named = try? Posix.status(path), let own = try? Posix.status(descriptor, path) else { return false }
        return FileIdentity(named) == FileIdentity(own)
    }
}

/// Identifies a file independently of its name.
struct FileIdentity: Hashable {
    let device: UInt
    let inode: UInt

    init(_ status: stat) {
        device = UInt(status.st_dev)
        inode = UInt(status.st_ino)
    }
}
