import Glibc

/// Keeps the locks that all queues share usable in a forked child: they are taken before a fork and given back after it, on both sides.
/// (A queue's own lock needs none of that: in a child nobody takes it.)
package enum ForkGuard {
    nonisolated(unsafe) private static var locks: [Mutex] = []
    private static let isInstalled: Bool = {
        pthread_atfork({ ForkGuard.lockAll() }, { ForkGuard.unlockAll() }, { ForkGuard.enterChild() }) == 0
    }()

    /// Before the lock is used for the first time, from one thread.
    package static func protect(_ lock: Mutex) {
        registry.withLock { locks.append(lock) }
        _ = isInstalled
    }

    /// What a forked child does before anything else, with all these locks held.
    package static func inChild(_ action: @escaping @Sendable () -> Void) { registry.withLock { actions.append(action) } }

    nonisolated(unsafe) private static var actions: [@Sendable () -> Void] = []
    private static let registry = Mutex()

    private static func lockAll() {
        registry.lock()
        for lock in locks { lock.lock() }
        SharedLocks.lockAll()
    }

    private static func enterChild() {
        for action in actions { action() }
        unlockAll()
    }

    private static func unlockAll() {
        SharedLocks.unlockAll()
        for lock in locks.reversed() { lock.unlock() }
        registry.unlock()
    }
}
