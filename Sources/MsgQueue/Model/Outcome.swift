/// The outcome of an attempt, as the transport returns it.
package struct Outcome: Sendable, Hashable {
    /// With the numbers of `msgq_verdict`.
    package enum Verdict: Int32, Sendable, CaseIterable {
        /// A callback that returned no verdict: a failure of unknown kind, retried.
        case unknown = 0
        case sent
        case retry
        case reject
        case offline
        case pending
        case http
        /// The transport did not try to send the message: it is put back and uses up no retry.
        case skipped
    }

    package var verdict: Verdict
    package var kind: FailureKind
    /// The code from the transport, such as an HTTP status.
    package var code: Int32
    /// The text from the transport, for developers.
    package var text: String
    /// The minimum delay before the next attempt, in milliseconds; nil: none given.
    package var retryAfter: Int64?
    /// The unparsed `Retry-After` header.
    package var retryAfterHeader: String
    /// The delay applies to the whole queue, not only to this message.
    package var retryAfterIsForQueue: Bool
    /// Verdict `retry`: the message certainly did not reach the receiver.
    package var isNotSent: Bool
    /// A success: what the receiver has reported of the message already, delivered or read.
    package var receipt: MessageStatus?

    package init(
        verdict: Verdict, kind: FailureKind = .none, code: Int32 = 0, text: String = "",
        retryAfter: Int64? = nil, retryAfterHeader: String = "", retryAfterIsForQueue: Bool = false,
        isNotSent: Bool = false, receipt: MessageStatus? = nil
    ) {
        self.verdict = verdict
        self.kind = kind
        self.code = code
        self.text = text
        self.retryAfter = retryAfter
        self.retryAfterHeader = retryAfterHeader
        self.retryAfterIsForQueue = retryAfterIsForQueue
        self.isNotSent = isNotSent
        self.receipt = receipt
    }

    /// The receiver has the message.
    package static let sent = Outcome(verdict: .sent)

    /// The message was not transmitted. Uses up no retry.
    package static let offline = Outcome(verdict: .offline, kind: .offline)

    /// The outcome follows by `complete(token:outcome:)`.
    package static let pending = Outcome(verdict: .pending)

    /// Not tried: the message goes back to its place.
    package static let skipped = Outcome(verdict: .skipped)

    /// A retryable failure. `retryAfter` is in milliseconds.
    package static func retry(
        _ kind: FailureKind = .unknown, code: Int32 = 0, text: String = "", retryAfter: Int64? = nil
    ) -> Outcome {
        Outcome(verdict: .retry, kind: kind, code: code, text: text, retryAfter: retryAfter)
    }

    /// A final failure.
    package static func reject(_ kind: FailureKind = .rejected, code: Int32 = 0, text: String = "") -> Outcome {
        Outcome(verdict: .reject, kind: kind, code: code, text: text)
    }

    /// An HTTP answer: the engine decides by the status and the `Retry-After` header.
    package static func http(_ status: Int32, retryAfter: String = "", text: String = "") -> Outcome {
        Outcome(verdict: .http, code: status, text: text, retryAfterHeader: retryAfter)
    }
}
