/// Why a message is not sent yet: one reason, as a code and a sentence.
package struct Explanation: Sendable, Equatable {
    package typealias Reason = MessageQueue.Explanation.Reason

    package let reason: Reason
    /// Until when, milliseconds since 1970; 0: not known.
    package let until: Int64
    /// The id of the message that it waits for; nil: none.
    package let behind: String?
    /// One sentence for a person.
    package let text: String
}

extension MessageQueue.Explanation {
    /// With the numbers of `msgq_reason`.
    public enum Reason: Int32, Sendable, CaseIterable {
        /// Nothing is to be sent: it was sent, or is a recorded message.
        case done = 0
        /// It is the next to be attempted.
        case next
        case sending
        /// It failed and waits for a person.
        case failed
        /// Another message of its conversation comes first.
        case behind
        /// A message before it failed and blocks the conversation.
        case blocked
        /// Waits for its retry after a failure.
        case retrying
        /// Not before a given time.
        case scheduled
        /// It expired, and is about to fail.
        case expired
        case offline
        /// The link is metered, and the message or the queue requires one that is not.
        case metered
        /// Paused by the host, or because the receiver refused the credentials.
        case paused
        case noTransport
        /// Waits for a person: for a drain, or the answer to a prompt.
        case person
        /// The connection must last for a moment, or the receiver asked to wait.
        case holding
        /// In the background, or a drain's batch is used up: waits for the next trigger.
        case trigger
        /// The store refuses to write.
        case storage
    }
}
