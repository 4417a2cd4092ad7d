/// The order of the messages of a page.
package enum ListOrder: Int32, Sendable, CaseIterable {
    /// By sequence number, the order of sending.
    case sequence = 0
    /// By the messages' own times, then by sequence number.
    case time
}

/// The messages of a page.
package struct Filter: Sendable, Equatable {
    /// nil: all.
    package var conversation: String?
    package var statuses: StatusSet
    /// The page begins after this sequence (before it, if newest first); 0: at the first message.
    package var after: Int64
    /// In the order by time: the page begins after this time and the sequence `after`; 0: at the first message.
    package var afterTime: Int64
    package var order: ListOrder
    /// 1 to 1000.
    package var limit: Int
    package var newestFirst: Bool
    package var withoutBodies: Bool
    /// Each message has its `explanation`.
    package var withReasons: Bool
    /// Only failed messages, with this kind of failure; `.none`: any.
    package var failureKind = FailureKind.none
    /// Only failed messages, with this code; nil: any.
    package var failureCode: Int32?
    /// Only queued messages that wait for this: `.paused`, or a time, `.scheduled` or `.retrying`, in whose order they are listed; nil: any.
    package var waitingFor: Explanation.Reason?

    package init(
        conversation: String? = nil, statuses: StatusSet = .unsent, after: Int64 = 0, limit: Int = 50,
        newestFirst: Bool = false, withoutBodies: Bool = false, order: ListOrder = .sequence, afterTime: Int64 = 0,
        withReasons: Bool = false
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
    }

    /// Selects failed messages: those of one conversation or (nil) of all, with this kind (`.none`: any) and code (nil: any) of failure.
    package static func failed(_ conversation: String?, _ kind: FailureKind = .none, _ code: Int32? = nil) -> Filter {
        var filter = Filter(conversation: conversation, statuses: StatusSet(.failed), limit: 1000, withoutBodies: true)
        (filter.failureKind, filter.failureCode) = (kind, code)
        return filter
    }

    /// Messages are selected by their failures.
    package var isByFailure: Bool { failureKind != .none || failureCode != nil }

    /// Messages are listed by the time that they wait for.
    package var isByWait: Bool { waitingFor == .scheduled || waitingFor == .retrying }
}
