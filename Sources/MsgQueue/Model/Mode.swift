extension MessageQueue {
    /// Whether the engine or a person starts sending what is queued, with the numbers of `msgq_mode`.
    public enum Mode: Int32, Sendable, CaseIterable {
        /// The engine starts automatically.
        case auto = 0
        /// The user, after a prompt, which `drain` confirms.
        case ask
        /// The user, by `drain`, `sendNow`, `retry` and `retryAll`.
        case manual
    }
}

package typealias Mode = MessageQueue.Mode
