/// Somebody who waits for a drain. Under the engine's lock.
final class DrainWaiter: @unchecked Sendable {
    /// Monotonic; nil: waits without end.
    let deadline: Int64?
    /// What it asked for: the messages of one conversation, or (nil) all.
    let conversation: Name?
    /// The drain that it waits for.
    var drain = 0
    /// Called once, where events are told.
    let done: @Sendable (Result<Report, QueueError>) -> Void
    /// What came of the drain, once that is known; `done` is told it after the events of it.
    var report: Report?

    init(deadline: Int64?, conversation: Name?, done: @escaping @Sendable (Result<Report, QueueError>) -> Void) {
        (self.deadline, self.conversation, self.done) = (deadline, conversation, done)
    }
}
