// The coded form of options: each property under its name; what is absent has its default. See <doc:CodedValues>.

extension MessageQueue.Options: Codable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init()
        mode = try fields.value("mode", or: mode)
        initialConnectivity = try fields.value("initialConnectivity", or: initialConnectivity)
        direct = try fields.value("direct", or: direct)
        holdInterrupted = try fields.value("holdInterrupted", or: holdInterrupted)
        durableOutcomes = try fields.value("durableOutcomes", or: durableOutcomes)
        conflictIsSent = try fields.value("conflictIsSent", or: conflictIsSent)
        readOnly = try fields.value("readOnly", or: readOnly)
        refuseLostTail = try fields.value("refuseLostTail", or: refuseLostTail)
        maxInFlight = try fields.value("maxInFlight", or: maxInFlight)
        maxRetries = try fields.value("maxRetries", or: maxRetries)
        backoff = try fields.value("backoff", or: backoff)
        jitter = try fields.value("jitter", or: jitter)
        exhausted = try fields.value("exhausted", or: exhausted)
        refused = try fields.value("refused", or: refused)
        attemptTimeout = try fields.duration("attemptTimeout") ?? attemptTimeout
        onDemandTimeout = try fields.duration("onDemandTimeout") ?? onDemandTimeout
        promptTimeout = try fields.duration("promptTimeout") ?? promptTimeout
        onlineDebounce = try fields.duration("onlineDebounce") ?? onlineDebounce
        drainBatch = try fields.nullable("drainBatch", or: drainBatch)
        strictOrder = try fields.value("strictOrder", or: strictOrder)
        finalFailure = try fields.value("finalFailure", or: finalFailure)
        pauseOnUnauthorized = try fields.value("pauseOnUnauthorized", or: pauseOnUnauthorized)
        unmeteredOnly = try fields.value("unmeteredOnly", or: unmeteredOnly)
        sendInBackground = try fields.value("sendInBackground", or: sendInBackground)
        triggerInterval = try fields.nullable(duration: "triggerInterval", or: triggerInterval)
        expiry = try fields.nullable(duration: "expiry", or: expiry)
        keepSent = try fields.nullable("keepSent", or: keepSent)
        keepSentFor = try fields.nullable(duration: "keepSentFor", or: keepSentFor)
        rememberIDs = try fields.duration("rememberIDs") ?? rememberIDs
        limitMessages = try fields.nullable("limitMessages", or: limitMessages)
        limitBytes = try fields.nullable("limitBytes", or: limitBytes)
        limitBody = try fields.value("limitBody", or: limitBody)
        limitMetadata = try fields.value("limitMetadata", or: limitMetadata)
        onFull = try fields.value("onFull", or: onFull)
        limitFileBytes = try fields.nullable("limitFileBytes", or: limitFileBytes)
        ratePerSecond = try fields.nullable("ratePerSecond", or: ratePerSecond)
        rateBurst = try fields.value("rateBurst", or: rateBurst)
        rampUp = try fields.nullable(duration: "rampUp", or: rampUp)
        liveShare = try fields.value("liveShare", or: liveShare)
        soonestExpiryFirst = try fields.value("soonestExpiryFirst", or: soonestExpiryFirst)
        maintenance = try fields.value("maintenance", or: maintenance)
        promptForFailed = try fields.value("promptForFailed", or: promptForFailed)
        wait = try fields.duration("wait") ?? wait
        collectInterval = try fields.nullable(duration: "collectInterval", or: collectInterval)
        keepChanges = try fields.nullable("keepChanges", or: keepChanges)
    }

    /// Writes each property under its name.
    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: FieldName.self)
        try fields.encode(mode, forKey: "mode")
        try fields.encode(initialConnectivity, forKey: "initialConnectivity")
        try fields.encode(direct, forKey: "direct")
        try fields.encode(holdInterrupted, forKey: "holdInterrupted")
        try fields.encode(durableOutcomes, forKey: "durableOutcomes")
        try fields.encode(conflictIsSent, forKey: "conflictIsSent")
        try fields.encode(readOnly, forKey: "readOnly")
        try fields.encode(refuseLostTail, forKey: "refuseLostTail")
        try fields.encode(maxInFlight, forKey: "maxInFlight")
        try fields.encode(maxRetries, forKey: "maxRetries")
        try fields.encode(backoff, forKey: "backoff")
        try fields.encode(jitter, forKey: "jitter")
        try fields.encode(exhausted, forKey: "exhausted")
        try fields.encode(refused, forKey: "refused")
        try fields.encode(milliseconds: attemptTimeout, forKey: "attemptTimeout")
        try fields.encode(milliseconds: onDemandTimeout, forKey: "onDemandTimeout")
        try fields.encode(milliseconds: promptTimeout, forKey: "promptTimeout")
        try fields.encode(milliseconds: onlineDebounce, forKey: "onlineDebounce")
        try fields.encode(drainBatch, forKey: "drainBatch")
        try fields.encode(strictOrder, forKey: "strictOrder")
        try fields.encode(finalFailure, forKey: "finalFailure")
        try fields.encode(pauseOnUnauthorized, forKey: "pauseOnUnauthorized")
        try fields.encode(unmeteredOnly, forKey: "unmeteredOnly")
        try fields.encode(sendInBackground, forKey: "sendInBackground")
        try fields.encode(millisecondsOrNull: triggerInterval, forKey: "triggerInterval")
        try fields.encode(millisecondsOrNull: expiry, forKey: "expiry")
        try fields.encode(keepSent, forKey: "keepSent")
        try fields.encode(millisecondsOrNull: keepSentFor, forKey: "keepSentFor")
        try fields.encode(milliseconds: rememberIDs, forKey: "rememberIDs")
        try fields.encode(limitMessages, forKey: "limitMessages")
        try fields.encode(limitBytes, forKey: "limitBytes")
        try fields.encode(limitBody, forKey: "limitBody")
        try fields.encode(limitMetadata, forKey: "limitMetadata")
        try fields.encode(onFull, forKey: "onFull")
        try fields.encode(limitFileBytes, forKey: "limitFileBytes")
        try fields.encode(ratePerSecond, forKey: "ratePerSecond")
        try fields.encode(rateBurst, forKey: "rateBurst")
        try fields.encode(millisecondsOrNull: rampUp, forKey: "rampUp")
        try fields.encode(liveShare, forKey: "liveShare")
        try fields.encode(soonestExpiryFirst, forKey: "soonestExpiryFirst")
        try fields.encode(maintenance, forKey: "maintenance")
        try fields.encode(promptForFailed, forKey: "promptForFailed")
        try fields.encode(milliseconds: wait, forKey: "wait")
        try fields.encode(millisecondsOrNull: collectInterval, forKey: "collectInterval")
        try fields.encode(keepChanges, forKey: "keepChanges")
    }
}

