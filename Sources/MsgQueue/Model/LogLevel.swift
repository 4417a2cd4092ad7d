extension MessageQueue {
    /// The severity of a log line.
    public enum LogLevel: Int32, CaseIterable, Sendable {
        /// An error of the store or of this library.
        case error
        /// For example a discarded message or an ignored outcome.
        case warning
        /// For example the end of an error.
        case info
        /// Each step of a message and of the queue: enqueued, an attempt begins, it ends and why, prompts, connectivity, drains. Such lines are
        /// made only after ``MessageQueue/setLogLevel(_:)``, or with the environment variable MSGQUEUE_LOG=debug.
        case debug
    }
}

package typealias LogLevel = MessageQueue.LogLevel
