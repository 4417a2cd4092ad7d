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
        /// There is nothing to wait for: it was sent, or is somebody else's.
        case done = 0
        /// It is its turn: it starts as soon as an attempt may.
        case next
        case sending
        /// It failed and waits for a person.
        case failed
        /// Another message of its conversation comes first.
        case behind
        /// A message before it failed for good and holds the conversation.
        case blocked
        /// After a failure: until the time of its retry.
        case retrying
        /// Not before a given time.
        case scheduled
        /// Its time ran out: it is about to fail.
        case expired
        case offline
        /// The link is metered, and it must not be.
        case metered
        /// By the host, or because the receiver did not know who it was.
        case paused
        case noTransport
        /// A person has to send it: by a drain, or by the yes to a prompt.
        case person
        /// The link must stay for a moment, or the receiver asked to wait.
        case holding
        /// In the background nothing is sent by itself; or a drain's batch is used up. The next trigger goes on.
        case trigger
        /// The store refuses to write.
        case storage
    }
}
