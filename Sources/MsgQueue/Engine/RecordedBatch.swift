/// The messages that one call recorded, and what became of each of its drafts.
package struct RecordedBatch {
    /// What became of a draft.
    enum Result: UInt8 {
        case stored
        /// A recorded message of this id is there. It is left as it is.
        case isThere
        /// The id is that of a message to send.
        case isToSend
        /// The id is remembered: of a recorded message, or of one's own.
        case wasReceived, wasOwn

        /// nil: the message is in the store.
        var duplicate: String? {
            switch self {
            case .stored, .isThere: nil
            case .isToSend: "the id belongs to a message that this queue sends"
            case .wasReceived: "the id belonged to a recorded message and is still remembered"
            case .wasOwn: "the id belonged to a message that was sent or replaced, and is still remembered"
            }
        }
    }

    let results: [Result]

    /// The error of each draft whose id is not free, in order; nil: the message is in the store, stored now or before.
    package var errors: some Sequence<QueueError?> {
        results.lazy.map { result in result.duplicate.map { QueueError(.duplicate, $0) } }
    }
}
