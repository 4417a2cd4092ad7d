/// Reads the changes after a token page by page, for one iterator, and waits for new ones.
final class ChangeFollower: Watcher {
    private static let pageSize = 256

    private let engine: Engine
    /// Reads may flush, and wait for the engine's lock.
    private let thread: OnDemandThread<@Sendable () -> Void>
    private let signal = ChangeSignal()

    init(_ engine: Engine, _ thread: OnDemandThread<@Sendable () -> Void>) { (self.engine, self.thread) = (engine, thread) }

    /// Waits until there are changes after the token, and returns them; nil: the queue is closed, or the task is cancelled.
    func next(after token: ChangeToken?) async throws(QueueError) -> ChangePage? {
        try signal.watch(engine, by: self)
        do throws(QueueError) {
            while true {
                await signal.wait()
                guard signal.beginRead(), !Task.isCancelled else { return nil }
                let page = try await thread.run { [engine] () throws(QueueError) in try engine.changes(after: token, limit: Self.pageSize) }
                guard page.changes.isEmpty else {
                    // There may be more.
                    signal.change()
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

    func changed() { signal.change() }

    func close(_: QueueReader) { signal.close() }
}
