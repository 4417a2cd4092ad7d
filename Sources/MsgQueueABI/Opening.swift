import CMsgQueue
import MsgQueue

@_cdecl("msgq_open") @implementation
public func msgq_open(
    _ path: UnsafePointer<CChar>!, _ options: UnsafePointer<msgq_options>!, _ out: UnsafeMutablePointer<OpaquePointer?>!
) -> msgq_result {
    status { () throws(QueueError) in
        let out = try require(out, "out")
        let path = try text(try require(path, "path"), "path")
        let engine = try Engine.open(path: path, options: try options.map { pointer throws(QueueError) in try read(pointer) } ?? Options())
        out.pointee = Handles.add(engine)
    }
}

@_cdecl("msgq_open_simulated") @implementation
public func msgq_open_simulated(
    _ path: UnsafePointer<CChar>!, _ options: UnsafePointer<msgq_options>!, _ start_ms: Int64, _ seed: UInt64,
    _ out: UnsafeMutablePointer<OpaquePointer?>!
) -> msgq_result {
    status { () throws(QueueError) in
        let out = try require(out, "out")
        let path = try text(try require(path, "path"), "path")
        let options = try options.map { pointer throws(QueueError) in try read(pointer) } ?? Options()
        out.pointee = Handles.add(try SimulatedTime.open(path: path, options: options, start: start_ms == 0 ? nil : start_ms, seed: seed))
    }
}

@_cdecl("msgq_advance") @implementation
public func msgq_advance(_ queue: OpaquePointer!, _ ms: Int64, _ now_ms: UnsafeMutablePointer<Int64>!) -> msgq_result {
    status { () throws(QueueError) in
        let now = try SimulatedTime.advance(Handles.engine(queue), by: ms)
        now_ms?.pointee = now
    }
}

@_cdecl("msgq_close") @implementation
public func msgq_close(_ queue: OpaquePointer!, _ timeout_ms: Int64) -> msgq_result {
    guard let queue else { return MSGQ_OK }
    return status { () throws(QueueError) in
        defer { Log.flushWhileExiting() }
        let closing = try Handles.engine(queue).close(timeout: timeout(timeout_ms))
        Handles.remove(queue)
        if let error = closing.error { throw error }
    }
}

@_cdecl("msgq_close_async") @implementation
public func msgq_close_async(
    _ queue: OpaquePointer!, _ timeout_ms: Int64, _ closed: msgq_closed_fn!, _ context: UnsafeMutableRawPointer!
) -> msgq_result {
    let host = HostContext(pointer: context, release: nil)
    let handle = UInt(bitPattern: queue)
    return status { () throws(QueueError) in
        try Handles.engine(queue).closeAsync(timeout: timeout(timeout_ms)) { closing in
            Handles.remove(OpaquePointer(bitPattern: handle))
            // Sets the error detail of this thread.
            let result = status { () throws(QueueError) in if let error = closing.error { throw error } }
            closed?(host.pointer, result)
        }
    }
}

