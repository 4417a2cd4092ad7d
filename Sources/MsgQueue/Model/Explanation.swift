/// Why a message is not sent yet, as a code and a text.
package struct Explanation: Sendable, Equatable {
    package typealias Reason = MessageQueue.Explanation.Reason

    package let reason: Reason
    /// When the reason ends, in milliseconds since 1970; 0: unknown.
    package let until: Int64
    /// The id of the message that goes first or blocks this one; nil: none.
    package let behind: String?
    /// One or two sentences for users.
    package let text: String
    /// How many retries the options permit a message; 0 also if they are not known.
    package var retries: UInt32 = 0
}

extension MessageQueue.Explanation {
    /// With the numbers of `msgq_reason`.
    public enum Reason: Int32, Sendable, CaseIterable {
        /// Nothing is to be sent: the message was sent or recorded.
        case done = 0
        /// The message is attempted next.
        case next
        /// The message is being sent.
        case sending
        /// The message failed and is not sent until it is retried.
        case failed
        /// Another message of the conversation goes first.
        case behind
        /// An earlier message failed and blocks the conversation.
        case blocked
        /// The message waits for its retry after a failure, or because the transport skipped it.
        case retrying
        /// The message has a time before which it is not sent.
        case scheduled
        /// The message expired and is about to fail.
        case expired
        /// There is no connection.
        case offline
        /// The link is metered, and the message or the queue requires an unmetered one.
        case metered
        /// Paused by the host, or because the receiver refused the credentials.
        case paused
        /// There is nothing to send with: no transport is set.
        case noTransport
        /// The user must start sending, by a drain or the answer to a prompt.
        case person
        /// The connection is not stable yet, or the receiver asked to wait.
        case holding
        /// The program is in the background, or the batch of a run is used up: the message waits for the next trigger.
        case trigger
        /// The store rejects writes, or no thread can be created.
        case storage
        /// The rate limit permits the next attempt later.
        case rate
        /// The message is no longer in the store: it was discarded, replaced or deleted.
        case gone
    }
}
