/// When the next attempt may begin, and how many may be in flight: the options `rate_per_second`, `rate_burst` and `ramp_up_ms`.
/// Times are milliseconds of a monotonic clock.
///
/// The rate counts from the calls of the transport. An attempt is chosen some time before its call, and a batch takes time to read; so its
/// attempts are only reserved, and the allowance is charged when the call begins. Until then each time is judged as if the calls of all
/// reserved attempts began at that time: they may begin later, when the allowance is no smaller.
package struct Pace: Sendable, Equatable {
    private let fullRate: Double
    private let fullSlots: Int
    private var bucket: RateBucket
    private var ramp: Ramp?
    /// Attempts that were chosen and whose calls have not begun.
    private var reserved = 0

    /// nil: the options set no rate.
    package init?(_ options: Options, openedAt now: Int64) {
        guard options.ratePerSecond > 0 else { return nil }
        let burst = Double(max(options.rateBurst, 1))
        (fullRate, fullSlots) = (options.ratePerSecond, options.maxInFlight)
        bucket = RateBucket(rate: fullRate, burst: burst, at: now)
        if options.rampUp > 0 { ramp = Ramp(rate: fullRate, burst: burst, slots: fullSlots, duration: options.rampUp) }
    }

    /// The present rate, in attempts per second.
    package var rate: Double { ramp?.rate ?? fullRate }
    package var maxInFlight: Int { ramp?.maxInFlight ?? fullSlots }
    package var isRamping: Bool { ramp.map { !$0.isFull } ?? false }
    package var hasRamp: Bool { ramp != nil }

    /// Whether another attempt may be chosen now.
    package func isOpen(at now: Int64) -> Bool { charged(at: now).isOpen(at: now) }

    /// The earliest time, not before now, at which another attempt may be chosen.
    package func opening(at now: Int64) -> Int64 { charged(at: now).opening(at: now) }

    /// The number of attempts that may be chosen now.
    package func available(at now: Int64) -> Double { charged(at: now).available(at: now) }

    /// The allowance if the calls of all reserved attempts began now.
    private func charged(at now: Int64) -> RateBucket {
        var charged = bucket
        if reserved > 0 { charged.take(reserved, at: now) }
        return charged
    }

    // MARK: Inputs

    /// Sending was interrupted; after it sending begins again.
    package mutating func restart(at now: Int64) { change(at: now) { $0.restart() } }

    /// An attempt was chosen.
    package mutating func reserve() { reserved += 1 }

    /// An attempt is no longer reserved: its call begins, or will not be made.
    package mutating func release() { reserved -= 1 }

    /// The call of an attempt begins.
    package mutating func began(at now: Int64) {
        bucket.take(at: now)
        change(at: now) { $0.began(at: now) }
    }

    /// An attempt that began at `startedAt` has ended.
    package mutating func ended(_ judgement: Judgement, startedAt: Int64, at now: Int64) {
        switch judgement {
        case .sent: change(at: now) { $0.succeeded(at: now) }
        // Nothing was transmitted.
        case .offline: restart(at: now)
        case .retry(let kind, let code, _, _, _):
            let isOverload = kind == .timeout || kind == .rateLimit || code == 429 || code == 503
            change(at: now) { $0.failed(startedAt: startedAt, isOverload: isOverload, at: now) }
        // The receiver works; the message was at fault.
        case .reject: break
        }
    }

    private mutating func change(at now: Int64, _ change: (inout Ramp) -> Void) {
        guard var changed = ramp else { return }
        let (rate, burst) = (changed.rate, changed.burst)
        change(&changed)
        ramp = changed
        if (changed.rate, changed.burst) != (rate, burst) { bucket.set(rate: changed.rate, burst: changed.burst, at: now) }
    }
}
