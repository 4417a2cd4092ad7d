/// A call that waits for the outcome of a message. Under the engine's lock.
package final class Waiter: @unchecked Sendable {
    /// What the call returns.
    package struct Ending: Sendable {
        package var message: Message
        /// The time ran out first.
        package var isTimeout = false
    }

    let id: String
    /// Monotonic; nil: none.
    let deadline: Int64?
    /// Called once, after the events before the end were delivered; nil: a thread waits for the condition.
    let done: (@Sendable (Result<Ending, QueueError>) -> Void)?
    let condition: Condition?
    var ending: Result<Ending, QueueError>?

    init(_ id: String, deadline: Int64?, done: (@Sendable (Result<Ending, QueueError>) -> Void)? = nil) {
        (self.id, self.deadline, self.done) = (id, deadline, done)
        condition = done == nil ? Condition() : nil
    }
}
