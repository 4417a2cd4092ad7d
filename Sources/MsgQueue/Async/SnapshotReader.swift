/// Reads a value of the queue again after each change, for one iterator. Changes during a read and before the next one are joined.
final class SnapshotReader<Value: Sendable & Equatable>: Watcher, @unchecked Sendable {
    typealias Read = @Sendable (QueueReader) throws(QueueError) -> Value

    /// Between two reads, so that a queue that changes all the time is not read all the time.
    private static var pause: Duration { .milliseconds(20) }

    private let engine: Engine
    /// Reads wait for the engine's lock, which is held while the disk confirms a write.
    private let thread: OnDemandThread<@Sendable () -> Void>
    private let read: Read
    private let lock = Mutex()
    private var isWatching = false
    /// Something has changed since the last read began.
    private var hasChanged = true
    private var isClosed = false
    /// What the close of the queue has read.
    private var last: Value?
    /// The tasks that wait for a change.
    private var waiters: [CheckedContinuation<Void, Never>] = []
    private var lastRead: ContinuousClock.Instant?

    init(_ engine: Engine, _ thread: OnDemandThread<@Sendable () -> Void>, _ read: @escaping Read) {
        (self.engine, self.thread, self.read) = (engine, thread, read)
    }

    /// Waits until the value differs from `shown`, and returns it; nil: the queue is closed, or the task is cancelled.
    func next(after shown: Value?) async throws(QueueError) -> Value? {
        guard try watch() else { return nil }
        while true {
            await waitForChange()
            await waitForPause()
            guard !Task.isCancelled else { return nil }
            let isAtEnd = lock.withLock {
                hasChanged = false
                return isClosed
            }
            if isAtEnd { return takeLast(after: shown) }
            do throws(QueueError) {
                let value = try await readOnThread()
                if value != shown { return value }
            } catch  where error.code == .closed {
                // The close reads for the last time.
            }
        }
    }

    // MARK: Watching

    /// Returns false if the queue was closed before the first call.
    private func watch() throws(QueueError) -> Bool {
        let isFirst = lock.withLock {
            defer { isWatching = true }
            return !isWatching
        }
        guard isFirst else { return true }
        do throws(QueueError) { try engine.events.watches.add(self, engine.context) } catch {
            lock.withLock { isClosed = true }
            guard error.code == .closed else { throw error }
            return false
        }
        return true
    }

    func changed() { wake { hasChanged = true } }

    func close(_ reader: QueueReader) {
        let value: Value?
        do throws(QueueError) { value = try read(reader) } catch { value = nil }
        wake { (isClosed, last) = (true, value) }
    }

    private func wake(_ change: () -> Void) {
        let waiting = lock.withLock {
            change()
            defer { waiters = [] }
            return waiters
        }
        for waiter in waiting { waiter.resume() }
    }

    // MARK: Waiting and reading

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

    private func waitForPause() async {
        let (before, hasEnded) = lock.withLock { (lastRead, isClosed) }
        let now = ContinuousClock.now
        if let before, !hasEnded, before + Self.pause > now { try? await Task.sleep(for: before + Self.pause - now) }
        lock.withLock { lastRead = ContinuousClock.now }
    }

    private func takeLast(after shown: Value?) -> Value? {
        lock.withLock {
            defer { last = nil }
            return last == shown ? nil : last
        }
    }

    private func readOnThread() async throws(QueueError) -> Value {
        let result: Result<Value, QueueError> = await withCheckedContinuation { continuation in
            let hasThread = thread.add { [self] in
                do throws(QueueError) { continuation.resume(returning: .success(try readOnce())) } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
            if !hasThread { continuation.resume(returning: .failure(QueueError(.storage, "failed to create a thread"))) }
        }
        return try result.get()
    }

    private func readOnce() throws(QueueError) -> Value {
        let watches = engine.events.watches
        return try engine.reading { () throws(QueueError) in
            try watches.reading { () throws(QueueError) in try read(engine.reader) }
        }
    }
}
