import MsgQueue

extension Simulation {
    /// One call of the transport.
    public struct Attempt: Sendable, Equatable {
        /// The message's.
        public let id: String
        public let conversation: String
        /// Of this message, from 1. A number comes twice where the attempt never left (`.offline`).
        public let number: Int
        public let startedAt: VirtualTime
        /// When the transport answered; nil: it has not, or the process ended before.
        public internal(set) var endedAt: VirtualTime?
        /// What it answered; nil: as `endedAt`.
        public internal(set) var outcome: MessageQueue.Outcome?
        /// The receiver took the message.
        public let isAccepted: Bool
    }

    /// What has happened in a simulation until now.
    public struct Report: Sendable, Equatable {
        public let time: VirtualTime
        /// Every call of the transport, in the order in which they began.
        public let attempts: [Attempt]
        /// The status of each message that is in the store, by id.
        public let statuses: [String: MessageQueue.Status]
        /// How many messages there are by status.
        public let counts: MessageQueue.Counts
        /// By conversation: the ids of the messages that the receiver took, in the order in which it took each for the first time.
        public let accepted: [String: [String]]
        /// Messages that the receiver took before one that was enqueued earlier in the same conversation, which it took, too.
        public let overtaking: [String]
        /// Messages that the receiver took more than once, in the order of the second time. At least once is the queue's promise: it happens
        /// after a crash, and where an answer is lost or late. The id is the same each time.
        public let sentTwice: [String]
        /// Messages that `enqueue` accepted, and that are neither in the store nor at the receiver, and were not removed by a call or by the
        /// options (`exhausted`, `refused`). Empty, or a promise is broken.
        public let lost: [String]
        /// What the drains that ended had done, in their order.
        public let drains: [MessageQueue.Report]
        /// Prompts of mode ask.
        public let prompts: Int
        /// Commits of the store so far: the numbers that `CrashPoint.write` counts by.
        public let writes: Int
        /// How often the process ended.
        public let crashes: Int

        /// Attempts after which the receiver did not have the message.
        public var wastedAttempts: Int { attempts.count { !$0.isAccepted } }
    }
}
