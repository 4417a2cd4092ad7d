extension MessageQueue {
    /// One attempt to send one message, as the transport receives it.
    public struct Delivery: Sendable, Hashable, Identifiable {
        /// The idempotency key: the same on every attempt of the message.
        public let id: String
        /// The conversation of the message; "" unless the draft named one.
        public let conversation: String
        /// What is to be sent.
        public let body: [UInt8]
        /// As in the draft.
        public let metadata: [String: String]
        /// The number of the attempt, from 1.
        public let attempt: Int
        /// Completes the attempt later: see ``Outcome/pending``.
        public let token: Token
        /// When the message was enqueued.
        public let createdAt: Timestamp
        /// The time-out for a request that the transport makes.
        ///
        /// It is less than the attempt timeout of the options, by a tenth of it and at most by one second, so that the answer to a request
        /// that used all of it is still in time.
        public let timeout: Duration

        /// The body as text; bytes that are not UTF-8 become replacement characters.
        public var text: String { String(decoding: body, as: UTF8.self) }
    }

    /// Identifies one attempt in ``MessageQueue/complete(_:with:)``. Valid until the attempt was completed or the queue was closed.
    public struct Token: RawRepresentable, Sendable, Hashable {
        /// The token as a number, for interfaces that can pass only numbers.
        public let rawValue: UInt64

        /// Creates the token of this number, for example one that was stored as text.
        public init(rawValue: UInt64) { self.rawValue = rawValue }
    }
}

extension MessageQueue.Delivery {
    package init(_ delivery: MsgQueue.Delivery) {
        self.init(
            id: delivery.id, conversation: delivery.conversation, body: delivery.body, metadata: delivery.metadata,
            attempt: Int(delivery.attempt), token: .init(rawValue: delivery.token), createdAt: .init(delivery.createdAt),
            timeout: .milliseconds(RequestTimeout.within(delivery.timeout)))
    }
}
