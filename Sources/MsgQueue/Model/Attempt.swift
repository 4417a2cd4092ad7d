/// One attempt as it is stored.
package struct Attempt: Sendable, Equatable {
    package typealias Outcome = MessageQueue.Attempt.Outcome
    package typealias Arrival = MessageQueue.Attempt.Arrival

    /// From 1.
    package let number: UInt32
    /// Milliseconds since 1970.
    package let startedAt: Int64
    /// Milliseconds; nil: unknown.
    package let duration: Int64?
    package let result: Outcome
    package let kind: FailureKind
    package let code: Int32
    package let text: String
    package let arrival: Arrival
}

extension MessageQueue.Attempt {
    /// How an attempt ended, with the numbers of `msgq_attempt_outcome`.
    public enum Outcome: Int32, Sendable {
        case underWay = 0
        case sent
        case retry
        case rejected
        /// Interrupted by a crash: the outcome is unknown.
        case unknown
    }

    /// Whether the message reached the receiver, with the numbers of `msgq_arrival`.
    public enum Arrival: Int32, Sendable {
        case no = 0
        case yes
        case perhaps
    }
}
