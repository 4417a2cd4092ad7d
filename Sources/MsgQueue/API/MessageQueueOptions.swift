extension MessageQueue {
    /// The options of a queue. Opening a queue throws `.invalid` if a value is out of its range.
    ///
    /// Time spans have a resolution of one millisecond and are rounded up.
    public struct Options: Sendable, Hashable {
        private static let defaults = MsgQueue.Options()

        /// Whether the engine or a person starts sending what is queued. Default: `.auto`.
        public var mode: Mode = defaults.mode
        /// A message that is enqueued while online, with no other message of its conversation waiting before it, is attempted at once.
        /// Default: true.
        public var direct = defaults.direct
        /// After a crash during an attempt: true makes the message `failed`, false sends it again. A crash uses up one retry; with false
        /// a message is `failed`, too, when a crash has used up more retries than ``maxRetries``, at least 2. Default: false.
        public var holdInterrupted = defaults.holdInterrupted
        /// Flushes every beginning and every outcome of an attempt to the disk, so that it survives power loss at once. Default: false.
        public var durableOutcomes = defaults.durableOutcomes
        /// HTTP 409 after an attempt that may have arrived counts as sent. Otherwise it is retried: it may mean that the first request is
        /// still being processed. Default: false.
        public var conflictIsSent = defaults.conflictIsSent
        /// Opens the store for reading only: nothing is written or sent, and changes throw `.permission`. For a closed store, a backup, or
        /// a store on a full or read-only disk. Default: false.
        public var readOnly = defaults.readOnly
        /// Refuses a store whose log lost its end (`.corrupt`), instead of opening it and reporting what is missing.
        /// Default: false.
        public var refuseLostTail = defaults.refuseLostTail
        /// The maximum number of attempts in flight, in different conversations: 1 to 64. Default: 1.
        public var maxInFlight = defaults.maxInFlight
        /// Retries after the first attempt: 0 to 1000. A shorter ladder limits them further. Default: 5.
        public var maxRetries = defaults.maxRetries
        /// The delays between attempts. Default: `.automatic`.
        public var backoff = Backoff.automatic
        /// Each delay varies by plus or minus this share: 0 to 1. Default: 0.
        public var jitter = defaults.jitter
        /// What happens to a message whose retries are used up. Default: `.keep`.
        public var exhausted: Exhausted = defaults.exhausted
        /// What happens to a message that the receiver refuses. Messages that expired, whose interrupted attempt is held or that were
        /// retried by hand are kept; with `pauseOnUnauthorized` also those refused with 401 or 403. Default: `.keep`.
        public var refused: Refused = defaults.refused
        /// The timeout of an attempt: 1 ms to 1 day. Default: 30 s.
        public var attemptTimeout = Duration.milliseconds(defaults.attemptTimeout)
        /// The timeout of an attempt by `retry` or `sendNow`: 1 ms to 1 day. Default: 3 s.
        public var onDemandTimeout = Duration.milliseconds(defaults.onDemandTimeout)
        /// When a prompt expires: after 1 ms to 1 day. Default: 10 s.
        public var promptTimeout = Duration.milliseconds(defaults.promptTimeout)
        /// How long a connection must last before automatic sending starts, the prompt is raised, and messages that failed because of the
        /// network are retried: 0 to 1 hour. Default: 500 ms.
        public var onlineDebounce = Duration.milliseconds(defaults.onlineDebounce)
        /// The maximum number of attempts by one drain, and of automatic ones between two triggers: 1 to 2147483647; nil: no limit. Due
        /// retries do not count. Default: nil.
        public var drainBatch: Int?
        /// A message that waits for its retry blocks its conversation. Otherwise others may overtake it. Default: true.
        public var strictOrder = defaults.strictOrder
        /// Whether a failed message blocks its conversation. Default: `.stepAside`.
        public var finalFailure: FinalFailure = defaults.finalFailure
        /// 401 and 403 pause the queue until `resume()` instead of failing every message. Default: false.
        public var pauseOnUnauthorized = defaults.pauseOnUnauthorized
        /// Sends nothing while the link is metered, except by ``MessageQueue/sendNow(_:)`` and ``MessageQueue/retry(_:)``. Default: false.
        public var unmeteredOnly = defaults.unmeteredOnly
        /// Timers also run in the background. Default: false.
        public var sendInBackground = defaults.sendInBackground
        /// Periodic trigger interval: more than 0, at most 1 day; nil: none. Default: nil.
        public var triggerInterval: Duration?
        /// The default expiry of drafts, from their enqueue: more than 0, at most 10 years; nil: never. Default: nil.
        public var expiry: Duration?
        /// The maximum number of messages in the history: 0 or more; nil: no limit. The oldest by ``Message/time`` are removed, within about
        /// a second; meanwhile there may be a tenth more, or the messages of one batch. Unread received messages are always kept and do not
        /// count. Default: 10,000.
        public var keepSent: Int? = defaults.keepSent.map { Int($0) }
        /// How long messages stay in the history, and up to a twentieth of it more, at most a minute: 0 or more; nil: no limit. Default: 30
        /// days.
        public var keepSentFor: Duration? = defaults.keepSentFor.map { .milliseconds($0) }
        /// How long the ids of messages that were sent and are gone, and of replaced ones (``Draft/replaceKey``), are refused as
        /// duplicates: 0 or more. Default: 7 days.
        public var rememberIDs = Duration.milliseconds(defaults.rememberIDs)
        /// The maximum number of unsent messages: 1 or more; nil: no limit. Default: nil.
        public var limitMessages: Int?
        /// The maximum size of all unsent bodies in bytes: 1 or more; nil: no limit. Default: nil.
        public var limitBytes: Int?
        /// The maximum size of a body in bytes: 1 to 256 MiB. Default: 1 MiB.
        public var limitBody = Int(defaults.limitBody)
        /// The maximum size of a message's metadata in bytes: 0 to 16 MiB. Default: 64 KiB.
        public var limitMetadata = Int(defaults.limitMetadata)
        /// What `enqueue` does when a limit of messages, bytes or file bytes would be exceeded. Default: `.refuse`.
        public var onFull: OnFull = defaults.onFull
        /// The maximum size of the database file and its log in bytes: 1 or more; nil: no limit. Free pages of the file are used again and
        /// do not count. Outcomes and deletions are always written; of attempts less is kept when the files are larger by more than 512 KiB
        /// (see ``MessageQueue/attempts(_:)``). With less than about 0.6 MiB every message is refused. Default: nil.
        public var limitFileBytes: Int?
        /// The most attempts that begin in a second, of every kind: more than 0, at most 1,000,000; nil: no limit. In any T seconds at most
        /// `ratePerSecond` · T + `rateBurst` begin. After opening, the first waits for 1 / `ratePerSecond` seconds. Default: nil.
        public var ratePerSecond: Double?
        /// Attempts that may begin together, after a time with fewer: 1 to 4,294,967,295. Default: 1. A batch has at most so many messages:
        /// for a batch transport set it to the size of a batch.
        public var rateBurst = defaults.rateBurst
        /// After an outage, attempts in flight and the rate begin at 1 and 1 per second, grow with each success, and reach the full values
        /// after this time at the earliest; HTTP 429, 503 and timeouts halve them. More than 0, at most 1 day; nil: no ramp. Needs
        /// `ratePerSecond`. Default: nil.
        public var rampUp: Duration?
        /// While a backlog is sent, this share of the attempts goes to messages enqueued since sending began: 0 (they wait for the whole
        /// backlog) to 1 (the backlog waits while there are any). Default: 0.5.
        ///
        /// Each attempt goes to the first message of one conversation; the order within a conversation never changes. First `liveShare`
        /// divides the attempts between the backlog and messages enqueued since. Of the messages of the chosen part, the one with the
        /// highest ``Draft/priority`` is next, of those with equal priority the one that expires soonest (only with
        /// ``soonestExpiryFirst``), then the oldest. One of 8 attempts of each part goes to its oldest message instead, so that none
        /// waits forever.
        ///
        /// A backlog is what was queued when sending began: at the launch, when a transport was set, when the connection returned, after
        /// a resume, in the foreground, with a drain, at the end of a wait (an outcome `offline`, a receiver's delay for the queue), with a
        /// trigger after the batch was used up, and with the first success after three or more retryable failures in a row.
        public var liveShare = defaults.liveShare
        /// Of messages with equal priority, those that expire are sent first, the soonest expiry first. Default: false.
        public var soonestExpiryFirst = defaults.soonestExpiryFirst
        /// For a tool that changes a store while the program that owns it does not run. Default: false.
        ///
        /// The file must exist. Nothing is pruned, forgotten, expired by time or discarded, and only a drain and `sendNow` send; ``mode``,
        /// ``direct``, ``keepSent``, ``keepSentFor``, ``rememberIDs``, ``expiry``, ``refused``, ``onFull`` and whether used-up retries
        /// discard a message have no effect. `retry` and `retryAll` put messages back to `queued` in their places, durably, also without a
        /// transport, and send nothing. An expired message fails when a drain reaches it.
        public var maintenance = defaults.maintenance
        /// What counts until the program or the monitor reports connectivity for the first time. Default: `.unknown`, which counts as
        /// online.
        ///
        /// With `.offline` the queue begins offline: it raises no prompt and calls no transport before the report, and the first report of
        /// `.online` counts as a return of the connection. If there is no report within 60 s, one line of the log says so.
        public var initialConnectivity: Connectivity = defaults.initialConnectivity
        /// Mode `ask`: the prompt also asks about failed messages: "Connected. Auto-send 5 queued and 2 failed messages?". The yes to it is
        /// a drain with `includeFailed`; one without sends the queued messages only. Default: false.
        public var promptForFailed = defaults.promptForFailed
        /// How long opening waits while another owner has the store open, in another process or in this one, before it throws `.locked`:
        /// 0 to 1 day, by the monotonic clock. Default: 0, which is 100 ms for another process.
        ///
        /// For a program that is started while the one before it still closes. The lock is tried every 5 ms; of several that wait any
        /// one may be the next. With ``readOnly`` it waits for the owner, and an owner for the readers.
        public var wait = Duration.milliseconds(defaults.wait)
        /// How often ``Event/collect`` asks the program to take over what waits in its own places: more than 0, at most 1 day; nil: never. It
        /// begins with the first `handedOver(source:)` of the open queue. Default: 5 s.
        public var collectInterval: Duration? = .milliseconds(defaults.collectInterval)
        /// The most changes of messages that are kept for `changes(after:limit:)`, the latest ones: 0 or more; nil: none. Default: nil.
        ///
        /// Each takes 10 to 30 bytes beside the id of its message, and the conversation where it is not that of the change before it; of
        /// ``limitFileBytes`` at most a quarter. When there is no room for them the oldest go, so that the limit is no reason to refuse an outcome
        /// for them. For a full disk 256 bytes are reserved for the changes of each unsent message; while it stays full the oldest go as well,
        /// and outcomes for whose changes there is no room are stored without them, so that earlier tokens throw `.conflict`. A store that is
        /// changed with nil begins anew with its next changes, with the same effect; only ``maintenance`` goes on as the program that owns
        /// the store has begun.
        public var keepChanges: Int?

        /// Creates options with their default values.
        public init() {}

        /// Creates options with default values but for these.
        public init(mode: Mode, backoff: Backoff = .automatic, maxInFlight: Int = 1) {
            self.mode = mode
            self.backoff = backoff
            self.maxInFlight = maxInFlight
        }
    }

    /// The delays between attempts after a retryable failure.
    public enum Backoff: Sendable, Hashable {
        /// Mode `auto`: 5 s, 30 s, 2 min. Modes `ask` and `manual`: none.
        case automatic
        /// One delay for each retry: 0 to 7 days each, at most 64 of them.
        case ladder([Duration])
        /// `base` times `factor` to the power of the retries made so far, at most `cap`: base 1 ms to 7 days, factor 1 to 100, cap from
        /// `base` to 7 days.
        case exponential(base: Duration, factor: Double, cap: Duration)
    }
}

