extension MessageQueue {
    /// Why an attempt failed, with the numbers of `msgq_failure_kind`. Later versions may add cases.
    public enum FailureKind: Int32, Sendable, CaseIterable {
        /// No connection: the message was not transmitted.
        case offline = 1
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

        /// One or two sentences for users: what happened, and what can be done.
        public var text: String { Words.failure(engine) }
    }
}

extension MessageQueue.FailureKind {
    package init?(_ kind: MsgQueue.FailureKind) { self.init(rawValue: kind.rawValue) }

    package var engine: MsgQueue.FailureKind { MsgQueue.FailureKind(rawValue: rawValue) ?? .unknown }
}
