/// The result of a close.
package enum CloseResult: Equatable, Sendable {
    case complete
    /// An attempt or a callback had not ended in time; the queue is closed all the same.
    case timedOut
    /// This many outcomes were not written; the queue is closed all the same.
    case unsaved(Int)
    /// What was accepted may be lost, because a file of the store was removed, replaced or modified; the queue is closed all the same.
    case lost(QueueError)

    /// The error that the caller receives; nil: none.
    package var error: QueueError? {
        switch self {
        case .complete: nil
        case .timedOut: QueueError(.timeout, "closed before every attempt and callback had ended")
        case .lost(let error): QueueError(.unknown, "closed, but \(error.detail): accepted messages may be lost")
        case .unsaved(let count):
            QueueError(
                .storage,
                "closed, but the store rejected further writes: the outcomes of \(count) attempts are not saved. After the next open they "
                    + "may be unknown, and their messages may be sent again")
        }
    }
}
