/// A message as it stands in the store.
package struct Message: Sendable {
    package let id: String
    package let conversation: String
    /// Of a recorded message; nil: our own.
    package let sender: String?
    /// nil when the page was asked for without bodies.
    package let body: [UInt8]?
    package let bodySize: Int
    /// The first 100 characters of the body as text.
    package let preview: String
    /// In the order in which they were given.
    package let pairs: [(key: String, value: String)]
    package internal(set) var status: MessageStatus
    /// The place in the order; grows with every enqueue, never reused.
    package let sequence: Int64
    /// All times are milliseconds since 1970; 0: none.
    package let createdAt: Int64
    package let editedAt: Int64
    package let notBefore: Int64
    package let expiresAt: Int64
    /// After a retryable failure: not before this.
    package let nextAttemptAt: Int64
    package internal(set) var lastAttemptAt: Int64
    package let sentAt: Int64
    /// When the receipt came, never before `sentAt`; 0: none came before the message was read. Of a recorded message: when it was recorded.
    package let deliveredAt: Int64
    /// When the receipt came, never before `sentAt` or `deliveredAt`. Of a recorded message: when it was marked as read.
    package let readAt: Int64
    /// Attempts that left, the one under way included.
    package internal(set) var attempts: UInt32
    /// Retries that count against the options' `maxRetries`; a retry by hand begins anew.
    package let retriesUsed: UInt32
    package let unmeteredOnly: Bool
    /// Of the last attempt, when that failed.
    package let failure: Failure?

    package var metadata: [String: String] { Dictionary(pairs, uniquingKeysWith: { _, last in last }) }

    /// The body as text; bytes that are not UTF-8 show as replacement characters.
    package var text: String { String(decoding: body ?? [], as: UTF8.self) }
}

/// One message on its way, as the transport sees it.
package struct Delivery: Sendable {
    /// The idempotency key: the same on every attempt.
    package let id: String
    package let conversation: String
    package let body: [UInt8]
    /// In the order in which they were given.
    package let pairs: [(key: String, value: String)]
    /// From 1.
    package let attempt: UInt32
    /// For `complete`.
    package let token: UInt64
    package let createdAt: Int64
    /// Milliseconds: answer within this, or it counts as a time-out.
    package let timeout: Int64

    package init(
        id: String, conversation: String, body: [UInt8], pairs: [(key: String, value: String)], attempt: UInt32, token: UInt64,
        createdAt: Int64, timeout: Int64
    ) {
        self.id = id
        self.conversation = conversation
        self.body = body
        self.pairs = pairs
        self.attempt = attempt
        self.token = token
        self.createdAt = createdAt
        self.timeout = timeout
    }

    package var metadata: [String: String] { Dictionary(pairs, uniquingKeysWith: { _, last in last }) }

    /// The body as text; bytes that are not UTF-8 show as replacement characters.
    package var text: String { String(decoding: body, as: UTF8.self) }
}
