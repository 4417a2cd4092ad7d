/// What kind of failure an attempt met, with the numbers of `msgq_failure_kind`.
package enum FailureKind: Int32, Sendable, CaseIterable {
    case none = 0
    /// No connection: it never left.
    case offline
    /// No answer in time: perhaps it arrived.
    case timeout
    /// Refused, reset, no name, no route.
    case network
    /// The receiver broke (5xx).
    case server
    /// Too many (429).
    case rateLimit
    /// Who are you? (401, 403)
    case unauthorized
    /// The receiver does not want it (4xx).
    case rejected
    /// There is no such receiver (404, 410).
    case notFound
    /// Its time ran out before it could be sent.
    case expired
    /// Nobody knows: an attempt cut by a crash, an answer that means nothing.
    case unknown
}

/// Why a message is where it is: the failure of its last attempt.
package struct Failure: Sendable, Equatable {
    package let kind: FailureKind
    /// The transport's own, as an HTTP status; 0: none.
    package let code: Int32
    /// Raw, for a developer.
    package let text: String
    /// Milliseconds since 1970.
    package let at: Int64
    /// Trying again may help.
    package let retryable: Bool
    /// Attempts made until then.
    package let attempts: UInt32

    /// Of a message that is not what was written any more: it is never sent.
    static func damaged(_ detail: String, at: Int64) -> Failure {
        Failure(kind: .unknown, code: 0, text: detail, at: at, retryable: false, attempts: 0)
    }

    package init(kind: FailureKind, code: Int32, text: String, at: Int64, retryable: Bool, attempts: UInt32) {
        self.kind = kind
        self.code = code
        self.text = text
        self.at = at
        self.retryable = retryable
        self.attempts = attempts
    }
}
