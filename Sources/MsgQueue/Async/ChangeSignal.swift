/// Joins the changes of a queue for one iterator, whose tasks wait until something has changed since the last read began.
final class ChangeSignal: @unchecked Sendable {
    private let lock = Mutex()
    private var isWatching = false
    private var hasChanged = true
    private var hasClosed = false
    private var waiters: [CheckedContinuation<Void, Never>] = []

    /// The queue is closed.
    var isClosed: Bool { lock.withLock { hasClosed } }

    /// Registers the watcher, which reports to this signal, with the first call.
    func watch(_ engine: Engine, by watcher: Watcher) throws(QueueError) {
        let isFirst = lock.withLock {
            defer { isWatching = true }
            return !isWatching
        }
        guard isFirst else { return }
        do throws(QueueError) { try engine.events.watches.add(watcher, engine.context) } catch {
            close()
            guard error.code == .closed else { throw error }
        }
    }

    func change() { wake { hasChanged = true } }

    func close() { wake { hasClosed = true } }

    /// Waits for a change, for the close, or until the task is cancelled.
    func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { waiter in
                let isReady = lock.withLock {
                    if hasChanged || hasClosed || Task.isCancelled { return true }
                    waiters.append(waiter)
                    return false
                }
                if isReady { waiter.resume() }
            }
        } onCancel: {
            wake {}
        }
    }

    /// Joins the changes until now: a read follows. Returns false if the queue is closed.
    func beginRead() -> Bool {
        lock.withLock {
            hasChanged = false
            return !hasClosed
        }
    }

    private func wake(_ change: () -> Void) {
        let waiting = lock.withLock {
            change()
            defer { waiters = [] }
            return waiters
        }
        for waiter in waiting { waiter.resume() }
    }
}
