/// The classified outcome of an attempt.
package enum Judgement: Equatable, Sendable {
    case sent(code: Int32)
    /// The message was not transmitted.
    case offline(text: String)
    /// A retryable failure. `after`: the delay in milliseconds that the receiver requested. `isNotSent`: the message certainly did not
    /// reach the receiver.
    case retry(FailureKind, code: Int32, text: String, after: Int64?, isNotSent: Bool = false)
    /// A final failure.
    case reject(FailureKind, code: Int32, text: String)

    /// Whether the message reached the receiver.
    package var arrival: Attempt.Arrival {
        switch self {
        case .sent: .yes
        case .offline, .reject: .no
        case .retry(let kind, _, _, _, let isNotSent): isNotSent || kind == .rateLimit || kind == .offline ? .no : .perhaps
        }
    }
}

package enum Classification {
    /// Classifies an outcome. `now`: the wall time; nil: the clock is wrong. `perhapsArrived`: an earlier attempt may have reached the receiver; `conflictIsSent`: HTTP 409 then means
    /// that it did.
    package static func judge(
        _ outcome: Outcome, now: Int64?, perhapsArrived: Bool, conflictIsSent: Bool = false
    ) -> Judgement {
        let after = outcome.retryAfter ?? RetryAfter.parse(outcome.retryAfterHeader, now: now)
        switch outcome.verdict {
        case .sent: return .sent(code: outcome.code)
        case .offline, .skipped: return .offline(text: outcome.text)
        case .retry:
            return .retry(
                known(outcome.kind, or: .unknown), code: outcome.code, text: outcome.text, after: after, isNotSent: outcome.isNotSent)
        case .reject:
            return .reject(known(outcome.kind, or: .rejected), code: outcome.code, text: outcome.text)
        case .http:
            return http(outcome.code, text: outcome.text, after: after, perhapsArrived: perhapsArrived, conflictIsSent: conflictIsSent)
        case .unknown, .pending:
            let text = outcome.text.isEmpty ? "the transport returned no verdict" : outcome.text
            return .retry(.unknown, code: outcome.code, text: text, after: after)
        }
    }

    /// Returns the delay in milliseconds for the whole queue that the receiver requested; nil: none.
    package static func queueDelay(_ outcome: Outcome, now: Int64?) -> Int64? {
        guard outcome.retryAfterIsForQueue, outcome.verdict == .retry || outcome.verdict == .http else { return nil }
        let after = outcome.retryAfter ?? RetryAfter.parse(outcome.retryAfterHeader, now: now)
        return after.map { min(max($0, 0), Options.week) }
    }

    private static let successes: ClosedRange<Int32> = 200...299

    /// Whether the outcome stops no other attempt: the message is sent, or the outcome follows.
    static func letsOthersContinue(_ outcome: Outcome) -> Bool {
        switch outcome.verdict {
        case .sent, .pending: true
        case .http: successes.contains(outcome.code) && !outcome.retryAfterIsForQueue
        default: false
        }
    }

    /// Classifies an HTTP status. Unknown statuses are retried.
    static func http(
        _ status: Int32, text: String, after: Int64?, perhapsArrived: Bool, conflictIsSent: Bool
    ) -> Judgement {
        func retry(_ kind: FailureKind) -> Judgement { .retry(kind, code: status, text: text, after: after) }
        func reject(_ kind: FailureKind) -> Judgement { .reject(kind, code: status, text: text) }
        switch status {
        case successes: return .sent(code: status)
        // After an attempt that perhaps arrived, 409 may mean "a request with this key is still being processed" (the Idempotency-Key
        // draft, 2.7). If that request fails, the receiver does not have the message, so 409 counts as sent only with the host's option.
        case 409 where perhapsArrived: return conflictIsSent ? .sent(code: status) : retry(.server)
        case 401, 403: return reject(.unauthorized)
        case 404, 410: return reject(.notFound)
        case 408: return retry(.timeout)
        case 425: return retry(.server)
        case 429: return retry(.rateLimit)
        case 400...499: return reject(.rejected)
        case 500...599: return retry(.server)
        default: return retry(.unknown)
        }
    }

    private static func known(_ kind: FailureKind, or fallback: FailureKind) -> FailureKind {
        kind == .none ? fallback : kind
    }
}
