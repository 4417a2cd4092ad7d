/// The delays between attempts after a retryable failure, in milliseconds.
package enum Backoff: Sendable, Equatable {
    /// Mode auto: 5 s, 30 s, 2 min. Modes ask and manual: none.
    case automatic
    /// One delay per retry, each 0 to 7 days, at most 64 of them.
    case ladder([Int64])
    /// base · factor^n, at most `cap`.
    case exponential(base: Int64, factor: Double, cap: Int64)
}

/// Who runs the callbacks of the host, and who performs what is due at a time.
package enum Callbacks: Int32, Sendable {
    /// Threads of the engine.
    case threads = 0
    /// The thread that polls; the engine has no thread.
    case poll = 1
    /// The thread that polls runs the callbacks; a thread of the engine performs what is due at a time.
    case pollWithTimer = 2
}

/// The options of a queue. `validate()` checks the ranges that are stated here.
package struct Options: Sendable, Equatable {
    package var mode: Mode = .auto
    /// A message enqueued while online, with nothing of its conversation waiting before it, is attempted at once.
    package var direct = true
    /// After a crash during an attempt: false sends the message again, true makes it `failed`.
    package var holdInterrupted = false
    /// Flushes every outcome to the disk, so that it survives a power loss.
    package var durableOutcomes = false
    /// HTTP 409 counts as sent if an earlier attempt may have arrived. Otherwise it is retried, because it may mean "still being
    /// processed".
    package var conflictIsSent = false
    /// Opens the store for reading only: nothing is written or sent, and changes throw `.permission`. For a closed store, a backup, or a
    /// store on a full or read-only disk.
    package var readOnly = false
    /// Refuses a store whose log lost its end (`.corrupt`), instead of opening it and reporting what is missing.
    package var refuseLostTail = false
    package var callbacks = Callbacks.threads
    /// 1 to 64.
    package var maxInFlight = 1
    /// Retries after the first attempt: 0 to 1000. A shorter ladder limits them further.
    package var maxRetries = 5
    package var backoff: Backoff = .automatic
    /// Each delay is varied randomly by up to this share: 0 to 1. With 0.2 or more, many clients of one receiver do not return together
    /// after an outage.
    package var jitter = 0.0
    /// What happens to a message whose retries are used up.
    package var exhausted: Exhausted = .keep
    /// What happens to a message that the receiver refuses. `discard` does not apply to expired messages, to interrupted attempts, after a
    /// manual retry, and with `pauseOnUnauthorized` to 401 and 403.
    package var refused: Refused = .keep
    /// Milliseconds, 1 to 1 day.
    package var attemptTimeout: Int64 = 30_000
    /// The timeout of attempts by `retry` and `sendNow`: milliseconds, 1 to 1 day.
    package var onDemandTimeout: Int64 = 3_000
    /// Milliseconds, 1 to 1 day.
    package var promptTimeout: Int64 = 10_000
    /// How long a connection must last before automatic sending starts, the prompt is raised, and the delays of messages that failed
    /// because of the network end: milliseconds, 0 to 1 hour.
    package var onlineDebounce: Int64 = 500
    /// The maximum number of attempts by one drain, and of automatic ones between two triggers; 0: no limit. Due retries do not count.
    package var drainBatch = 0
    /// True: a message that waits for its retry blocks its conversation. False: others may overtake it.
    package var strictOrder = true
    /// Whether a failed message blocks its conversation until it is retried or deleted.
    package var finalFailure: FinalFailure = .stepAside
    /// 401 and 403 pause the queue until `resume`, instead of failing every message.
    package var pauseOnUnauthorized = false
    /// Sends nothing while the link is metered.
    package var unmeteredOnly = false
    /// Timers start attempts also in the background.
    package var sendInBackground = false
    /// The interval of the periodic trigger: milliseconds, 0 to 1 day; 0: none.
    package var triggerInterval: Int64 = 0
    /// The default expiry of drafts, from their enqueue: milliseconds, 0 to 10 years; 0: never.
    package var expiry: Int64 = 0
    /// The maximum number of messages in the history; nil: no limit.
    package var keepSent: Int64? = 10_000
    /// How long a message stays in the history, in milliseconds; nil: no limit. Unread received messages are always kept and do not count.
    package var keepSentFor: Int64? = 30 * day
    /// How long the ids of sent and pruned messages are still refused as duplicates, in milliseconds.
    package var rememberIDs: Int64 = week
    /// The maximum number of unsent messages; 0: no limit.
    package var limitMessages: Int64 = 0
    /// The maximum size of all unsent bodies in bytes; 0: no limit.
    package var limitBytes: Int64 = 0
    /// The maximum size of a body in bytes: 1 to 256 MiB.
    package var limitBody: Int64 = 1 << 20
    /// The maximum size of a message's metadata in bytes: 0 to 16 MiB.
    package var limitMetadata: Int64 = 64 << 10
    /// What an enqueue does when a limit of messages, bytes or file bytes would be exceeded.
    package var onFull: OnFull = .refuse
    /// The maximum size of the store's files in bytes; 0: no limit. See `DiskSpace.use`.
    package var limitFileBytes: Int64 = 0

    /// The most attempts that begin in a second: more than 0, at most 1,000,000; 0: no limit.
    package var ratePerSecond = 0.0
    /// Attempts that may begin beyond the rate: in T seconds `ratePerSecond` · T + `rateBurst`. 1 to 2^32 - 1.
    package var rateBurst = 1
    /// After an outage, how long it takes at least to reach the full rate: milliseconds, 0 to 1 day; 0: no ramp. Needs a rate.
    package var rampUp: Int64 = 0
    /// While a backlog is sent, the share of the attempts that messages enqueued since then have: 0 to 1.
    package var liveShare = 0.5
    /// Of messages with equal priority, the one that expires first is sent first.
    package var soonestExpiryFirst = false
    /// For a tool that changes the store while the program that owns it does not run. See `MaintenanceRule`.
    package var maintenance = false
    /// What counts until connectivity is reported for the first time.
    package var initialConnectivity = Connectivity.unknown
    /// The prompt also asks about failed messages: a yes is a drain that includes them.
    package var promptForFailed = false
    /// How long opening waits for the lock of another owner: milliseconds, 0 to 1 day.
    package var wait: Int64 = 0
    /// How often the host is asked to take over what waits in its own places: milliseconds, 0 to 1 day; 0: never.
    package var collectInterval: Int64 = 5_000
    /// The most changes of messages that are kept; 0: none.
    package var keepChanges: Int64 = 0

    package init() {}

    /// The store is opened to be looked at or repaired. The program that sends has options of its own.
    package var isObserving: Bool { readOnly || maintenance }

    package init(mode: Mode, backoff: Backoff = .automatic, maxInFlight: Int = 1) {
        self.mode = mode
        self.backoff = backoff
        self.maxInFlight = maxInFlight
    }

    package static let day: Int64 = 86_400_000
    package static let week: Int64 = 7 * day
    package static let metadataPairs = 1024
    package static let bodyCeiling: Int64 = 256 << 20
    package static let limitBodyRange = NumberRange("limit of one body", 1...Int(bodyCeiling), unit: " bytes")
    package static let metadataCeiling: Int64 = 16 << 20
    package static let limitMetadataRange = NumberRange("limit of metadata", 0...Int(metadataCeiling), unit: " bytes")

    /// Throws `invalid`, with the name of the option, if a value is out of its range.
    package func validate() throws(QueueError) {
        try Self.check(maxInFlight, in: 1...64, "max in flight")
        try Self.check(maxRetries, in: 0...1000, "max retries")
        try Self.check(time: attemptTimeout, in: 1...Self.day, "attempt timeout")
        try Self.check(time: onDemandTimeout, in: 1...Self.day, "on-demand timeout")
        try Self.check(time: promptTimeout, in: 1...Self.day, "prompt timeout")
        try Self.check(time: onlineDebounce, in: 0...3_600_000, "online debounce")
        try Self.check(drainBatch, in: 0...Int(Int32.max), "drain batch")
        try Self.check(time: triggerInterval, in: 0...Self.day, "trigger interval")
        try Self.check(time: expiry, in: 0...(3_653 * Self.day), "expiry")
        try Self.checkNotNegative(keepSent ?? 0, "keep sent")
        try Self.checkNotNegative(time: keepSentFor ?? 0, "keep sent for")
        try Self.checkNotNegative(time: rememberIDs, "remember ids")
        try Self.checkNotNegative(limitMessages, "limit of messages")
        try Self.checkNotNegative(limitBytes, "limit of bytes")
        try Self.checkNotNegative(limitFileBytes, "limit of file bytes")
        try Self.checkNotNegative(keepChanges, "keep changes")
        try Self.limitBodyRange.check(limitBody)
        try Self.limitMetadataRange.check(limitMetadata)
        try Self.check(jitter, in: 0...1, "jitter")
        try Self.check(ratePerSecond, in: 0...1_000_000, "rate per second")
        try Self.check(rateBurst, in: 1...Int(UInt32.max), "rate burst")
        try Self.check(time: rampUp, in: 0...Self.day, "ramp up")
        guard rampUp == 0 || ratePerSecond > 0 else { throw QueueError(.invalid, "ramp up needs a rate per second") }
        try Self.check(liveShare, in: 0...1, "live share")
        try Self.check(time: wait, in: 0...Self.day, "wait")
        try Self.check(time: collectInterval, in: 0...Self.day, "collect interval")
        try Self.validate(backoff)
    }

    /// Throws `invalid` if a delay of the backoff is out of its range.
    package static func validate(_ backoff: Backoff) throws(QueueError) {
        switch backoff {
        case .automatic: break
        case .ladder(let delays):
            try Self.check(delays.count, in: 0...64, "steps of the ladder")
            for delay in delays { try Self.check(time: delay, in: 0...Self.week, "a delay of the ladder") }
        case .exponential(let base, let factor, let cap):
            try Self.check(time: base, in: 1...Self.week, "backoff base")
            try Self.check(factor, in: 1...100, "backoff factor")
            try Self.check(time: cap, in: base...Self.week, "backoff cap")
        }
    }

    private static func check<T: Comparable>(_ value: T, in range: ClosedRange<T>, _ name: String) throws(QueueError) {
        // No range contains NaN.
        guard range.contains(value) else {
            throw QueueError(.invalid, "\(name) must be \(range.lowerBound) to \(range.upperBound), got \(value)")
        }
    }

    private static func check(time: Int64, in range: ClosedRange<Int64>, _ name: String) throws(QueueError) {
        guard range.contains(time) else {
            let (first, last) = (TimeText.exact(range.lowerBound), TimeText.exact(range.upperBound))
            throw QueueError(.invalid, "\(name) must be \(first) to \(last), got \(TimeText.exact(time))")
        }
    }

    private static func checkNotNegative(_ value: Int64, _ name: String) throws(QueueError) {
        guard value >= 0 else { throw QueueError(.invalid, "\(name) must not be negative, got \(value)") }
    }

    private static func checkNotNegative(time: Int64, _ name: String) throws(QueueError) {
        guard time >= 0 else { throw QueueError(.invalid, "\(name) must not be negative, got \(TimeText.exact(time))") }
    }
}
