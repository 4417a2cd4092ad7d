import Glibc

final class Lock: @unchecked Sendable {
    fileprivate let handle = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

    init() { pthread_mutex_init(handle, nil) }

    deinit {
        pthread_mutex_destroy(handle)
        handle.deallocate()
    }

    func whileHeld<Value>(_ body: () throws -> Value) rethrows -> Value {
        pthread_mutex_lock(handle)
        defer { pthread_mutex_unlock(handle) }
        return try body()
    }
}

/// Group commit as a simple peer would implement it: the first thread to arrive writes for all waiting ones.
final class Round: @unchecked Sendable {
    private let lock = Lock()
    private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var waiting: [[UInt8]] = []
    private var opened = 0
    private var finished = 0
    private var isWriting = false
    private var failure: (any Error)?

    init() { pthread_cond_init(changed, nil) }

    deinit {
        pthread_cond_destroy(changed)
        changed.deallocate()
    }

    /// Returns when a round that contains the body was written.
    func join(_ body: [UInt8], _ write: ([[UInt8]]) throws -> Void) throws {
        try lock.whileHeld {
            waiting.append(body)
            let mine = opened
            while finished <= mine {
                if isWriting {
                    pthread_cond_wait(changed, lock.handle)
                } else {
                    writeRound(write)
                }
            }
            if let failure { throw failure }
        }
    }

    private func writeRound(_ write: ([[UInt8]]) throws -> Void) {
        let bodies = waiting
        waiting = []
        opened += 1
        isWriting = true
        pthread_mutex_unlock(lock.handle)
        var failed: (any Error)?
        do { try write(bodies) } catch { failed = error }
        pthread_mutex_lock(lock.handle)
        failure = failure ?? failed
        isWriting = false
        finished += 1
        pthread_cond_broadcast(changed)
    }
}
