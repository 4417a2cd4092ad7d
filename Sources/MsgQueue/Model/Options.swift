/// The delays between attempts after a retryable failure, in milliseconds.
package enum Backoff: Sendable, Equatable {
    /// Mode auto: 5 s, 30 s, 2 min. Modes ask and manual: none.
    case automatic
    /// One delay per retry, each 0 to 7 days, at most 64 of them.
    case ladder([Int64])
    /// base · factor^n, at most `cap`.
    case exponential(base: Int64, factor: Double, cap: Int64)
}

/// How a queue behaves. Every field has a stated range and a default; `validated()` checks them.
package struct Options: Sendable, Equatable {
    package var mode: Mode = .auto
    /// A message enqueued while online, with nothing of its conversation waiting before it, is attempted at once.
    package var direct = true
    /// After a crash in mid-attempt: false sends again, true makes the message `failed` for a person to decide.
    package var holdInterrupted = false
    /// Outcomes survive a power cut at one disk flush each.
    package var durableOutcomes = false
    /// HTTP 409 after an attempt that perhaps arrived counts as sent. Otherwise it is retried: it may mean "still being processed".
    package var conflictIsSent = false
    /// Opens a closed store, a backup, or a store on a full or read-only disk for reading only: nothing is written, nothing is sent;
    /// changes throw `.permission`.
    package var readOnly = false
    /// Refuses a store whose log lost its end (`.corrupt`) instead of opening what is whole and telling what is missing.
    package var refuseLostTail = false
    /// Callbacks run only inside `poll`, on the caller's thread.
    package var polled = false
    /// 1 to 64.
    package var maxInFlight = 1
    /// Retries after the first attempt: 0 to 1000. A ladder that is shorter ends earlier.
    package var maxRetries = 5
    package var backoff: Backoff = .automatic
    /// Each delay is varied by plus or minus this share: 0 to 1. Where many clients share a receiver, 0.2 or more keeps them from coming back
    /// together after an outage.
    package var jitter = 0.0
    /// What becomes of a message whose retries are used up.
    package var exhausted: Exhausted = .keep
    /// What becomes of a message that its receiver refuses for good. Discarded is not one that expired, not one whose interrupted
    /// attempt is held, and not after a retry by hand; with `pauseOnUnauthorized` not for 401 and 403.
    package var refused: Refused = .keep
    /// Milliseconds, 1 to 1 day.
    package var attemptTimeout: Int64 = 30_000
    /// The same for `retry` and `sendNow`.
    package var onDemandTimeout: Int64 = 3_000
    /// Milliseconds, 1 to 1 day.
    package var promptTimeout: Int64 = 10_000
    /// Milliseconds that a link must stay before automatic sending and the prompt, and before the delays of messages that failed for want
    /// of a network end: 0 to 1 hour.
    package var onlineDebounce: Int64 = 500
    /// Attempts started by one drain, and by the engine itself between two triggers; 0: all. Retries that are due do not count.
    package var drainBatch = 0
    /// A message that waits for its retry holds its conversation. Relaxed: others pass it.
    package var strictOrder = true
    /// A message that failed for good holds its conversation until a person retries or deletes it. Otherwise it steps aside.
    package var finalFailure: FinalFailure = .stepAside
    /// 401 and 403 pause the queue until `resume`, instead of failing message after message.
    package var pauseOnUnauthorized = false
    /// Send nothing while the link is metered.
    package var unmeteredOnly = false
    /// Timers fire in the background, too.
    package var sendInBackground = false
    /// Milliseconds between triggers by the clock, 0 to 1 day; 0: none.
    package var triggerInterval: Int64 = 0
    /// For drafts that say nothing: milliseconds after which they expire, 0 to 10 years; 0: never.
    package var expiry: Int64 = 0
    /// Messages kept as history: so many at most, nil: no limit ...
    package var keepSent: Int64? = 10_000
    /// ... and so long at most, in milliseconds, nil: no limit. Received messages that are not read do not count, and stay.
    package var keepSentFor: Int64? = 30 * day
    /// Milliseconds for which the ids of messages that were sent and pruned are still refused as duplicates.
    package var rememberIDs: Int64 = week
    /// Unsent messages; 0: no limit.
    package var limitMessages: Int64 = 0
    /// Bytes of unsent bodies; 0: no limit.
    package var limitBytes: Int64 = 0
    /// Bytes of one body: 1 to 256 MiB.
    package var limitBody: Int64 = 1 << 20
    /// Bytes of one message's metadata: 0 to 16 MiB.
    package var limitMetadata: Int64 = 64 << 10

    package init() {}

    package init(mode: Mode, backoff: Backoff = .automatic, maxInFlight: Int = 1) {
        self.mode = mode
        self.backoff = backoff
        self.maxInFlight = maxInFlight
    }

    package static let day: Int64 = 86_400_000
    package static let week: Int64 = 7 * day
    package static let metadataPairs = 1024
    package static let bodyCeiling: Int64 = 256 << 20

    /// Throws `invalid`, naming the field, when one is out of its range.
    package func validate() throws(QueueError) {
        try Self.check(maxInFlight, in: 1...64, "max in flight")
        try Self.check(maxRetries, in: 0...1000, "max retries")
        try Self.check(attemptTimeout, in: 1...Self.day, "attempt timeout (ms)")
        try Self.check(onDemandTimeout, in: 1...Self.day, "on-demand timeout (ms)")
        try Self.check(promptTimeout, in: 1...Self.day, "prompt timeout (ms)")
        try Self.check(onlineDebounce, in: 0...3_600_000, "online debounce (ms)")
        try Self.check(drainBatch, in: 0...Int(Int32.max), "drain batch")
        try Self.check(triggerInterval, in: 0...Self.day, "trigger interval (ms)")
        try Self.check(expiry, in: 0...(3_653 * Self.day), "expiry (ms)")
        try Self.check(keepSent ?? 0, in: 0...Int64.max, "messages kept")
        try Self.check(keepSentFor ?? 0, in: 0...Int64.max, "time that messages are kept (ms)")
        try Self.check(rememberIDs, in: 0...Int64.max, "time that ids are remembered (ms)")
        try Self.check(limitMessages, in: 0...Int64.max, "limit of messages")
        try Self.check(limitBytes, in: 0...Int64.max, "limit of bytes")
        try Self.check(limitBody, in: 1...Self.bodyCeiling, "limit of one body")
        try Self.check(limitMetadata, in: 0...(16 << 20), "limit of metadata")
        try Self.check(jitter, in: 0...1, "jitter")
        switch backoff {
        case .automatic: break
        case .ladder(let delays):
            try Self.check(delays.count, in: 0...64, "steps of the ladder")
            for delay in delays { try Self.check(delay, in: 0...Self.week, "delay in the ladder (ms)") }
        case .exponential(let base, let factor, let cap):
            try Self.check(base, in: 1...Self.week, "backoff base (ms)")
            try Self.check(factor, in: 1...100, "backoff factor")
            try Self.check(cap, in: base...Self.week, "backoff cap (ms)")
        }
    }

    private static func check<T: Comparable>(_ value: T, in range: ClosedRange<T>, _ name: String) throws(QueueError) {
        // NaN is in no range.
        guard range.contains(value) else {
            throw QueueError(.invalid, "\(name) is \(value), not in \(range.lowerBound)…\(range.upperBound)")
        }
    }
}
