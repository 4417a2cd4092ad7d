/// Reads the changes after a token page by page, for one iterator, and waits for new ones.
final class ChangeFollower: Watcher, @unchecked Sendable {
    private static let pageSize = 256

    private let engine: Engine
    /// Reads may flush, and wait for the engine's lock.
    private let thread: OnDemandThread<@Sendable () -> Void>
    private let lock = Mutex()
    private var isWatching = false
    /// Something has changed since the last read began.
    private var hasChanged = true
    private var isClosed = false
    /// The tasks that wait for a change.
    private var waiters: [CheckedContinuation<Void, Never>] = []

    init(_ engine: Engine, _ thread: OnDemandThread<@Sendable () -> Void>) { (self.engine, self.thread) = (engine, thread) }

    /// Waits until there are changes after the token, and returns them; nil: the queue is closed, or the task is cancelled.
    func next(after token: ChangeToken?) async throws(QueueError) -> ChangePage? {
        do throws(QueueError) {
            try watch()
            while true {
                await waitForChange()
                let isAtEnd = lock.withLock {
                    hasChanged = false
                    return isClosed
                }
                guard !isAtEnd, !Task.isCancelled else { return nil }
                let page = try await readOnThread(token)
                guard page.changes.isEmpty else {
                    // There may be more.
                    lock.withLock { hasChanged = true }
                    return page
                }
                // Nothing changes a store that is only read.
                guard !engine.context.options.readOnly else { return nil }
            }
        } catch {
            guard error.code == .closed else { throw error }
            return nil
        }
    }

    private func watch() throws(QueueError) {
        let isFirst = lock.withLock {
            defer { isWatching = true }
            return !isWatching
        }
        if isFirst { try engine.events.watches.add(self, engine.context) }
    }

    func changed() { wake { hasChanged = true } }

    func close(_: QueueReader) { wake { isClosed = true } }

    private func wake(_ change: () -> Void) {
        let waiting = lock.withLock {
            change()
            defer { waiters = [] }
            return waiters
        }
        for waiter in waiting { waiter.resume() }
    }

    private func waitForChange() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { waiter in
                let isReady = lock.withLock {
                    if hasChanged || isClosed || Task.isCancelled { return true }
                    waiters.append(waiter)
                    return false
                }
                if isReady { waiter.resume() }
            }
        } onCancel: {
            wake {}
        }
    }

    private func readOnThread(_ token: ChangeToken?) async throws(QueueError) -> ChangePage {
        let result: Result<ChangePage, QueueError> = await withCheckedContinuation { continuation in
            let hasThread = thread.add { [engine] in
                do throws(QueueError) {
                    continuation.resume(returning: .success(try engine.changes(after: token, limit: Self.pageSize)))
                } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
            if !hasThread { continuation.resume(returning: .failure(QueueError(.storage, "failed to create a thread"))) }
        }
        return try result.get()
    }
}
