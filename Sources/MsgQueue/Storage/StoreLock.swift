import CPlatform
import Glibc

/// The right to a store: a lock on an open file description of our own, held until SQLite has closed the file.
///
/// The kernel drops a process's POSIX locks on a file when anything in that process closes any descriptor of it. A lock of an open file
/// description stays. It covers the bytes that SQLite locks, so other programs' SQLite finds the database locked, and so does a second
/// SQLite in this process; the engine's own connection takes no lock. A `flock` beside it tells others which process it is.
final class StoreLock: @unchecked Sendable {
    let path: String
    let file: FileIdentity
    let isShared: Bool
    private(set) var descriptor: Int32

    private static let registry: Mutex = {
        let lock = Mutex()
        ForkGuard.protect(lock, reset: { StoreLock.closeInChild() })
        ForkGuard.protectInnermost(lock: SharedLocks.lockAll, unlock: SharedLocks.unlockAll)
        return lock
    }()
    nonisolated(unsafe) private static var held: [StoreLock] = []

    /// An owner that is just closing gets a moment.
    private static let tries = 20

    /// Takes the lock. `shared`: for reading, beside other readers.
    static func take(_ path: String, _ file: FileIdentity, shared: Bool) throws(QueueError) -> StoreLock {
        var left = tries
        while true {
            do throws(QueueError) {
                let lock = try StoreLock(path, file, shared)
                try registry.withLock { () throws(QueueError) in
                    // Another lock of this process conflicts, too; after a fork the parent's do, although they are closed here.
                    guard !held.contains(where: { $0.file == file && !($0.isShared && shared) }) else {
                        close(lock.descriptor)
                        lock.descriptor = -1
                        throw QueueError(.locked, "\(path) is open in this process (\(getpid())) already, or was when it was forked")
                    }
                    held.append(lock)
                }
                return lock
            } catch {
                guard error.code == .locked, left > 0, !isHeldHere(file, shared) else { throw error }
                left -= 1
                usleep(5_000)
            }
        }
    }

    private static func isHeldHere(_ file: FileIdentity, _ shared: Bool) -> Bool {
        registry.withLock { held.contains { $0.file == file && !($0.isShared && shared) } }
    }

    private init(_ path: String, _ file: FileIdentity, _ shared: Bool) throws(QueueError) {
        self.path = path
        self.file = file
        isShared = shared
        descriptor = try Posix.open(path, shared ? O_RDONLY : O_RDWR)
        do throws(QueueError) {
            guard FileIdentity(try Posix.status(descriptor, path)) == file else {
                throw QueueError(.storage, "\(path) was replaced while it was opened")
            }
            guard platform_lock_database(descriptor, shared ? 0 : 1) == 0 else {
                guard errno == EAGAIN || errno == EACCES else { throw QueueError(.storage, "lock of \(path): \(Posix.lastError())") }
                let owner =
                    Self.owner(of: file).map { owner in
                        if owner == getpid() { return "this process (\(owner))" }
                        let isGone = kill(owner, 0) != 0 && errno == ESRCH
                        return isGone ? "a process that was forked by process \(owner)" : "process \(owner)"
                    } ?? "another process"
                throw QueueError(.locked, "\(path) is open in \(owner)")
            }
            // It may have been replaced before the lock was taken.
            guard try Posix.status(path).map(FileIdentity.init) == file else {
                throw QueueError(.storage, "\(path) was replaced while it was opened")
            }
        } catch {
            close(descriptor)
            descriptor = -1
            throw error
        }
        if !shared { _ = flock(descriptor, LOCK_EX | LOCK_NB) }
    }

    /// Gives the lock up, in the processes that were forked meanwhile, too.
    func release() {
        Self.registry.withLock {
            Self.held.removeAll { $0 === self }
            guard descriptor >= 0 else { return }
            _ = platform_unlock_database(descriptor)
            _ = flock(descriptor, LOCK_UN)
            close(descriptor)
            descriptor = -1
        }
    }

    /// In a forked child, with the registry's lock held: the parent's locks must not live on here after the parent's end.
    private static func closeInChild() {
        for lock in held where lock.descriptor >= 0 {
            close(lock.descriptor)
            lock.descriptor = -1
        }
    }

    /// The process that holds a lock on the file, as the kernel tells it; nil: not known.
    private static func owner(of file: FileIdentity) -> Int32? {
        guard let table = fopen("/proc/locks", "re") else { return nil }
        defer { fclose(table) }
        var line = [CChar](repeating: 0, count: 512)
        while fgets(&line, Int32(line.count), table) != nil {
            // 1: FLOCK  ADVISORY  WRITE 4711 fe:01:131090 0 EOF
            let text = line.withUnsafeBufferPointer { buffer in
                String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            }
            let words = text.split(separator: " ")
            guard words.count >= 6, words[1] != "->", let inode = words[5].split(separator: ":").last, UInt(inode) == file.inode,
                let process = Int32(words[4]), process > 0
            else { continue }
            return process
        }
        return nil
    }
}
