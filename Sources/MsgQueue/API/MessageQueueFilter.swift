extension MessageQueue {
    /// The messages of a page.
    public struct Filter: Sendable, Hashable {
        /// nil: of all conversations.
        public var conversation: String?
        /// Not empty.
        public var statuses: Set<Status>
        /// The page begins after the message with this sequence (before it, when `newestFirst`); nil: at the first message.
        public var after: Int64?
        /// 1 to 1000.
        public var limit: Int
        /// The newest messages first; false: the oldest first.
        public var newestFirst: Bool
        /// The messages of the page have no body (``Message/body`` is nil).
        public var withoutBodies: Bool
        /// The order of the page.
        public var order: Order
        /// In the order by time: the page begins after the message with this time and the sequence `after`, which may be gone; without `after`
        /// at this time. nil: at the first message. 1970 itself is `.invalid`, because no message has that time.
        public var afterTime: Timestamp?
        /// Each message has its ``Message/explanation``: why it is not sent yet.
        public var withReasons: Bool
        /// Only failed messages whose ``Message/failure`` is of this kind, in the order by sequence; nil: of any.
        public var failureKind: FailureKind?
        /// Only failed messages whose ``Message/failure`` has this code, in the order by sequence; 0: without a code; nil: with any.
        public var failureCode: Int?
        /// Only queued messages that wait for this, as ``MessageQueue/waiting()`` counts them: `.paused`; or `.scheduled` or `.retrying`, of all
        /// conversations, in the order of their next attempts. Then `afterTime` is the last message's `notBefore` or `nextAttemptAt`. nil: any.
        public var waitingFor: Explanation.Reason?

        /// The order of a page.
        public enum Order: Int32, Sendable, CaseIterable {
            /// By ``Message/sequence``, the order of sending.
            case sequence
            /// By ``Message/time``, then by ``Message/sequence``.
            case time
        }

        /// Creates a filter. The parameters are the properties of the same names.
        public init(
            conversation: String? = nil, statuses: Set<Status> = .unsent, after: Int64? = nil, limit: Int = 50,
            newestFirst: Bool = false, withoutBodies: Bool = false, order: Order = .sequence, afterTime: Timestamp? = nil,
            withReasons: Bool = false, failureKind: FailureKind? = nil, failureCode: Int? = nil, waitingFor: Explanation.Reason? = nil
        ) {
            self.conversation = conversation
            self.statuses = statuses
            self.after = after
            self.limit = limit
            self.newestFirst = newestFirst
            self.withoutBodies = withoutBodies
            self.order = order
            self.afterTime = afterTime
            self.withReasons = withReasons
            self.failureKind = failureKind
            self.failureCode = failureCode
            self.waitingFor = waitingFor
        }
    }
}

extension Set<MessageQueue.Status> {
    /// Queued, sending and failed.
    public static var unsent: Self { [.queued, .sending, .failed] }

    /// Every status.
    public static var all: Self { Set(MessageQueue.Status.allCases) }
}

extension MessageQueue.Filter {
    /// The filter for the engine. Throws if the code of failure is out of range.
    package func engine() throws(MessageQueue.Error) -> MsgQueue.Filter {
        var filter = MsgQueue.Filter(
            conversation: conversation, statuses: statuses.reduce(into: []) { $0.formUnion(StatusSet($1)) }, after: after ?? 0,
            limit: limit, newestFirst: newestFirst, withoutBodies: withoutBodies, order: order == .time ? .time : .sequence,
            afterTime: afterTime?.given ?? 0, withReasons: withReasons)
        filter.failureKind = failureKind?.engine ?? .none
        filter.failureCode = try failureCode.map(Self.failureCode)
        filter.waitingFor = waitingFor.flatMap { MsgQueue.Explanation.Reason(rawValue: $0.rawValue) }
        return filter
    }

    private static func failureCode(_ code: Int) throws(MessageQueue.Error) -> Int32 {
        guard let small = Int32(exactly: code) else { throw QueueError(.invalid, "invalid code of a failure: \(code)") }
        return small
    }

    /// The failed messages with this kind and code of failure.
    package static func failed(
        _ conversation: String?, _ kind: MessageQueue.FailureKind?, _ code: Int?
    ) throws(MessageQueue.Error) -> MsgQueue.Filter {
        .failed(conversation, kind?.engine ?? .none, try code.map(failureCode))
    }
}
