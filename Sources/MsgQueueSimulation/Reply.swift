import MsgQueue

extension Simulation {
    /// What a scripted transport makes of one delivery.
    public struct Reply: Sendable, Equatable {
        /// What the transport answers; nil: it never does, and the attempt ends by its time-out.
        public var outcome: MessageQueue.Outcome?
        /// When the answer comes, counted from the beginning of the attempt: 0 or more, in whole milliseconds. An answer after the attempt's
        /// time-out counts only where it would in the engine: a success of the last attempt.
        public var latency: Duration
        /// Whether the receiver took the message, whatever the queue is told: the report's order and its list of messages that were sent twice
        /// are made of this.
        public var isAccepted: Bool

        public init(outcome: MessageQueue.Outcome?, latency: Duration = .zero, isAccepted: Bool) {
            self.outcome = outcome
            self.latency = latency
            self.isAccepted = isAccepted
        }

        /// The receiver answers. It takes the message when the outcome is a success: `.sent`, or `.http` with 200 to 299.
        public static func answer(_ outcome: MessageQueue.Outcome, after latency: Duration = .zero) -> Reply {
            Reply(outcome: outcome, latency: latency, isAccepted: outcome.engine.isSuccess)
        }

        /// No answer ever comes. `accepted`: the message arrived, and only its answer was lost.
        public static func noAnswer(accepted: Bool = false) -> Reply { Reply(outcome: nil, isAccepted: accepted) }
    }
}

extension Outcome {
    fileprivate var isSuccess: Bool { verdict == .sent || (verdict == .http && (200...299).contains(code)) }
}
