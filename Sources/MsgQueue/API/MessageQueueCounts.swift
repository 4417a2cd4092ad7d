extension MessageQueue {
    /// Numbers of messages by status.
    public struct Counts: Sendable, Hashable, Encodable {
        /// Messages that will be sent.
        public let queued: Int
        /// Messages that are being sent.
        public let sending: Int
        /// Messages that the transport reported as sent, without a receipt.
        public let sent: Int
        /// Messages that a receipt reported as delivered.
        public let delivered: Int
        /// Messages that a receipt reported as read.
        public let read: Int
        /// Messages that are not sent until they are retried.
        public let failed: Int
        /// Recorded messages.
        public let received: Int
        /// Recorded messages that are not marked as read.
        public let unread: Int
        /// Bytes of the bodies of queued, sending and failed messages.
        public let unsentBytes: Int

        /// Queued, sending and failed.
        public var unsent: Int { queued &+ sending &+ failed }

        /// The messages of the history.
        public var history: Int { sent &+ delivered &+ read &+ received }
    }

    /// A conversation in a list of conversations.
    public struct Conversation: Sendable, Hashable, Encodable, Identifiable {
        /// The name that its messages have.
        public let name: String
        /// Its messages by status.
        public let counts: Counts
        /// The newest message by time, without its body.
        public let last: Message
        /// ``MessageQueue/setTitle(_:of:)``; nil: it has none.
        public let title: String?
        /// It was paused by its name (``MessageQueue/pause(conversation:)``), whether the queue is paused or not.
        public let isPaused: Bool

        /// The name.
        public var id: String { name }
    }
}

extension MessageQueue.Counts {
    package init(_ counts: MsgQueue.Counts) {
        self.init(
            queued: Int(counts.queued), sending: Int(counts.sending), sent: Int(counts.sent), delivered: Int(counts.delivered),
            read: Int(counts.read), failed: Int(counts.failed), received: Int(counts.received), unread: Int(counts.unread),
            unsentBytes: Int(counts.unsentBytes))
    }
}

extension MessageQueue.Conversation {
    package init(_ conversation: MsgQueue.Conversation) {
        self.init(
            name: conversation.name, counts: .init(conversation.counts), last: .init(conversation.last), title: conversation.title,
            isPaused: conversation.isPaused)
    }
}
