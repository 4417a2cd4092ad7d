extension MessageQueue {
    /// The severity of a log line.
    public enum LogLevel: Int32, CaseIterable, Sendable {
        /// An error of the store or of this library.
        case error
        /// For example a discarded message or an ignored outcome.
        case warning
        /// For example the end of an error.
        case info
        /// Not used yet.
        case debug
    }
}

package typealias LogLevel = MessageQueue.LogLevel
