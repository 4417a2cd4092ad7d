import CPlatform
import Glibc

/// The functions of the operating system that the store needs.
enum Posix {
    static func lastError() -> String { describe(errno) }

    static func describe(_ code: Int32) -> String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard strerror_r(code, &buffer, buffer.count) == 0 else { return "error \(code)" }
        return buffer.withUnsafeBufferPointer { text in
            String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }
    }

    /// No room on the disk, in the quota, or up to the limit of a file's size.
    static func isFull(_ code: Int32) -> Bool { code == ENOSPC || code == EDQUOT || code == EFBIG }

    /// An error of a system call as the caller is told of it.
    static func error(_ code: Int32, _ what: String) -> QueueError {
        let isForbidden = [EACCES, EPERM, EROFS, ENOTDIR].contains(code)
        return QueueError(isForbidden ? .permission : .storage, "\(what): \(describe(code))", isFull: isFull(code))
    }

    /// What lies under a path, symbolic links not followed; nil: nothing.
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

    /// A descriptor above those of standard input, output and error, which a host may have closed: what it then prints must not go into a
    /// file of the store.
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
        guard descriptor >= 0 else { throw error(errno, path) }
        return descriptor
    }

    /// Makes a new empty file that only its owner can read.
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

    /// Fills the buffer as far as the file goes; how many bytes there were.
    static func read(
        _ descriptor: Int32, at offset: Int64, into buffer: UnsafeMutableRawBufferPointer, _ path: String
    ) throws(QueueError) -> Int {
        var done = 0
        while done < buffer.count, let base = buffer.baseAddress {
            let count = pread(descriptor, base + done, buffer.count - done, off_t(offset) + done)
            if count < 0 {
                if errno == EINTR { continue }
                throw error(errno, "read of \(path)")
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
            guard count > 0 else { throw error(count == 0 ? ENOSPC : errno, "write of \(path)") }
            done += count
        }
    }

    static func write(_ descriptor: Int32, at offset: Int64, _ bytes: [UInt8], _ path: String) throws(QueueError) {
        let result = bytes.withUnsafeBytes { buffer -> Result<Void, QueueError> in
            do throws(QueueError) { return .success(try write(descriptor, at: offset, buffer, path)) } catch { return .failure(error) }
        }
        try result.get()
    }

    /// Makes what was written durable. A flush that failed is never repeated: the kernel may have dropped the pages.
    static func sync(_ descriptor: Int32, _ path: String) throws(QueueError) {
        while fdatasync(descriptor) != 0 {
            guard errno == EINTR else { throw QueueError(.storage, "flush of \(path): \(lastError())") }
        }
    }

    /// Makes the names in a directory durable. SQLite ignores it when this fails; a store must not.
    static func syncDirectory(of path: String) throws(QueueError) {
        let directory = directory(of: path)
        let descriptor = Glibc.open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { throw error(errno, directory) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw QueueError(.storage, "flush of \(directory): \(lastError())") }
    }

    static func directory(of path: String) -> String {
        guard let slash = path.utf8.lastIndex(of: 0x2f) else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }

    // MARK: New files

    private static let mark = ".msgq-new-"

    /// Beside `path`, for a file that is built before it gets that name.
    static func temporaryName(for path: String) -> String { "\(path)\(mark)\(getpid())-\(UInt32.random(in: 0...UInt32.max))" }

    /// Gives a file another name unless that is taken; false when it is. File systems that cannot rename without replacing (NFS, some
    /// of FUSE) can link.
    static func renameExclusively(_ old: String, _ new: String) throws(QueueError) -> Bool {
        if platform_rename_exclusively(old, new) == 0 { return true }
        if errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP {
            if link(old, new) == 0 {
                guard unlink(old) == 0 else { throw error(errno, old) }
                return true
            }
            if errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS {
                // Neither: the name is taken by an empty file first, which is then replaced.
                let descriptor = Glibc.open(new, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
                if descriptor >= 0 {
                    close(descriptor)
                    guard rename(old, new) == 0 else { throw error(errno, new) }
                    return true
                }
            }
        }
        guard errno == EEXIST else { throw error(errno, new) }
        return false
    }

    /// Removes unfinished files beside `path` that a process left when it ended: those on which nobody holds a lock.
    static func removeUnfinished(of path: String) {
        let directory = directory(of: path)
        guard let start = MemoryLayout<dirent>.offset(of: \.d_name), let entries = opendir(directory) else { return }
        defer { closedir(entries) }
        let prefix = "\(path.split(separator: "/").last ?? "")\(mark)"
        var found: [String] = []
        while let entry = readdir(entries) {
            // Read where it lies: the entry ends behind its name, not where the struct does.
            let name = String(cString: (UnsafeRawPointer(entry) + start).assumingMemoryBound(to: CChar.self))
            // Nothing but what `temporaryName` makes, of a process that is gone.
            guard name.hasPrefix(prefix) else { continue }
            let parts = name.dropFirst(prefix.count).split(separator: "-", omittingEmptySubsequences: false)
            guard parts.count == 2, let process = pid_t(parts[0]), process > 0, UInt32(parts[1]) != nil, kill(process, 0) != 0,
                errno == ESRCH
            else { continue }
            found.append("\(directory)/\(name)")
        }
        for file in found {
            let descriptor = Glibc.open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
            guard descriptor >= 0 else { continue }
            var status = stat()
            // One that was made just now may not be locked yet.
            if fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_uid == geteuid(), status.st_nlink == 1,
                time(nil) - status.st_mtim.tv_sec > 1, flock(descriptor, LOCK_EX | LOCK_NB) == 0
            {
                unlink(file)
            }
            close(descriptor)
        }
    }
}

/// A file that is built beside its place and takes its name when it is whole and durable.
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
        // Others take it for what a killed process left, unless it is locked.
        _ = flock(descriptor, LOCK_EX | LOCK_NB)
    }

    deinit {
        abandon()
        close(descriptor)
    }

    /// Removes what there is of it, unless it has its name.
    func abandon() {
        guard !isDone else { return }
        isDone = true
        unlink(temporary)
    }

    /// Gives it its name. `replacing`: in the place of what has it now; otherwise false when the name is taken.
    func finish(replacing: Bool) throws(QueueError) -> Bool {
        try Posix.sync(descriptor, temporary)
        if replacing {
            guard rename(temporary, path) == 0 else { throw Posix.error(errno, path) }
        } else {
            guard try Posix.renameExclusively(temporary, path) else { return false }
        }
        isDone = true
        try Posix.syncDirectory(of: path)
        return true
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
