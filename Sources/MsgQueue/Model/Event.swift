/// An event that the queue reports. Events are in order, and each follows the commit of its change.
package enum Event: Sendable, Equatable {
    /// A message's status changed; `from` is nil if it was enqueued or recorded.
    case status(StatusChange)
    /// The counts or the connectivity changed; several changes may share one.
    case summary(Counts, Network)
    case connectivity(Network)
    /// Mode ask: asks whether to send the queued messages; `drain` confirms.
    case prompt(Prompt)
    /// The prompt was answered, expired, or is not needed any more.
    case promptWithdrawn
    /// The messages of the prompt that stands changed.
    case promptChanged(Prompt)
    case drainStarted(Counts)
    /// The results of the current drain so far.
    case drainProgress(Report)
    case drainFinished(Report)
    /// Sending was paused or resumed, in one conversation or (nil) in the whole queue. `kind` is `unauthorized` if the receiver refused the
    /// credentials.
    case paused(conversation: String?, isPaused: Bool, kind: FailureKind)
    /// A message was deleted because its retries were used up (`exhausted`), the receiver refused it (`refused`), or the queue was full
    /// (`onFull`).
    case discarded(id: String, conversation: String, failure: Failure)
    case deleted(id: String, conversation: String)
    /// The unsent messages of one conversation, or (nil) of all conversations, were deleted.
    case cleared(conversation: String?)
    /// The store has an error, or (nil) works again.
    case storage(QueueError?)
    /// So many events were dropped because they were not received in time: list again.
    case resync(lostEvents: Int64)
    /// A queued message was replaced by a newer one of the same key.
    case replaced(id: String, by: String, conversation: String)
    /// The content of a message was changed by a call.
    case edited(id: String, conversation: String)
    /// Messages may wait in a place of the host that hands them over.
    case collect

    /// The number of lost events when this one is dropped.
    var weight: Int64 { if case .resync(let lost) = self { max(lost, 1) } else { 1 } }
}

package struct StatusChange: Sendable, Equatable {
    package let id: String
    package let conversation: String
    package let from: MessageStatus?
    package let to: MessageStatus
    /// The number of the attempt; 0: none.
    package let attempt: UInt32
    package let failure: Failure?
    /// Milliseconds since 1970.
    package let at: Int64
}

/// The messages that a prompt asks about: those that a yes would send now.
package struct Prompt: Sendable, Equatable {
    /// Queued ones.
    package let messages: Int64
    /// Failed ones, with the option `prompt_for_failed`.
    package var failed: Int64 = 0
    package let bytes: Int64
    /// When the oldest was enqueued, milliseconds since 1970.
    package let oldestAt: Int64
    package let conversations: Int64
    /// The prompt expires after this many milliseconds.
    package let timeout: Int64
}
