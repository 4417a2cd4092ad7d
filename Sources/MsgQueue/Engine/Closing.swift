/// How a queue was closed.
package enum Closing: Equatable, Sendable {
    case quiet
    /// An attempt had not ended in time; it is closed all the same.
    case timedOut
    /// So many outcomes were not written; it is closed all the same.
    case unsaved(Int)

    /// What a caller is told of it.
    package var error: QueueError? {
        switch self {
        case .quiet: nil
        case .timedOut: QueueError(.timeout, "closed, but an attempt or a callback had not ended")
        case .unsaved(let count):
            QueueError(
                .storage,
                "closed, but the store took no more writes: the outcomes of \(count) attempts are not saved. After the next open they may "
                    + "be unknown, and their messages may be sent again")
        }
    }
}
