import Glibc

/// Keeps the locks that all queues share usable in a forked child: they are taken before a fork and given back after it, on both sides.
/// (A queue's own lock needs none of that: in a child nobody takes it.)
package enum ForkGuard {
    nonisolated(unsafe) private static var locks: [Mutex] = []
    private static let isInstalled: Bool = {
        pthread_atfork({ ForkGuard.lockAll() }, { ForkGuard.unlockAll() }, { ForkGuard.unlockAll() }) == 0
    }()

    /// Before the lock is used for the first time, from one thread.
    package static func protect(_ lock: Mutex) {
        registry.withLock { locks.append(lock) }
        _ = isInstalled
    }

    private static let registry = Mutex()

    private static func lockAll() {
        registry.lock()
        for lock in locks { lock.lock() }
        SharedLocks.lockAll()
    }

    private static func unlockAll() {
        SharedLocks.unlockAll()
        for lock in locks.reversed() { lock.unlock() }
        registry.unlock()
    }
}
