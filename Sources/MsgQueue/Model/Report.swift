/// The results of a drain.
package struct Report: Sendable, Equatable {
    package typealias Stop = MessageQueue.Report.Stop

    package var stop = Stop.empty
    package var sent: Int64 = 0
    /// Messages that became `failed`.
    package var failed: Int64 = 0
    package var discarded: Int64 = 0
    /// Messages that were queued or being sent when the drain ended.
    package var remaining: Int64 = 0
    /// Messages that were `failed` when the drain ended: it sends none of them, unless it includes those that were `failed` when it began.
    package var remainingFailed: Int64 = 0
    /// Messages that were `failed` and that the drain put back to `queued`.
    package var putBack: Int64 = 0
}

extension MessageQueue.Report {
    /// Why a drain stopped, with the numbers of `msgq_stop`.
    public enum Stop: Int32, Sendable, CaseIterable {
        /// No message is queued any more.
        case empty = 0
        /// No queued message is due.
        case waiting
        /// There is no connection, or the transport said so.
        case offline
        /// The batch is used up.
        case batch
        /// Its time ran out.
        case timeout
        /// The store rejects writes, or no thread can be created.
        case storage
        /// The queue is being closed.
        case closed
        /// The drain continues: a callback called it, or the waiting task was cancelled.
        case started
        /// Paused, by the host (the queue, or every conversation with queued messages) or because the receiver refused the credentials.
        case paused
    }
}
