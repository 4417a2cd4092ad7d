/// The kind of a failure, with the numbers of `msgq_failure_kind`.
package enum FailureKind: Int32, Sendable, CaseIterable {
    case none = 0
    /// No connection: the message was not transmitted.
    case offline
    /// No answer in time: the message may have arrived.
    case timeout
    /// The connection was refused or reset, or the name or the route was not found.
    case network
    /// The server failed (HTTP 5xx).
    case server
    /// Too many requests (HTTP 429).
    case rateLimit
    /// The credentials are missing or not sufficient (HTTP 401, 403).
    case unauthorized
    /// The receiver refused the message (other HTTP 4xx).
    case rejected
    /// The recipient does not exist (HTTP 404, 410).
    case notFound
    /// The message expired before it was sent.
    case expired
    /// Unknown: for example an attempt that was interrupted by a crash.
    case unknown
    /// The queue was full, and the message was deleted to make room for a newer one.
    case dropped
    /// The transport could not prepare the message for sending, for example not encode it.
    case local
}

/// The failure of a message's last attempt.
package struct Failure: Sendable, Equatable {
    package let kind: FailureKind
    /// The code from the transport, such as an HTTP status; 0: none.
    package let code: Int32
    /// The text from the transport, for developers.
    package let text: String
    /// Milliseconds since 1970.
    package let at: Int64
    /// A retry may succeed.
    package let retryable: Bool
    /// The number of attempts so far.
    package let attempts: UInt32

    /// Creates the failure of a damaged message, which is never sent.
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
