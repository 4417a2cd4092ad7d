extension MessageQueue {
    /// The failed messages with the same kind and code of failure. Their list: ``Filter/failureKind`` and ``Filter/failureCode``.
    public struct FailureGroup: Sendable, Hashable, Encodable {
        /// The kind; `unknown` also where the failure is not known.
        public let kind: FailureKind
        /// The code that the transport gave, such as an HTTP status; nil: none.
        public let code: Int?
        /// The number of messages.
        public let count: Int
        /// When the first message failed so, since there was none. It may have been retried or deleted.
        public let first: Timestamp
        /// When the last message failed so. It may have been retried or deleted.
        public let last: Timestamp
        /// The text of the failure of the newest message, for developers.
        public let text: String
    }

    /// What the queued messages wait for. Each is counted once.
    public struct Waiting: Sendable, Hashable, Encodable {
        /// All of them.
        public let queued: Int
        /// In conversations that are paused; all, while the queue is paused.
        public let paused: Int
        /// Of the others: before ``Message/notBefore``.
        public let scheduled: Int
        /// Of the others: in the delay after a failed attempt.
        public let retrying: Int
        /// When the first of the scheduled ones may be sent; nil: there is none.
        public let nextScheduled: Timestamp?
        /// When the first of the retrying ones is tried again; nil: there is none.
        public let nextRetry: Timestamp?
    }
}

extension MessageQueue.FailureGroup {
    package init(_ group: FailureGroup) {
        self.init(
            kind: MessageQueue.FailureKind(group.kind) ?? .unknown, code: group.code == 0 ? nil : Int(group.code), count: Int(group.count),
            first: .init(group.firstAt), last: .init(group.lastAt), text: group.text)
    }
}

extension MessageQueue.Waiting {
    package init(_ waiting: Waiting) {
        self.init(
            queued: Int(waiting.queued), paused: Int(waiting.paused), scheduled: Int(waiting.scheduled), retrying: Int(waiting.retrying),
            nextScheduled: .init(orNil: waiting.nextScheduledAt), nextRetry: .init(orNil: waiting.nextRetryAt))
    }
}
