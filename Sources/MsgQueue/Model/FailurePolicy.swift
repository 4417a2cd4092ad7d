extension MessageQueue {
    /// What happens to a message whose retries are used up, with the numbers of `msgq_exhausted`.
    public enum Exhausted: Int32, Sendable, CaseIterable {
        /// It becomes `failed` and can be retried by hand.
        case keep = 0
        /// It is deleted, with an event and a log line.
        case discard
    }
}

package typealias Exhausted = MessageQueue.Exhausted

extension MessageQueue {
    /// What happens to a message that the receiver refuses, with the numbers of `msgq_refused`.
    public enum Refused: Int32, Sendable, CaseIterable {
        /// It becomes `failed` and can be retried by hand.
        case keep = 0
        /// It is deleted, with an event and a log line.
        case discard
    }
}

package typealias Refused = MessageQueue.Refused

extension MessageQueue {
    /// Whether a failed message blocks its conversation, with the numbers of `msgq_final_failure`.
    public enum FinalFailure: Int32, Sendable, CaseIterable {
        /// It does not block its conversation.
        case stepAside = 0
        /// It blocks its conversation until it is retried or deleted.
        case block
    }
}

package typealias FinalFailure = MessageQueue.FinalFailure

extension MessageQueue {
    /// What `enqueue` does when a limit would be exceeded, with the numbers of `msgq_on_full`.
    public enum OnFull: Int32, Sendable, CaseIterable {
        /// It throws `.full` and changes nothing.
        case refuse = 0
        /// It deletes the oldest queued messages, with an event and a log line.
        case dropOldest
    }
}

package typealias OnFull = MessageQueue.OnFull