extension MessageQueue.BatchOptions: Codable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init()
        maxMessages = try fields.value("maxMessages", or: maxMessages)
        maxBytes = try fields.value("maxBytes", or: maxBytes)
        linger = try fields.duration("linger") ?? linger
        singleConversation = try fields.value("singleConversation", or: singleConversation)
        maxBatches = try fields.value("maxBatches", or: maxBatches)
    }

    /// Writes each property under its name.
    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: FieldName.self)
        try fields.encode(maxMessages, forKey: "maxMessages")
        try fields.encode(maxBytes, forKey: "maxBytes")
        try fields.encode(milliseconds: linger, forKey: "linger")
        try fields.encode(singleConversation, forKey: "singleConversation")
        try fields.encode(maxBatches, forKey: "maxBatches")
    }
}

extension MessageQueue.Backoff: Codable {
    /// Reads the value.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        let kind: String = try fields.value("kind")
        switch kind {
        case "automatic": self = .automatic
        case "ladder": self = .ladder(try fields.value("delays", or: [Int64]()).map { .milliseconds($0) })
        case "exponential":
            self = .exponential(
                base: try fields.duration("base") ?? .seconds(5), factor: try fields.value("factor", or: 2),
                cap: try fields.duration("cap") ?? .seconds(3_600))
        default: throw fields.error("kind", "unknown: \(kind)")
        }
    }

    /// Writes the kind and its delays in milliseconds.
    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: FieldName.self)
        switch self {
        case .automatic: try fields.encode("automatic", forKey: "kind")
        case .ladder(let delays):
            try fields.encode("ladder", forKey: "kind")
            try fields.encode(delays.map(\.milliseconds), forKey: "delays")
        case .exponential(let base, let factor, let cap):
            try fields.encode("exponential", forKey: "kind")
            try fields.encode(milliseconds: base, forKey: "base")
            try fields.encode(factor, forKey: "factor")
            try fields.encode(milliseconds: cap, forKey: "cap")
        }
    }
}
