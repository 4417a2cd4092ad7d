import MsgQueue

extension Simulation {
    /// One call of the transport.
    public struct Attempt: Sendable, Equatable {
        /// The id of the message.
        public let id: String
        /// The conversation of the message.
        public let conversation: String
        /// The number of this attempt of the message, from 1. A number occurs twice if the first attempt was not sent (`.offline`).
        public let number: Int
        /// When the attempt began.
        public let startedAt: VirtualTime
        /// When the outcome arrived; nil: it has not, or the process ended before.
        public internal(set) var endedAt: VirtualTime?
        /// The outcome; nil: like `endedAt`.
        public internal(set) var outcome: MessageQueue.Outcome?
        /// Whether the receiver took the message.
        public let isAccepted: Bool
    }

    /// The state and the history of a simulation.
    public struct Report: Sendable, Equatable {
        /// When it happened.
        public let time: VirtualTime
        /// Every call of the transport, in order of its beginning.
        public let attempts: [Attempt]
        /// The status of each message that is in the store, by id.
        public let statuses: [String: MessageQueue.Status]
        /// The number of messages by status.
        public let counts: MessageQueue.Counts
        /// By conversation: the ids of the messages that the receiver took, in the order in which it first took each.
        public let accepted: [String: [String]]
        /// Messages that the receiver took before an earlier message of the same conversation.
        public let overtaking: [String]
        /// Messages that the receiver took more than once, in the order of the second time. The queue promises delivery at least once: a
        /// message is sent again after a crash, or if an outcome is lost or late, always under the same id.
        public let sentTwice: [String]
        /// Messages that `enqueue` accepted and that are neither in the store nor at the receiver, and were not replaced, or removed by a
        /// call or by the options (`exhausted`, `refused`, `onFull`). If it is not empty, the queue has broken its promise.
        public let lost: [String]
        /// The reports of the drains that have ended, in order.
        public let drains: [MessageQueue.Report]
        /// The number of prompts in mode ask.
        public let prompts: Int
        /// The number of commits of the store so far, which `CrashPoint.write` refers to.
        public let writes: Int
        /// The number of crashes.
        public let crashes: Int

        /// The number of attempts in which the receiver did not take the message.
        public var wastedAttempts: Int { attempts.count { !$0.isAccepted } }
    }
}
