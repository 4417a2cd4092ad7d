import Glibc

/// Keeps the locks that all queues share usable in a forked child: they are taken before a fork and given back after it, on both sides.
/// (A queue's own lock needs none of that: in a child nobody takes it.)
package enum ForkGuard {
    nonisolated(unsafe) private static var locks: [Mutex] = []
    nonisolated(unsafe) private static var resets: [() -> Void] = []
    /// Locks of a library below this one.
    nonisolated(unsafe) private static var innermost: (lock: () -> Void, unlock: () -> Void)?
    private static let isInstalled: Bool = {
        pthread_atfork({ ForkGuard.lockAll() }, { ForkGuard.unlockAll() }, { ForkGuard.resetAll() }) == 0
    }()

    /// Before the lock is used for the first time, from one thread. `reset` runs in a forked child, with the lock held.
    package static func protect(_ lock: Mutex, reset: (() -> Void)? = nil) {
        registry.withLock {
            locks.append(lock)
            if let reset { resets.append(reset) }
        }
        _ = isInstalled
    }

    /// Locks of a library below this one, which are taken after all others.
    package static func protectInnermost(lock: @escaping () -> Void, unlock: @escaping () -> Void) {
        registry.withLock { innermost = (lock, unlock) }
        _ = isInstalled
    }

    private static let registry = Mutex()

    private static func lockAll() {
        registry.lock()
        for lock in locks { lock.lock() }
        innermost?.lock()
    }

    private static func resetAll() {
        for reset in resets { reset() }
        unlockAll()
    }

    private static func unlockAll() {
        innermost?.unlock()
        for lock in locks.reversed() { lock.unlock() }
        registry.unlock()
    }
}
