/// What a drain did.
package struct Report: Sendable, Equatable {
    package typealias Stop = MessageQueue.Report.Stop

    package var stop: Stop
    package var sent: Int64
    /// Became `failed`.
    package var failed: Int64
    package var discarded: Int64
    /// Queued or being sent when it ended.
    package var remaining: Int64
    /// `failed` when it ended: the drain leaves them alone, `retryAll` sends them again.
    package var remainingFailed: Int64

    package init(
        stop: Stop = .empty, sent: Int64 = 0, failed: Int64 = 0, discarded: Int64 = 0, remaining: Int64 = 0, remainingFailed: Int64 = 0
    ) {
        self.stop = stop
        self.sent = sent
        self.failed = failed
        self.discarded = discarded
        self.remaining = remaining
        self.remainingFailed = remainingFailed
    }
}

extension MessageQueue.Report {
    /// Why it stopped, with the numbers of `msgq_stop`.
    public enum Stop: Int32, Sendable {
        /// Nothing is queued any more.
        case empty = 0
        /// What is queued is not due.
        case waiting
        case offline
        case batch
        case timeout
        case storage
        case closed
        /// It goes on: a callback called it, or the waiting task was cancelled.
        case started
        /// Paused, by the host (the queue, or every conversation with queued messages) or because the receiver refused the credentials.
        case paused
    }
}
