/// A draft whose body is in the caller's memory; only the store copies it.
package struct BorrowedDraft {
    package var id: String?
    package var conversation: Name
    package var body: UnsafeRawBufferPointer
    package var metadata: [(key: String, value: String)]
    package var notBefore: Int64
    package var expiresAt: Int64
    /// In place of `notBefore` and `expiresAt`: durations in milliseconds, from the enqueue and from the start; 0: none.
    package var delay: Int64 = 0
    package var expiry: Int64 = 0
    package var unmeteredOnly: Bool
    /// Replaces queued messages of this key in the conversation; nil or empty: none.
    package var replaceKey: String?
    package var priority: Int32
    /// When the message was composed, or sent by its sender; 0: now.
    package var time: Int64
    /// Who wrote a message that is recorded; nil: it is one's own, from another device.
    package var sender: String?

    package init(
        id: String?, conversation: Name, body: UnsafeRawBufferPointer, metadata: [(key: String, value: String)],
        notBefore: Int64, expiresAt: Int64, unmeteredOnly: Bool, replaceKey: String? = nil, priority: Int32 = 0,
        time: Int64 = 0
    ) {
        self.id = id
        self.conversation = conversation
        self.body = body
        self.metadata = metadata
        self.notBefore = notBefore
        self.expiresAt = expiresAt
        self.unmeteredOnly = unmeteredOnly
        self.replaceKey = replaceKey == "" ? nil : replaceKey
        self.priority = priority
        self.time = time
    }

    /// The draft of a message that is recorded, in which the fields about sending have no meaning.
    var asRecorded: BorrowedDraft {
        var draft = self
        (draft.notBefore, draft.expiresAt, draft.unmeteredOnly, draft.priority, draft.replaceKey) = (0, 0, false, 0, nil)
        (draft.delay, draft.expiry) = (0, 0)
        return draft
    }
}

extension [UInt8] {
    /// `withUnsafeBytes` with typed throws.
    package func withBytes<T>(_ body: (UnsafeRawBufferPointer) throws(QueueError) -> T) throws(QueueError) -> T {
        try withUnsafeBufferPointer { bytes throws(QueueError) in try body(UnsafeRawBufferPointer(bytes)) }
    }
}
