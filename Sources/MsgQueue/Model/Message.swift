/// A message as it stands in the store.
public struct Message: Sendable {
    public let id: String
    public let conversation: String
    /// Of a recorded message; nil: our own.
    public let sender: String?
    /// nil when the page was asked for without bodies.
    public let body: [UInt8]?
    public let bodySize: Int
    /// The first 100 characters of the body as text.
    public let preview: String
    /// In the order in which they were given.
    package let pairs: [(key: String, value: String)]
    public internal(set) var status: MessageStatus
    /// The place in the order; grows with every enqueue, never reused.
    public let sequence: Int64
    /// All times are milliseconds since 1970; 0: none.
    public let createdAt: Int64
    public let editedAt: Int64
    public let notBefore: Int64
    public let expiresAt: Int64
    /// After a retryable failure: not before this.
    public let nextAttemptAt: Int64
    public internal(set) var lastAttemptAt: Int64
    public let sentAt: Int64
    /// When the receipt came, never before `sentAt`; 0: none came before the message was read. Of a recorded message: when it was recorded.
    public let deliveredAt: Int64
    /// When the receipt came, never before `sentAt` or `deliveredAt`. Of a recorded message: when it was marked as read.
    public let readAt: Int64
    /// Attempts that left, the one under way included.
    public internal(set) var attempts: UInt32
    /// Retries that count against the options' `maxRetries`; a retry by hand begins anew.
    public let retriesUsed: UInt32
    public let unmeteredOnly: Bool
    /// Of the last attempt, when that failed.
    public let failure: Failure?

    public var metadata: [String: String] { Dictionary(pairs, uniquingKeysWith: { _, last in last }) }

    /// The body as text; bytes that are not UTF-8 show as replacement characters.
    public var text: String { String(decoding: body ?? [], as: UTF8.self) }
}

/// One message on its way, as the transport sees it.
public struct Delivery: Sendable {
    /// The idempotency key: the same on every attempt.
    public let id: String
    public let conversation: String
    public let body: [UInt8]
    /// In the order in which they were given.
    package let pairs: [(key: String, value: String)]
    /// From 1.
    public let attempt: UInt32
    /// For `complete`.
    public let token: UInt64
    public let createdAt: Int64
    /// Milliseconds: answer within this, or it counts as a time-out.
    public let timeout: Int64

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

    public var metadata: [String: String] { Dictionary(pairs, uniquingKeysWith: { _, last in last }) }

    /// The body as text; bytes that are not UTF-8 show as replacement characters.
    public var text: String { String(decoding: body, as: UTF8.self) }
}
