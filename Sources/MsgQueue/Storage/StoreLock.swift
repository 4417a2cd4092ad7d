import CPlatform
import Glibc

/// The lock on a store, held until SQLite has closed the file. It is an open file description lock.
///
/// The kernel releases a process's POSIX locks on a file when any code in the process closes any descriptor of the file. A lock on an open
/// file description remains. It covers the bytes that SQLite locks, so other programs that use SQLite, and another SQLite in this process,
/// find the database locked; the connection of the engine itself takes no lock. A `flock` beside it shows the id of the process.
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

    /// Milliseconds between two attempts.
    private static let interval: UInt32 = 5
    /// How long another process may take to close, in milliseconds, also without a wait.
    private static let patience: Int64 = 100

    /// Acquires the lock. `shared`: for reading, together with other readers. `wait`: milliseconds during which it is tried again, also when
    /// this process has it.
    static func acquire(_ path: String, _ file: FileIdentity, shared: Bool, wait: Int64 = 0) throws(QueueError) -> StoreLock {
        let start = Ports.milliseconds(CLOCK_BOOTTIME)
        while true {
            do throws(QueueError) {
                let lock = try StoreLock(path, file, shared)
                try registry.withLock { () throws(QueueError) in
                    // Other locks of this process conflict, too; and in a forked child those of the parent, which are closed here.
                    guard holder(of: file, shared) == nil else {
                        close(lock.descriptor)
                        lock.descriptor = -1
                        throw QueueError(.locked, "\(path) is already open in this process (\(getpid())), or was when it was forked")
                    }
                    held.append(lock)
                }
                return lock
            } catch {
                let waited = Ports.milliseconds(CLOCK_BOOTTIME).subtractingClamped(start)
                guard error.code == .locked, waited < timeLeft(file, shared, wait) else {
                    guard error.code == .locked, error.detail.isEmpty else { throw error }
                    throw QueueError(.locked, "\(path) is open in \(owner(of: file))")
                }
                usleep(interval * 1000)
            }
        }
    }

    /// How long in all to wait for whoever has the lock.
    private static func timeLeft(_ file: FileIdentity, _ shared: Bool, _ wait: Int64) -> Int64 {
        registry.withLock {
            guard let holder = holder(of: file, shared) else { return max(wait, patience) }
            // Nobody releases a lock that a forked child has from its parent.
            return holder.descriptor < 0 ? 0 : wait
        }
    }

    /// Returns the lock of this process that excludes another. Needs the registry's mutex.
    private static func holder(of file: FileIdentity, _ shared: Bool) -> StoreLock? {
        held.first { $0.file == file && !($0.isShared && shared) }
    }

    private init(_ path: String, _ file: FileIdentity, _ shared: Bool) throws(QueueError) {
        self.path = path
        self.file = file
        isShared = shared
        descriptor = try Posix.open(path, shared ? O_RDONLY : O_RDWR)
        do throws(QueueError) {
            guard FileIdentity(try Posix.status(descriptor, path)) == file else {
                throw QueueError(.storage, "\(path) was replaced while it was opened", .replaced)
            }
            guard platform_lock_database(descriptor, shared ? 0 : 1) == 0 else {
                guard errno == EAGAIN || errno == EACCES else { throw QueueError(.storage, "locking \(path) failed: \(Posix.lastError())") }
                // `acquire` says who has it, if it gives up.
                throw QueueError(.locked, "")
            }
            // The file may have been replaced before the lock was acquired.
            guard try Posix.status(path).map(FileIdentity.init) == file else {
                throw QueueError(.storage, "\(path) was replaced while it was opened", .replaced)
            }
        } catch {
            close(descriptor)
            descriptor = -1
            throw error
        }
        if !shared { _ = flock(descriptor, LOCK_EX | LOCK_NB) }
    }

    /// Releases the lock, including the copies of it in forked processes.
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

    /// Runs in a forked child, with the registry's mutex held: the parent's locks must not outlive the parent.
    private static func closeInChild() {
        for lock in held where lock.descriptor >= 0 {
            close(lock.descriptor)
            lock.descriptor = -1
        }
    }

    /// Names the process that holds a lock on the file.
    private static func owner(of file: FileIdentity) -> String {
        // Of several readers the system names none.
        let isHere = registry.withLock { holder(of: file, false) != nil }
        guard let owner = isHere ? getpid() : ownerID(of: file) else { return "another process" }
        if owner == getpid() { return "this process (\(owner))" }
        let isGone = kill(owner, 0) != 0 && errno == ESRCH
        return isGone ? "a process that was forked by process \(owner)" : "process \(owner)"
    }

    /// Returns the process that holds a lock on the file, from `/proc/locks`; nil: unknown.
    private static func ownerID(of file: FileIdentity) -> Int32? {
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
