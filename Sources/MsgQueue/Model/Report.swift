/// What a drain did.
public struct Report: Sendable, Equatable {
    /// Why it stopped, with the numbers of `msgq_stop`.
    public enum Stop: Int32, Sendable {
        /// Nothing is queued any more.
        case empty = 0
        /// What is queued is not due yet.
        case waiting
        case offline
        case batch
        case timeout
        case storage
        case closed
        /// It goes on: it was called from inside a callback, or the task that waited was cancelled.
        case started
        /// Paused, by the host (the queue, or every conversation with queued messages) or because the receiver did not know who it was.
        case paused
    }

    public var stop: Stop
    public var sent: Int64
    /// Became `failed`.
    public var failed: Int64
    public var discarded: Int64
    /// Queued or being sent when it ended.
    public var remaining: Int64
    /// `failed` when it ended: the drain leaves them alone, `retryAll` sends them again.
    public var remainingFailed: Int64

    public init(
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
