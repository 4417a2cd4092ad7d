extension MessageQueue {
    /// Who starts sending a backlog, with the numbers of `msgq_mode`.
    public enum Mode: Int32, Sendable, CaseIterable {
        /// The engine.
        case auto = 0
        /// The person, after a prompt: `drain` is the answer yes.
        case ask
        /// The person, by `drain`, `sendNow`, `retry` and `retryAll`.
        case manual
    }
}

package typealias Mode = MessageQueue.Mode
