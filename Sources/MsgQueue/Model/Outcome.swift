/// What came of one attempt, in the transport's words.
package struct Outcome: Sendable, Equatable {
    /// With the numbers of `msgq_verdict`.
    package enum Verdict: Int32, Sendable, CaseIterable {
        /// A callback that died: a failure of unknown kind, retried.
        case unknown = 0
        case sent
        case retry
        case reject
        case offline
        case pending
        case http
    }

    package var verdict: Verdict
    package var kind: FailureKind
    /// The transport's own, as an HTTP status.
    package var code: Int32
    /// Raw, for a developer.
    package var text: String
    /// Milliseconds to wait at least; nil: not said.
    package var retryAfter: Int64?
    /// The `Retry-After` header as it came.
    package var retryAfterHeader: String
    /// The whole queue waits, not only this message.
    package var retryAfterIsForQueue: Bool
    /// Verdict `retry`: the message surely did not reach the receiver.
    package var isNotSent: Bool

    package init(
        verdict: Verdict, kind: FailureKind = .none, code: Int32 = 0, text: String = "",
        retryAfter: Int64? = nil, retryAfterHeader: String = "", retryAfterIsForQueue: Bool = false,
        isNotSent: Bool = false
    ) {
        self.verdict = verdict
        self.kind = kind
        self.code = code
        self.text = text
        self.retryAfter = retryAfter
        self.retryAfterHeader = retryAfterHeader
        self.retryAfterIsForQueue = retryAfterIsForQueue
        self.isNotSent = isNotSent
    }

    /// The receiver has it, or had it already.
    package static let sent = Outcome(verdict: .sent)

    /// It never left. Uses up no retry.
    package static let offline = Outcome(verdict: .offline, kind: .offline)

    /// `complete(token:outcome:)` will tell.
    package static let pending = Outcome(verdict: .pending)

    /// Failed in a way that may pass. `retryAfter` in milliseconds.
    package static func retry(
        _ kind: FailureKind = .unknown, code: Int32 = 0, text: String = "", retryAfter: Int64? = nil
    ) -> Outcome {
        Outcome(verdict: .retry, kind: kind, code: code, text: text, retryAfter: retryAfter)
    }

    /// Failed for good.
    package static func reject(_ kind: FailureKind = .rejected, code: Int32 = 0, text: String = "") -> Outcome {
        Outcome(verdict: .reject, kind: kind, code: code, text: text)
    }

    /// An HTTP answer: the engine decides by the status and the `Retry-After` header.
    package static func http(_ status: Int32, retryAfter: String = "", text: String = "") -> Outcome {
        Outcome(verdict: .http, code: status, text: text, retryAfterHeader: retryAfter)
    }
}
