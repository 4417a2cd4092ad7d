/// Reads a value of the queue again after each change, for one iterator. Changes during a read and before the next one are joined.
final class SnapshotReader<Value: Sendable & Equatable>: Watcher, @unchecked Sendable {
    typealias Read = @Sendable (QueueReader) throws(QueueError) -> Value

    /// Between two reads, so that a queue that changes all the time is not read all the time.
    private static var pause: Duration { .milliseconds(20) }

    private let engine: Engine
    /// Reads wait for the engine's lock, which is held while the disk confirms a write.
    private let thread: OnDemandThread<@Sendable () -> Void>
    private let read: Read
    private let signal = ChangeSignal()
    private let lock = Mutex()
    /// What the close of the queue has read.
    private var last: Value?
    private var lastRead: ContinuousClock.Instant?

    init(_ engine: Engine, _ thread: OnDemandThread<@Sendable () -> Void>, _ read: @escaping Read) {
        (self.engine, self.thread, self.read) = (engine, thread, read)
    }

    /// Waits until the value differs from `shown`, and returns it; nil: the queue is closed, or the task is cancelled.
    func next(after shown: Value?) async throws(QueueError) -> Value? {
        try signal.watch(engine, by: self)
        while true {
            await signal.wait()
            await waitForPause()
            guard !Task.isCancelled else { return nil }
            guard signal.beginRead() else { return takeLast(after: shown) }
            do throws(QueueError) {
                let value = try await thread.run { [self] () throws(QueueError) in try readOnce() }
                if value != shown { return value }
            } catch  where error.code == .closed {
                // The close reads for the last time.
            }
        }
    }

    func changed() { signal.change() }

    func close(_ reader: QueueReader) {
        let value: Value?
        do throws(QueueError) { value = try read(reader) } catch { value = nil }
        lock.withLock { last = value }
        signal.close()
    }

    private func waitForPause() async {
        let before = lock.withLock { lastRead }
        let now = ContinuousClock.now
        if let before, !signal.isClosed, before + Self.pause > now { try? await Task.sleep(for: before + Self.pause - now) }
        lock.withLock { lastRead = ContinuousClock.now }
    }

    private func takeLast(after shown: Value?) -> Value? {
        lock.withLock {
            defer { last = nil }
            return last == shown ? nil : last
        }
    }

    private func readOnce() throws(QueueError) -> Value {
        let watches = engine.events.watches
        return try engine.reading { () throws(QueueError) in
            try watches.reading { () throws(QueueError) in try read(engine.reader) }
        }
    }
}
