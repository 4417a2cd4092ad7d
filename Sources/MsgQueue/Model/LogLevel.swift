extension MessageQueue {
    /// How much a log line matters.
    public enum LogLevel: Int32, CaseIterable, Sendable {
        /// Something is wrong with the store, or with this library.
        case error
        /// Something a person may want to act on: a message was discarded, an outcome was ignored.
        case warning
        /// An error is over.
        case info
        /// Not used yet.
        case debug
    }
}

package typealias LogLevel = MessageQueue.LogLevel
