extension MessageQueue {
    /// One attempt to send a message, as it is kept in the store.
    public struct Attempt: Sendable, Hashable {
        /// From 1.
        public let number: Int
        /// When it began.
        public let startedAt: Timestamp
        /// nil: unknown.
        public let duration: Duration?
        /// How it ended.
        public let outcome: Outcome
        /// nil: it did not fail, or has not ended.
        public let kind: FailureKind?
        /// The code that the transport gave, such as an HTTP status; nil: none.
        public let code: Int?
        /// The text from the transport, for developers.
        public let text: String
        /// Whether the message reached the receiver.
        public let arrival: Arrival
    }

    /// Why a message is not sent yet, as a code and a text.
    public struct Explanation: Sendable, Hashable, Encodable {
        /// The reason as a code.
        public let reason: Reason
        /// When the reason ends; nil: unknown.
        public let until: Timestamp?
        /// The id of the message that goes first or blocks this one; nil: none.
        public let behind: String?
        /// One or two sentences for users.
        public let text: String
        /// How many retries the options permit a message: one with the reason `retrying` waits for retry ``Message/retriesUsed`` of them,
        /// or was skipped. 0: none, or not known (``Options/maintenance``, ``Options/readOnly``).
        public let retries: Int
    }
}

extension MessageQueue.Attempt {
    package init(_ attempt: MsgQueue.Attempt) {
        self.init(
            number: Int(attempt.number), startedAt: .init(attempt.startedAt), duration: attempt.duration.map { .milliseconds($0) },
            outcome: attempt.result, kind: .init(attempt.kind), code: attempt.code == 0 ? nil : Int(attempt.code), text: attempt.text,
            arrival: attempt.arrival)
    }
}

extension MessageQueue.Explanation {
    package init(_ explanation: MsgQueue.Explanation) {
        self.init(
            reason: explanation.reason, until: .init(orNil: explanation.until), behind: explanation.behind, text: explanation.text,
            retries: Int(explanation.retries))
    }
}
