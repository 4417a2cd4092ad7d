extension MessageQueue {
    /// The outcome of an attempt, as the transport returns it.
    public struct Outcome: Sendable, Hashable {
        package let engine: MsgQueue.Outcome

        package init(engine: MsgQueue.Outcome) { self.engine = engine }

        /// The receiver has the message, from this attempt or an earlier one.
        public static let sent = Outcome(engine: .sent)

        /// As ``sent``, with what the receiver has reported of the message already: `.delivered` or `.read`. The message gets that status as
        /// by ``MessageQueue/mark(_:as:)``, in the same commit. Another status is ignored with a warning in the log.
        public static func sent(receipt: Status) -> Outcome {
            var outcome = MsgQueue.Outcome.sent
            outcome.receipt = known(receipt)
            return Outcome(engine: outcome)
        }

        private static func known(_ receipt: Status?) -> Status? {
            guard let receipt, !StatusRule.isReceipt(receipt) else { return receipt }
            Log.warning("ignored the receipt of an outcome: it must be delivered or read, got \(receipt)")
            return nil
        }

        /// The message was not transmitted. Uses up no retry; the drain stops.
        public static let offline = Outcome(engine: .offline)

        /// As ``offline``, with the reason for people: "connection refused by 127.0.0.1:4222". See
        /// ``MessageQueue/setConnectivity(_:link:isMetered:reason:)``.
        public static func offline(reason: String) -> Outcome {
            Outcome(engine: MsgQueue.Outcome(verdict: .offline, kind: .offline, text: reason))
        }

        /// The attempt continues after the transport has returned: ``MessageQueue/complete(_:with:)`` gives its outcome later, from any
        /// thread or task. An attempt that is not completed within ``Options/attemptTimeout`` fails as a time-out.
        public static let pending = Outcome(engine: .pending)

        /// The transport did not try to send the message. It goes back to its place and uses up no retry; see
        /// ``MessageQueue/setBatchTransport(_:options:)``.
        public static let skipped = Outcome(engine: .skipped)

        /// A retryable failure.
        ///
        /// - Parameters:
        ///   - kind: Why it failed.
        ///   - code: For example an HTTP status.
        ///   - text: For developers.
        ///   - retryAfter: The minimum delay before the next attempt, at most 7 days; nil: the backoff decides.
        ///   - forQueue: `retryAfter` applies to the whole queue, not to this message only.
        ///   - isNotSent: The message certainly did not reach the receiver: the connection was refused, or the name was not found.
        public static func retry(
            _ kind: FailureKind = .unknown, code: Int? = nil, text: String = "", retryAfter: Duration? = nil, forQueue: Bool = false,
            isNotSent: Bool = false
        ) -> Outcome {
            var outcome = MsgQueue.Outcome.retry(
                kind.engine, code: Int32(clamping: code ?? 0), text: text, retryAfter: retryAfter.map { max(0, $0.milliseconds) })
            outcome.retryAfterIsForQueue = forQueue
            outcome.isNotSent = isNotSent
            return Outcome(engine: outcome)
        }

        /// A final failure: the message becomes `failed`.
        public static func reject(_ kind: FailureKind = .rejected, code: Int? = nil, text: String = "") -> Outcome {
            Outcome(engine: .reject(kind.engine, code: Int32(clamping: code ?? 0), text: text))
        }

        /// An HTTP response: the engine decides by the status and the value of the `Retry-After` header. `receipt`: as of ``sent(receipt:)``, if
        /// the status means that the receiver has the message.
        public static func http(
            _ status: Int, retryAfter: String = "", text: String = "", forQueue: Bool = false, receipt: Status? = nil
        ) -> Outcome {
            var outcome = MsgQueue.Outcome.http(Int32(clamping: status), retryAfter: retryAfter, text: text)
            outcome.retryAfterIsForQueue = forQueue
            outcome.receipt = known(receipt)
            return Outcome(engine: outcome)
        }
    }
}
