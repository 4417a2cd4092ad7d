/// A caller that waits for a drain. Under the engine's lock.
package final class DrainWaiter: @unchecked Sendable {
    /// Monotonic; nil: none.
    let deadline: Int64?
    /// The conversation to drain; nil: all.
    let conversation: Name?
    /// The number of the drain.
    var drain = 0
    /// Called once, on the thread that delivers events.
    let done: @Sendable (Result<Report, QueueError>) -> Void
    /// The report, once the drain has ended; `done` is called after the drain's events.
    var report: Report?

    init(deadline: Int64?, conversation: Name?, done: @escaping @Sendable (Result<Report, QueueError>) -> Void) {
        (self.deadline, self.conversation, self.done) = (deadline, conversation, done)
    }
}
