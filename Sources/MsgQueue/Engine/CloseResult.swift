/// The result of a close.
package enum CloseResult: Equatable, Sendable {
    case complete
    /// An attempt or a callback had not ended in time; the queue is closed all the same.
    case timedOut
    /// This many outcomes were not written; the queue is closed all the same.
    case unsaved(Int)

    /// The error that the caller receives; nil: none.
    package var error: QueueError? {
        switch self {
        case .complete: nil
        case .timedOut: QueueError(.timeout, "closed before every attempt and callback had ended")
        case .unsaved(let count):
            QueueError(
                .storage,
                "closed, but the store rejected further writes: the outcomes of \(count) attempts are not saved. After the next open they "
                    + "may be unknown, and their messages may be sent again")
        }
    }
}
