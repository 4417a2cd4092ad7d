import Glibc

/// A pthread mutex. (The thread sanitizer does not support the mutex of the standard library.)
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

    /// Initialises the mutex again, in a forked child, which has one thread.
    func reset() { pthread_mutex_init(handle, nil) }

    package func lock() { pthread_mutex_lock(handle) }
    package func unlock() { pthread_mutex_unlock(handle) }

    package func withLock<T, E: Error>(_ body: () throws(E) -> T) throws(E) -> T {
        lock()
        defer { unlock() }
        return try body()
    }
}

/// A condition variable. It uses CLOCK_MONOTONIC, the only supported clock that cannot be set.
package final class Condition: @unchecked Sendable {
    private let handle: UnsafeMutablePointer<pthread_cond_t>

    package init() {
        handle = .allocate(capacity: 1)
        reset()
    }

    /// Initialises the condition again, in a forked child: threads of the parent may have been waiting.
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

    /// Waits until it is signalled, or until `deadline` (milliseconds of `Ports.mono`; nil: no limit). Returns false at the deadline.
    @discardableResult
    package func wait(_ mutex: Mutex, until deadline: Int64?) -> Bool {
        guard let deadline, deadline < Int64.max / 2 else {
            wait(mutex)
            return true
        }
        let left = max(deadline.subtractingClamped(Ports.milliseconds(CLOCK_BOOTTIME)), 0)
        // One millisecond more, because both clocks are rounded down. A system suspend can delay the end of the wait; the caller reads the
        // clock again.
        let end = Ports.milliseconds(CLOCK_MONOTONIC).addingClamped(left > 0 ? left.addingClamped(1) : 0)
        guard end < Int64.max / 2 else {
            wait(mutex)
            return true
        }
        var time = timespec(tv_sec: Int(end / 1000), tv_nsec: Int(end % 1000) * 1_000_000)
        return pthread_cond_timedwait(handle, mutex.handle, &time) != ETIMEDOUT
    }

    /// Waits until it is signalled, or for this time. Returns false when the time has passed.
    func wait(_ mutex: Mutex, nanoseconds: UInt64) -> Bool {
        let (sum, overflow) = Ports.nanoseconds().addingReportingOverflow(nanoseconds)
        let deadline = overflow ? UInt64.max : sum
        var time = timespec(tv_sec: Int(deadline / 1_000_000_000), tv_nsec: Int(deadline % 1_000_000_000))
        return pthread_cond_timedwait(handle, mutex.handle, &time) != ETIMEDOUT
    }
}

/// A semaphore with the initial value zero. It may be destroyed as soon as the last `wait` has returned.
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
        // A signal handler may interrupt the call.
        while sem_wait(handle) != 0, errno == EINTR {}
    }
}
