import MsgQueue

extension Simulation {
    /// The scripted result of one delivery.
    public struct Reply: Sendable, Equatable {
        /// The outcome that the transport returns; nil: it never returns one, and the attempt ends by its timeout.
        public var outcome: MessageQueue.Outcome?
        /// The delay of the outcome after the beginning of the attempt: 0 or more, in whole milliseconds. An outcome after the attempt's
        /// timeout counts only where it would in the engine: if it is a success of the last attempt.
        public var latency: Duration
        /// Whether the receiver took the message, independently of the outcome that the queue receives. The report's order of arrival and
        /// its list of messages sent twice are based on this.
        public var isAccepted: Bool

        /// Creates a reply. The parameters are the properties of the same names.
        public init(outcome: MessageQueue.Outcome?, latency: Duration = .zero, isAccepted: Bool) {
            self.outcome = outcome
            self.latency = latency
            self.isAccepted = isAccepted
        }

        /// The receiver replies. It takes the message if the outcome is a success: `.sent`, or `.http` with 200 to 299.
        public static func answer(_ outcome: MessageQueue.Outcome, after latency: Duration = .zero) -> Reply {
            Reply(outcome: outcome, latency: latency, isAccepted: outcome.engine.isSuccess)
        }

        /// No reply arrives. `accepted`: the receiver took the message, and only its reply was lost.
        public static func noAnswer(accepted: Bool = false) -> Reply { Reply(outcome: nil, isAccepted: accepted) }
    }
}

extension Outcome {
    fileprivate var isSuccess: Bool { verdict == .sent || (verdict == .http && (200...299).contains(code)) }
}