extension MessageQueue.Options {
    /// Returns the options for the engine. Throws `.invalid`, with the name of the option, if a value is out of its range.
    package func checked() throws(QueueError) -> MsgQueue.Options {
        var options = MsgQueue.Options()
        options.mode = mode
        options.direct = direct
        options.holdInterrupted = holdInterrupted
        options.durableOutcomes = durableOutcomes
        options.conflictIsSent = conflictIsSent
        options.readOnly = readOnly
        options.refuseLostTail = refuseLostTail
        options.maxInFlight = maxInFlight
        options.maxRetries = maxRetries
        options.backoff = backoff.engine
        options.jitter = jitter
        options.exhausted = exhausted
        options.refused = refused
        options.attemptTimeout = attemptTimeout.milliseconds
        options.onDemandTimeout = onDemandTimeout.milliseconds
        options.promptTimeout = promptTimeout.milliseconds
        options.onlineDebounce = onlineDebounce.milliseconds
        options.drainBatch = try Self.orZero(drainBatch, "drain batch")
        options.strictOrder = strictOrder
        options.finalFailure = finalFailure
        options.pauseOnUnauthorized = pauseOnUnauthorized
        options.unmeteredOnly = unmeteredOnly
        options.sendInBackground = sendInBackground
        options.triggerInterval = try Self.orZero(time: triggerInterval, "trigger interval")
        options.expiry = try Self.orZero(time: expiry, "expiry")
        options.keepSent = keepSent.map { Int64($0) }
        options.keepSentFor = keepSentFor?.milliseconds
        options.rememberIDs = rememberIDs.milliseconds
        options.limitMessages = try Self.orZero(limitMessages.map { Int64($0) }, "limit of messages")
        options.limitBytes = try Self.orZero(limitBytes.map { Int64($0) }, "limit of bytes")
        options.limitBody = Int64(limitBody)
        options.limitMetadata = Int64(limitMetadata)
        options.onFull = onFull
        options.limitFileBytes = try Self.orZero(limitFileBytes.map { Int64($0) }, "limit of file bytes")
        options.ratePerSecond = try rate()
        options.rateBurst = rateBurst
        options.rampUp = try Self.orZero(time: rampUp, "ramp up")
        options.liveShare = liveShare
        options.soonestExpiryFirst = soonestExpiryFirst
        options.maintenance = maintenance
        options.initialConnectivity = initialConnectivity
        options.promptForFailed = promptForFailed
        options.wait = wait.milliseconds
        options.collectInterval = try Self.orZero(time: collectInterval, "collect interval")
        options.keepChanges = try Self.orZero(keepChanges.map { Int64($0) }, "keep changes")
        try options.validate()
        return options
    }

