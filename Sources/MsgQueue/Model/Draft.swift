/// A message as a program hands it in.
package struct Draft: Sendable, Equatable {
    /// The idempotency key, the same on every attempt; nil: a new UUIDv7. 1 to 255 bytes without control characters.
    package var id: String?
    /// What the order is kept in; at most 255 bytes without control characters.
    package var conversation: String
    package var body: [UInt8]
    package var metadata: [String: String]
    /// Milliseconds since 1970; 0: at once.
    package var notBefore: Int64
    /// Milliseconds since 1970; 0: never. Past it the message fails with kind expired.
    package var expiresAt: Int64
    /// Only while the link is not metered.
    package var unmeteredOnly: Bool

    package init(
        _ body: [UInt8], conversation: String = "", metadata: [String: String] = [:], id: String? = nil,
        notBefore: Int64 = 0, expiresAt: Int64 = 0, unmeteredOnly: Bool = false
    ) {
        self.id = id
        self.conversation = conversation
        self.body = body
        self.metadata = metadata
        self.notBefore = notBefore
        self.expiresAt = expiresAt
        self.unmeteredOnly = unmeteredOnly
    }

    package init(
        _ text: String, conversation: String = "", metadata: [String: String] = [:], id: String? = nil,
        notBefore: Int64 = 0, expiresAt: Int64 = 0, unmeteredOnly: Bool = false
    ) {
        self.init(
            Array(text.utf8), conversation: conversation, metadata: metadata, id: id,
            notBefore: notBefore, expiresAt: expiresAt, unmeteredOnly: unmeteredOnly)
    }
}

/// A draft whose body still lies in the caller's memory: copied once, by the store.
package struct BorrowedDraft {
    package var id: String?
    package var conversation: Name
    package var body: UnsafeRawBufferPointer
    package var metadata: [(key: String, value: String)]
    package var notBefore: Int64
    package var expiresAt: Int64
    package var unmeteredOnly: Bool

    package init(
        id: String?, conversation: Name, body: UnsafeRawBufferPointer, metadata: [(key: String, value: String)],
        notBefore: Int64, expiresAt: Int64, unmeteredOnly: Bool
    ) {
        self.id = id
        self.conversation = conversation
        self.body = body
        self.metadata = metadata
        self.notBefore = notBefore
        self.expiresAt = expiresAt
        self.unmeteredOnly = unmeteredOnly
    }
}
