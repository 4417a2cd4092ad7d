import CMsgQueue
import MsgQueue

/// The default of backoff_cap_ms. A longer base raises it.
let defaultCap: Int64 = 3_600_000

/// The structs that callers fill, with every field at its default.
var defaultOptions: msgq_options {
    let defaults = Options()
    var options = msgq_options()
    options.struct_size = UInt32(MemoryLayout<msgq_options>.stride)
    options.direct = defaults.direct
    options.max_in_flight = UInt32(defaults.maxInFlight)
    options.max_retries = UInt32(defaults.maxRetries)
    options.backoff_base_ms = 5_000
    options.backoff_factor = 2
    // Not set: it is `defaultCap`, or the base.
    options.backoff_cap_ms = 0
    options.attempt_timeout_ms = defaults.attemptTimeout
    options.on_demand_timeout_ms = defaults.onDemandTimeout
    options.prompt_timeout_ms = defaults.promptTimeout
    options.online_debounce_ms = defaults.onlineDebounce
    options.strict_order = defaults.strictOrder
    options.keep_sent = defaults.keepSent.map { UInt64(clamping: $0) } ?? UInt64.max
    options.keep_sent_ms = defaults.keepSentFor ?? -1
    options.remember_ids_ms = defaults.rememberIDs
    options.limit_body = UInt64(defaults.limitBody)
    options.limit_metadata = UInt64(defaults.limitMetadata)
    options.live_share = defaults.liveShare
    options.collect_interval_ms = defaults.collectInterval
    return options
}

var defaultDraft: msgq_draft {
    var draft = msgq_draft()
    draft.struct_size = UInt32(MemoryLayout<msgq_draft>.stride)
    return draft
}

var defaultFilter: msgq_filter {
    var filter = msgq_filter()
    filter.struct_size = UInt32(MemoryLayout<msgq_filter>.stride)
    filter.limit = 50
    return filter
}

var defaultOutcome: msgq_outcome {
    var outcome = msgq_outcome()
    outcome.struct_size = UInt32(MemoryLayout<msgq_outcome>.stride)
    outcome.retry_after_ms = -1
    return outcome
}

var defaultDrainOptions: msgq_drain_options {
    var options = msgq_drain_options()
    options.struct_size = UInt32(MemoryLayout<msgq_drain_options>.stride)
    options.timeout_ms = -1
    return options
}

// MARK: For languages without macros

@_cdecl("msgq_options_init") @implementation
public func msgq_options_init(_ options: UnsafeMutablePointer<msgq_options>!) { options?.initialize(to: defaultOptions) }

@_cdecl("msgq_draft_init") @implementation
public func msgq_draft_init(_ draft: UnsafeMutablePointer<msgq_draft>!) { draft?.initialize(to: defaultDraft) }

@_cdecl("msgq_filter_init") @implementation
public func msgq_filter_init(_ filter: UnsafeMutablePointer<msgq_filter>!) { filter?.initialize(to: defaultFilter) }

@_cdecl("msgq_outcome_init") @implementation
public func msgq_outcome_init(_ outcome: UnsafeMutablePointer<msgq_outcome>!) { outcome?.initialize(to: defaultOutcome) }

@_cdecl("msgq_drain_options_init") @implementation
public func msgq_drain_options_init(_ options: UnsafeMutablePointer<msgq_drain_options>!) {
    options?.initialize(to: defaultDrainOptions)
}
