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
    public enum Outcome: Int32, Sendable, CaseIterable {
        /// It has not ended.
        case underWay = 0
        /// The receiver has the message.
        case sent
        /// A retryable failure.
        case retry
        /// A final failure.
        case rejected
        /// Interrupted by a crash: the outcome is unknown.
        case unknown
    }

    /// Whether the message reached the receiver, with the numbers of `msgq_arrival`.
    public enum Arrival: Int32, Sendable, CaseIterable {
        /// It certainly did not arrive.
        case no = 0
        /// It certainly arrived.
        case yes
        /// The attempt was interrupted: by a timeout, a crash or a broken connection.
        case perhaps
    }
}