/// Reads the caller's options. The engine checks their ranges; those of values that may be larger than its own types are checked here.
/// Where 0 has no meaning of its own it stands for the default.
private func read(_ pointer: UnsafePointer<msgq_options>) throws(QueueError) -> Options {
    let given = try Structs.read(
        pointer, "msgq_options", over: defaultOptions,
        flags: [
            \.strict_order, \.pause_on_unauthorized, \.unmetered_only, \.send_in_background, \.direct, \.hold_interrupted,
            \.durable_outcomes,
            \.conflict_is_sent, \.read_only, \.refuse_lost_tail, \.soonest_expiry_first, \.maintenance,
            \.prompt_for_failed,
        ])
    let defaults = defaultOptions
    var options = Options()
    options.mode = try choice(given.mode.rawValue, "mode")
    options.callbacks = try choice(given.callbacks.rawValue, "callbacks")
    options.initialConnectivity = try choice(UInt32(exactly: given.initial_connectivity) ?? UInt32.max, "initial_connectivity")
    options.exhausted = try choice(given.exhausted.rawValue, "exhausted")
    options.refused = try choice(given.refused.rawValue, "refused")
    options.finalFailure = try choice(given.final_failure.rawValue, "final_failure")
    options.strictOrder = given.strict_order
    options.pauseOnUnauthorized = given.pause_on_unauthorized
    options.unmeteredOnly = given.unmetered_only
    options.sendInBackground = given.send_in_background
    options.triggerInterval = given.trigger_interval_ms
    options.expiry = given.expiry_ms
    options.keepSent = given.keep_sent == UInt64.max ? nil : Int64(clamping: given.keep_sent)
    options.keepSentFor = given.keep_sent_ms < 0 ? nil : given.keep_sent_ms
    options.rememberIDs = given.remember_ids_ms
    options.direct = given.direct
    options.holdInterrupted = given.hold_interrupted
    options.durableOutcomes = given.durable_outcomes
    options.conflictIsSent = given.conflict_is_sent
    options.readOnly = given.read_only
    options.refuseLostTail = given.refuse_lost_tail
    options.maxInFlight = Int(given.max_in_flight.or(defaults.max_in_flight))
    options.maxRetries = Int(given.max_retries)
    options.backoff = try backoff(given)
    options.jitter = given.jitter
    options.attemptTimeout = given.attempt_timeout_ms.or(defaults.attempt_timeout_ms)
    options.onDemandTimeout = given.on_demand_timeout_ms.or(defaults.on_demand_timeout_ms)
    options.promptTimeout = given.prompt_timeout_ms.or(defaults.prompt_timeout_ms)
    options.onlineDebounce = given.online_debounce_ms
    options.drainBatch = Int(given.drain_batch)
    options.limitMessages = Int64(clamping: given.limit_messages)
    options.limitBytes = Int64(clamping: given.limit_bytes)
    options.limitBody = Int64(try Options.limitBodyRange.check(given.limit_body.or(defaults.limit_body)))
    options.limitMetadata = Int64(try Options.limitMetadataRange.check(given.limit_metadata))
    options.onFull = try choice(given.on_full.rawValue, "on_full")
    options.limitFileBytes = given.limit_file_bytes
    options.ratePerSecond = given.rate_per_second
    options.rateBurst = Int(given.rate_burst.or(1))
    options.rampUp = given.ramp_up_ms
    options.liveShare = given.live_share
    options.soonestExpiryFirst = given.soonest_expiry_first
    options.maintenance = given.maintenance
    options.promptForFailed = given.prompt_for_failed
    options.wait = given.wait_ms
    options.collectInterval = given.collect_interval_ms
    options.keepChanges = Int64(clamping: given.keep_changes)
    return options
}

extension Numeric {
    /// Returns this number, or the default if it is 0.
    fileprivate func or(_ value: Self) -> Self { self == .zero ? value : self }
}

/// Returns the backoff that is chosen. The fields of the others are checked as well: a mistake in them shows before they are chosen.
private func backoff(_ given: msgq_options) throws(QueueError) -> Backoff {
    let (ladder, exponential) = (try ladder(given), exponential(given))
    try Options.validate(ladder)
    try Options.validate(exponential)
    switch given.backoff {
    case MSGQ_BACKOFF_AUTOMATIC: return .automatic
    case MSGQ_BACKOFF_LADDER: return ladder
    case MSGQ_BACKOFF_EXPONENTIAL: return exponential
    default: throw QueueError(.invalid, "invalid backoff: \(shown(given.backoff.rawValue))")
    }
}

private func ladder(_ given: msgq_options) throws(QueueError) -> Backoff {
    guard (0...64).contains(given.ladder_count) else {
        throw QueueError(.invalid, "ladder_count must be 0 to 64, got \(UInt(bitPattern: given.ladder_count))")
    }
    guard given.ladder_count > 0 else { return .ladder([]) }
    let steps = try require(given.ladder_ms, "ladder_ms")
    return .ladder(Array(UnsafeBufferPointer(start: steps, count: given.ladder_count)))
}

private func exponential(_ given: msgq_options) -> Backoff {
    let defaults = defaultOptions
    let base = given.backoff_base_ms.or(defaults.backoff_base_ms)
    return .exponential(
        base: base, factor: given.backoff_factor.or(defaults.backoff_factor), cap: given.backoff_cap_ms.or(max(defaultCap, base)))
}

/// Returns the number of an enumerator as a caller gives it. The enumerations of C have no negative numbers, which makes -1 a large one.
func shown(_ number: UInt32) -> Int32 { Int32(bitPattern: number) }

/// Converts an enumerator of C.
func choice<T: RawRepresentable>(_ number: UInt32, _ name: StaticString) throws(QueueError) -> T where T.RawValue == Int32 {
    guard let small = Int32(exactly: number), let value = T(rawValue: small) else {
        throw QueueError(.invalid, "invalid \(name): \(shown(number))")
    }
    return value
}
