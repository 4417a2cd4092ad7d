extension MessageQueue {
    /// A change that the queue reports, in the order in which changes happened, each after it was committed. Later versions may add cases.
    public enum Event: Sendable, Hashable {
        /// A message's status changed.
        case status(StatusChange)
        /// The counts or the network changed; several changes may share one event.
        case summary(Counts, Network)
        /// The connectivity changed, or the reason for being offline.
        case connectivity(Network)
        /// Mode `ask`: asks whether to send the backlog; `drain()` confirms.
        case prompt(Prompt)
        /// The prompt was answered, expired, or is not needed any more.
        case promptWithdrawn
        /// What a yes to the prompt would send changed while it stands: at most four times a second. It expires when it would have.
        case promptChanged(Prompt)
        /// A drain began, with the counts at that time.
        case drainStarted(Counts)
        /// The results of the current drain so far.
        case drainProgress(Report)
        /// A drain ended, with its results.
        case drainFinished(Report)
        /// Sending was paused or resumed, in one conversation or (nil) in the whole queue. `kind` is `unauthorized` when a receiver's
        /// answer paused it, otherwise nil.
        case paused(conversation: String?, isPaused: Bool, kind: FailureKind?)
        /// A message was deleted because its retries were used up, the receiver refused it, or the queue was full, as the options say.
        case discarded(id: String, conversation: String, failure: Failure)
        /// A message was deleted.
        case deleted(id: String, conversation: String)
        /// The unsent messages of one conversation, or (nil) of all conversations, were deleted.
        case cleared(conversation: String?)
        /// The store has an error, or (nil) works again.
        case storage(Error?)
        /// The subscriber was too slow, and so many events were dropped: list again.
        case resync(lostEvents: Int)
        /// A queued message was replaced by a newer one of the same ``Draft/replaceKey``. Its id is still refused as a duplicate.
        case replaced(id: String, by: String, conversation: String)
        /// The content of a message was changed by `edit` or `update`.
        case edited(id: String, conversation: String)
        /// Messages may wait in a place of the program that hands them over (``MessageQueue/takeOver(_:_:)``), such as an outbox: collect them.
        /// ``MessageQueue/requestCollect()`` asks for it, also from another process, and so does ``Options/collectInterval``. Requests that come
        /// while the event waits to be delivered share it.
        case collect
    }

    /// A change of a message's status.
    public struct StatusChange: Sendable, Hashable, Encodable {
        /// The id of the message.
        public let id: String
        /// The conversation of the message.
        public let conversation: String
        /// nil: the message was enqueued or recorded.
        public let from: Status?
        /// The status since then.
        public let to: Status
        /// The number of the attempt; nil: none.
        public let attempt: Int?
        /// Why it failed; nil: it did not.
        public let failure: Failure?
        /// When the status changed.
        public let at: Timestamp
    }

    /// The messages that a prompt asks about: those that a drain would send now. It does not count what is paused, scheduled for later,
    /// waits for a retry or an unmetered link, is blocked by a failed message, has expired, is being sent, or starts without an answer.
    public struct Prompt: Sendable, Hashable {
        /// Queued messages; at most ``Options/drainBatch``.
        public let messages: Int
        /// Failed messages, with ``Options/promptForFailed``: the yes that includes them is a drain with `includeFailed`.
        public let failed: Int
        /// Bytes of their bodies.
        public let bytes: Int
        /// When the first of them was enqueued (or replaced an earlier one).
        public let oldestAt: Timestamp
        /// How many conversations they belong to.
        public let conversations: Int
        /// The prompt expires after this time.
        public let timeout: Duration

        /// The question for the user: "Connected. Auto-send 5 queued messages?".
        public var text: String { Words.prompt(Int64(messages), failed: Int64(failed)) }
    }
}

extension MessageQueue.Event {
    package init(_ event: MsgQueue.Event) {
        switch event {
        case .status(let change): self = .status(.init(change))
        case .summary(let counts, let network): self = .summary(.init(counts), .init(network))
        case .connectivity(let network): self = .connectivity(.init(network))
        case .prompt(let prompt): self = .prompt(.init(prompt))
        case .promptWithdrawn: self = .promptWithdrawn
        case .promptChanged(let prompt): self = .promptChanged(.init(prompt))
        case .drainStarted(let counts): self = .drainStarted(.init(counts))
        case .drainProgress(let report): self = .drainProgress(.init(report))
        case .drainFinished(let report): self = .drainFinished(.init(report))
        case .paused(let conversation, let isPaused, let kind):
            self = .paused(conversation: conversation, isPaused: isPaused, kind: .init(kind))
        case .discarded(let id, let conversation, let failure):
            self = .discarded(id: id, conversation: conversation, failure: .init(failure))
        case .deleted(let id, let conversation): self = .deleted(id: id, conversation: conversation)
        case .cleared(let conversation): self = .cleared(conversation: conversation)
        case .storage(let error): self = .storage(error)
        case .resync(let lost): self = .resync(lostEvents: Int(lost))
        case .replaced(let id, let new, let conversation): self = .replaced(id: id, by: new, conversation: conversation)
        case .edited(let id, let conversation): self = .edited(id: id, conversation: conversation)
        case .collect: self = .collect
        }
    }
}

extension MessageQueue.StatusChange {
    package init(_ change: MsgQueue.StatusChange) {
        self.init(
            id: change.id, conversation: change.conversation, from: change.from, to: change.to,
            attempt: change.attempt == 0 ? nil : Int(change.attempt), failure: change.failure.map(MessageQueue.Failure.init),
            at: .init(change.at))
    }
}

extension MessageQueue.Prompt {
    package init(_ prompt: MsgQueue.Prompt) {
        self.init(
            messages: Int(prompt.messages), failed: Int(prompt.failed), bytes: Int(prompt.bytes), oldestAt: .init(prompt.oldestAt),
            conversations: Int(prompt.conversations), timeout: .milliseconds(prompt.timeout))
    }
}
