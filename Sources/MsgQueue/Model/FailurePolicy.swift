extension MessageQueue {
    /// What becomes of a message whose retries are used up, with the numbers of `msgq_exhausted`.
    public enum Exhausted: Int32, Sendable, CaseIterable {
        /// It becomes `failed` and waits for a person.
        case keep = 0
        /// It is deleted, with an event and a log line.
        case discard
    }
}

package typealias Exhausted = MessageQueue.Exhausted

extension MessageQueue {
    /// What becomes of a message that the receiver refuses, with the numbers of `msgq_refused`.
    public enum Refused: Int32, Sendable, CaseIterable {
        /// It becomes `failed` and waits for a person.
        case keep = 0
        /// It is deleted, with an event and a log line.
        case discard
    }
}

package typealias Refused = MessageQueue.Refused

extension MessageQueue {
    /// What a message that failed for good does to its conversation, with the numbers of `msgq_final_failure`.
    public enum FinalFailure: Int32, Sendable, CaseIterable {
        /// It does not block its conversation.
        case stepAside = 0
        /// It blocks its conversation until a person retries or deletes it.
        case block
    }
}

package typealias FinalFailure = MessageQueue.FinalFailure
