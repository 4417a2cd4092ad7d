import Glibc

/// Keeps the mutexes that all queues share usable in a forked child: they are locked before a fork, and unlocked after it in the parent and
/// in the child. (The mutex of a queue does not need this: a child never locks it.)
package enum ForkGuard {
    nonisolated(unsafe) private static var locks: [Mutex] = []
    nonisolated(unsafe) private static var resets: [() -> Void] = []
    /// The mutexes of SQLite.
    nonisolated(unsafe) private static var innermost: (lock: () -> Void, unlock: () -> Void)?
    private static let isInstalled: Bool = {
        pthread_atfork({ ForkGuard.lockAll() }, { ForkGuard.unlockAll() }, { ForkGuard.resetAll() }) == 0
    }()

    /// Registers a mutex, before its first use and from one thread. `reset` runs in a forked child, with the mutex locked.
    package static func protect(_ lock: Mutex, reset: (() -> Void)? = nil) {
        registry.withLock {
            locks.append(lock)
            if let reset { resets.append(reset) }
        }
        _ = isInstalled
    }

    /// Registers functions that lock and unlock the mutexes of SQLite, which are locked after all others.
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
