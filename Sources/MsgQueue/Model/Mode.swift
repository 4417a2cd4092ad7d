extension MessageQueue {
    /// Who starts sending a backlog, with the numbers of `msgq_mode`.
    public enum Mode: Int32, Sendable, CaseIterable {
        /// The engine, by itself.
        case auto = 0
        /// The person, after a prompt: `drain` is the yes.
        case ask
        /// The person alone, by `drain`, `sendNow`, `retry` and `retryAll`.
        case manual
    }
}

package typealias Mode = MessageQueue.Mode
