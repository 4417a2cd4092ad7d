/// One line of a message's ledger.
public struct Attempt: Sendable, Equatable {
    /// With the numbers of `msgq_attempt_outcome`.
    public enum Result: Int32, Sendable {
        case underWay = 0
        case sent
        case retry
        case rejected
        /// Cut by a crash.
        case unknown
    }

    /// What is known about whether the message reached the receiver, with the numbers of `msgq_arrival`.
    public enum Arrival: Int32, Sendable {
        case no = 0
        case yes
        case perhaps
    }

    /// From 1.
    public let number: UInt32
    /// Milliseconds since 1970.
    public let startedAt: Int64
    /// Milliseconds; nil: not known.
    public let duration: Int64?
    public let result: Result
    public let kind: FailureKind
    public let code: Int32
    public let text: String
    public let arrival: Arrival
}
