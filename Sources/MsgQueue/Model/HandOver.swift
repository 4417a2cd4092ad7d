/// What another durable place (a source) has handed over to the queue, until that place has deleted it.
package struct HandOver: Sendable {
    package let source: String
    /// Identifies the look at the source's hand-over. Only the latest one may take over, and end the hand-over.
    package let token: UInt64
    package let entries: [Entry]

    /// One draft.
    package struct Entry: Sendable, Equatable {
        /// The draft's id. One that is not valid is on one line and at most 255 bytes long.
        package let id: String
        /// The size of its body in bytes.
        package let bodySize: Int64
        /// When it was handed over, milliseconds since 1970.
        package let at: Int64
        /// Why the queue does not have it; nil: it has, or had.
        package let refusal: QueueError?
    }

    package init(source: String, token: UInt64, entries: [Entry]) {
        (self.source, self.token, self.entries) = (source, token, entries)
    }
}

/// A draft of a hand-over.
package struct HandedDraft {
    package var draft: BorrowedDraft
    /// Why it could not be read as it was given; nil: it could.
    package var refusal: QueueError?
    /// The message that `draft` describes is the whole one. Otherwise it is not kept.
    package var isWhole = true

    package init(_ draft: BorrowedDraft, refusal: QueueError? = nil, isWhole: Bool = true) {
        (self.draft, self.refusal, self.isWhole) = (draft, refusal, isWhole)
    }
}
