/// What a queue tells its host, in the order in which it happened, each after it is on disk.
package enum Event: Sendable, Equatable {
    /// A message's status changed; `from` is nil when it was enqueued just now.
    case status(StatusChange)
    /// The counts or the connectivity changed; several changes may share one.
    case summary(Counts, Network)
    case connectivity(Network)
    /// Mode ask: send these now? `drain` is the yes.
    case prompt(Prompt)
    /// It was answered, expired, or there is nothing to ask any more.
    case promptWithdrawn
    case drainStarted(Counts)
    /// What the drain under way has done so far.
    case drainProgress(Report)
    case drainFinished(Report)
    /// Sending was paused or resumed, in one conversation or (nil) at all; `kind` is unauthorized when a receiver's answer did it.
    case paused(conversation: String?, isPaused: Bool, kind: FailureKind)
    /// Its retries are used up (`exhausted`), or it was refused for good (`refused`); it is gone.
    case discarded(id: String, conversation: String, failure: Failure)
    case deleted(id: String, conversation: String)
    /// The unsent messages of one conversation, or (nil) of all were removed.
    case cleared(conversation: String?)
    /// The store has trouble, or (nil) is well again.
    case storage(QueueError?)
    /// Events were lost because nobody took them: list again.
    case resync
}

package struct StatusChange: Sendable, Equatable {
    package let id: String
    package let conversation: String
    package let from: MessageStatus?
    package let to: MessageStatus
    /// The attempt that it belongs to; 0: none.
    package let attempt: UInt32
    package let failure: Failure?
    /// Milliseconds since 1970.
    package let at: Int64
}

/// What a prompt asks about.
package struct Prompt: Sendable, Equatable {
    package let messages: Int64
    package let bytes: Int64
    /// When the oldest was enqueued, milliseconds since 1970.
    package let oldestAt: Int64
    package let conversations: Int64
    /// The prompt expires after this many milliseconds.
    package let timeout: Int64

    package init(messages: Int64, bytes: Int64, oldestAt: Int64, conversations: Int64, timeout: Int64) {
        self.messages = messages
        self.bytes = bytes
        self.oldestAt = oldestAt
        self.conversations = conversations
        self.timeout = timeout
    }
}
