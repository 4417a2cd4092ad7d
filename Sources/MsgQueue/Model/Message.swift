/// A message as it is stored.
package struct Message: Sendable {
    package let id: String
    package let conversation: String
    /// The sender of a received message; nil: it was enqueued here, or is one's own that was recorded.
    package let sender: String?
    /// nil if the page was requested without bodies.
    package let body: [UInt8]?
    package let bodySize: Int
    /// The first 100 characters of the body as text.
    package let preview: String
    /// The metadata in its original order.
    package let pairs: [(key: String, value: String)]
    package internal(set) var status: MessageStatus
    /// The place in the order. It grows with every enqueue and is never reused.
    package let sequence: Int64
    /// All times are milliseconds since 1970; 0: none.
    package let createdAt: Int64
    /// When the message was composed, or sent by its sender.
    package let time: Int64
    package let editedAt: Int64
    package let notBefore: Int64
    package let expiresAt: Int64
    /// When the next attempt is due after a retryable failure.
    package let nextAttemptAt: Int64
    package internal(set) var lastAttemptAt: Int64
    package let sentAt: Int64
    /// When the receipt arrived, never before `sentAt`; 0: none arrived before the message was read. Of a recorded message: when it was
    /// recorded.
    package let deliveredAt: Int64
    /// When the receipt arrived, never before `sentAt` or `deliveredAt`. Of a recorded message: when it was marked as read.
    package let readAt: Int64
    /// Attempts, including the one in flight, without those that ended as offline.
    package internal(set) var attempts: UInt32
    /// Retries that count against the option `maxRetries`; a manual retry starts again at 0.
    package let retriesUsed: UInt32
    package let unmeteredOnly: Bool
    package let priority: Int32
    /// The failure of the last attempt, if it failed.
    package let failure: Failure?
    /// The failure before the attempt in flight, or before one that ended as offline.
    package let failureBefore: Failure?
    /// Why the message is not sent yet, if it was waited for or the page was requested with reasons.
    package internal(set) var explanation: Explanation?

    package var metadata: [String: String] { Dictionary(pairs, uniquingKeysWith: { _, last in last }) }
}

/// One attempt to send a message, as the transport receives it.
package struct Delivery: Sendable {
    /// The idempotency key: the same on every attempt.
    package let id: String
    package let conversation: String
    package let body: [UInt8]
    /// The metadata in its original order.
    package let pairs: [(key: String, value: String)]
    /// From 1.
    package let attempt: UInt32
    /// Identifies the attempt for `complete`.
    package let token: UInt64
    package let createdAt: Int64
    /// The timeout of the attempt in milliseconds.
    package let timeout: Int64

    package var metadata: [String: String] { Dictionary(pairs, uniquingKeysWith: { _, last in last }) }
}