    private func rate() throws(QueueError) -> Double {
        guard let ratePerSecond else { return 0 }
        guard ratePerSecond > 0 else {
            throw QueueError(.invalid, "rate per second must be positive, or nil for none, got \(ratePerSecond)")
        }
        return ratePerSecond
    }

    /// Returns 0 for nil, as the engine expects; here a value of 0 is an error.
    private static func orZero<T: BinaryInteger>(_ value: T?, _ name: String) throws(QueueError) -> T {
        guard let value else { return 0 }
        guard value > 0 else { throw QueueError(.invalid, "\(name) must be positive, or nil for none, got \(value)") }
        return value
    }

    private static func orZero(time: Duration?, _ name: String) throws(QueueError) -> Int64 {
        guard let time else { return 0 }
        guard time.milliseconds > 0 else {
            throw QueueError(.invalid, "\(name) must be positive, or nil for none, got \(TimeText.exact(time.milliseconds))")
        }
        return time.milliseconds
    }
}

extension MessageQueue.Backoff {
    package var engine: MsgQueue.Backoff {
        switch self {
        case .automatic: .automatic
        case .ladder(let delays): .ladder(delays.map(\.milliseconds))
        case .exponential(let base, let factor, let cap):
            .exponential(base: base.milliseconds, factor: factor, cap: cap.milliseconds)
        }
    }
}
