import Glibc

/// A pthread mutex. (The thread sanitizer cannot see the standard library's.)
package final class Mutex: @unchecked Sendable {
    fileprivate let handle: UnsafeMutablePointer<pthread_mutex_t>

    package init() {
        handle = .allocate(capacity: 1)
        handle.initialize(to: pthread_mutex_t())
        pthread_mutex_init(handle, nil)
    }

    deinit {
        pthread_mutex_destroy(handle)
        handle.deallocate()
    }

    /// In a forked child, where nobody else is left: as if it were new.
    func reset() { pthread_mutex_init(handle, nil) }

    package func lock() { pthread_mutex_lock(handle) }
    package func unlock() { pthread_mutex_unlock(handle) }

    package func withLock<T, E: Error>(_ body: () throws(E) -> T) throws(E) -> T {
        lock()
        defer { unlock() }
        return try body()
    }
}

/// A condition variable. It waits by CLOCK_MONOTONIC, the only clock for it that nobody sets.
package final class Condition: @unchecked Sendable {
    private let handle: UnsafeMutablePointer<pthread_cond_t>

    package init() {
        handle = .allocate(capacity: 1)
        reset()
    }

    /// As if it were new: in a forked child, whose parent's threads may have been waiting.
    func reset() {
        handle.initialize(to: pthread_cond_t())
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(handle, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        pthread_cond_destroy(handle)
        handle.deallocate()
    }

    package func signal() { pthread_cond_signal(handle) }
    package func broadcast() { pthread_cond_broadcast(handle) }

    package func wait(_ mutex: Mutex) { pthread_cond_wait(handle, mutex.handle) }

    /// Waits at most until `deadline` (by `Ports.mono`, milliseconds; nil: without end). False when it has passed.
    @discardableResult
    package func wait(_ mutex: Mutex, until deadline: Int64?) -> Bool {
        guard let deadline, deadline < Int64.max / 2 else {
            wait(mutex)
            return true
        }
        let left = max(deadline.subtractingClamped(Ports.milliseconds(CLOCK_BOOTTIME)), 0)
        // One more, because what is below a millisecond is cut off on both clocks. And what a sleep of the machine adds is found by whoever
        // looks at the clock afterwards.
        let end = Ports.milliseconds(CLOCK_MONOTONIC).addingClamped(left > 0 ? left.addingClamped(1) : 0)
        guard end < Int64.max / 2 else {
            wait(mutex)
            return true
        }
        var time = timespec(tv_sec: Int(end / 1000), tv_nsec: Int(end % 1000) * 1_000_000)
        return pthread_cond_timedwait(handle, mutex.handle, &time) != ETIMEDOUT
    }

    /// Waits so many nanoseconds at most. False when they have passed.
    func wait(_ mutex: Mutex, nanoseconds: UInt64) -> Bool {
        let (sum, overflow) = Ports.nanoseconds().addingReportingOverflow(nanoseconds)
        let deadline = overflow ? UInt64.max : sum
        var time = timespec(tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
        return pthread_cond_timedwait(handle, mutex.handle, &time) != ETIMEDOUT
    }
}

/// A semaphore that begins at zero. It may be let go as soon as the last `wait` has returned.
final class Semaphore: @unchecked Sendable {
    private let handle: UnsafeMutablePointer<sem_t>

    init() {
        handle = .allocate(capacity: 1)
        handle.initialize(to: sem_t())
        sem_init(handle, 0, 0)
    }

    deinit {
        sem_destroy(handle)
        handle.deallocate()
    }

    func post() { sem_post(handle) }

    /// Waits for a `post`.
    func wait() {
        // A signal handler may interrupt it.
        while sem_wait(handle) != 0, errno == EINTR {}
    }
}
