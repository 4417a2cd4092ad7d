extension MessageQueue {
    /// A message as it is stored.
    public struct Message: Sendable, Hashable, Identifiable {
        /// The idempotency key: the same on every attempt.
        public let id: String
        /// The conversation that it belongs to; "" unless the draft named one.
        public let conversation: String
        /// The sender of a received message; nil: it was enqueued here, or is one's own that was recorded.
        public let sender: String?
        /// nil if the page was requested without bodies, and of a message that is gone (``MessageQueue/wait(for:timeout:)``).
        public let body: [UInt8]?
        /// The size of the body in bytes.
        public let bodySize: Int
        /// The first 100 characters of the body as text.
        public let preview: String
        /// As in the draft.
        public let metadata: [String: String]
        /// What has become of it.
        public let status: Status
        /// The place in the order. It grows with every enqueue and is never reused.
        public let sequence: Int64
        /// When it was enqueued or recorded.
        public let createdAt: Timestamp
        /// ``Draft/time``; `createdAt` if that was nil. The time to show.
        public let time: Timestamp
        /// When it was edited last; nil: never.
        public let editedAt: Timestamp?
        /// It is not sent before this time; nil: it is sent at once.
        public let notBefore: Timestamp?
        /// It fails at this time unless it was sent; nil: it never expires.
        public let expiresAt: Timestamp?
        /// When the next attempt is due after a retryable failure.
        public let nextAttemptAt: Timestamp?
        /// When its last attempt began; nil: there was none.
        public let lastAttemptAt: Timestamp?
        /// When it was sent; nil: it was not.
        public let sentAt: Timestamp?
        /// When the receipt arrived, never before `sentAt`; nil: none arrived before the message was read. Of a recorded message: when it
        /// was recorded.
        public let deliveredAt: Timestamp?
        /// When the receipt arrived, never before `sentAt` or `deliveredAt`. Of a recorded message: when it was marked as read.
        public let readAt: Timestamp?
        /// Attempts, including the one in flight, without those that ended as offline.
        public let attempts: Int
        /// Retries that count against ``Options/maxRetries``; a manual retry starts again at 0.
        public let retriesUsed: Int
        /// It is sent only while the link is not metered, or by ``MessageQueue/sendNow(_:)`` and ``MessageQueue/retry(_:)``.
        public let unmeteredOnly: Bool
        /// -100 to 100; see ``Draft/priority``.
        public let priority: Int
        /// The failure of the last attempt.
        public let failure: Failure?
        /// What failed before, when `failure` does not show it: while an attempt is in flight, and while `failure` is ``FailureKind/offline``.
        public let failureBefore: Failure?
        /// Why it is not sent yet, from ``MessageQueue/wait(for:timeout:)``, ``MessageQueue/send(_:timeout:)`` and a list with
        /// ``Filter/withReasons``; otherwise nil.
        public let explanation: Explanation?

        /// The body as text; bytes that are not UTF-8 become replacement characters.
        public var text: String { String(decoding: body ?? [], as: UTF8.self) }
    }

    /// The failure of a message's last attempt.
    public struct Failure: Sendable, Hashable, Encodable {
        /// The kind of the failure.
        public let kind: FailureKind
        /// The code that the transport gave, such as an HTTP status; nil: none.
        public let code: Int?
        /// The text from the transport, for developers. ``FailureKind/text`` is for users.
        public let text: String
        /// When it failed.
        public let at: Timestamp
        /// Whether another attempt may succeed.
        public let isRetryable: Bool
        /// The number of attempts so far.
        public let attempts: Int
    }
}

extension MessageQueue.Message {
    package init(_ message: MsgQueue.Message) {
        self.init(
            id: message.id, conversation: message.conversation, sender: message.sender, body: message.body, bodySize: message.bodySize,
            preview: message.preview, metadata: message.metadata, status: message.status, sequence: message.sequence,
            createdAt: .init(message.createdAt), time: .init(message.time), editedAt: .init(orNil: message.editedAt),
            notBefore: .init(orNil: message.notBefore),
            expiresAt: .init(orNil: message.expiresAt), nextAttemptAt: .init(orNil: message.nextAttemptAt),
            lastAttemptAt: .init(orNil: message.lastAttemptAt), sentAt: .init(orNil: message.sentAt),
            deliveredAt: .init(orNil: message.deliveredAt), readAt: .init(orNil: message.readAt), attempts: Int(message.attempts),
            retriesUsed: Int(message.retriesUsed), unmeteredOnly: message.unmeteredOnly, priority: Int(message.priority),
            failure: message.failure.map(MessageQueue.Failure.init),
            failureBefore: message.failureBefore.map(MessageQueue.Failure.init),
            explanation: message.explanation.map(MessageQueue.Explanation.init))
    }
}

extension MessageQueue.Failure {
    package init(_ failure: MsgQueue.Failure) {
        self.init(
            kind: .init(failure.kind) ?? .unknown, code: failure.code == 0 ? nil : Int(failure.code), text: failure.text,
            at: .init(failure.at), isRetryable: failure.retryable, attempts: Int(failure.attempts))
    }
}
