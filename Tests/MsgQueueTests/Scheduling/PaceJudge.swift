@testable import MsgQueue

/// Checks the rate and the ramp by the times of all starts, independently of `Pace`.
struct PaceJudge {
    private let options: Options
    private var rate: Double { options.ratePerSecond }
    private var burst: Double { Double(options.rateBurst) }
    private var starts = 0
    /// The smallest `number - rate * time` of all starts: the window that begins there permits the fewest further starts.
    private var lowest = Double.infinity
    /// Since when the ramp grows; nil: not started, or there was no interruption.
    private var ramp: (since: Double, starts: Int)?
    private var isInterrupted = false

    init(_ options: Options) { self.options = options }

    var isLimited: Bool { rate > 0 }
    var hasRamp: Bool { options.rampUp > 0 }

    private func seconds(_ now: Moment) -> Double { Double(now.mono) / 1_000 }

    /// A process opens the queue: as if the burst had just been used up.
    mutating func opened(_ now: Moment) { lowest = min(lowest, Double(starts) - rate * seconds(now) - burst) }

    /// Sending begins again after this.
    mutating func interrupted() { (isInterrupted, ramp) = (hasRamp, nil) }

    /// How many more starts the rate permits at this time.
    private func permitted(_ time: Double) -> Double { burst - (Double(starts) - rate * time) + min(lowest, Double(starts) - rate * time) }

    /// An attempt is chosen beside `taken` others.
    func starts(_ now: Moment, taken: Int, isOnDemand: Bool) throws {
        guard isLimited, hasRamp else { return }
        let whole = Double(options.rampUp) / 1_000
        guard let since = isInterrupted ? seconds(now) : ramp?.since, seconds(now) - since < whole else { return }
        let passed = seconds(now) - since
        let slots = Int(1 + Double(options.maxInFlight - 1) * passed / whole) + (isOnDemand ? Scheduler.manualSlots : 0)
        guard taken < slots else { throw Violation("attempt \(taken + 1) of \(slots) in flight started \(passed) s after the ramp began") }
    }

    /// The transport is called with so many messages: what a receiver sees.
    mutating func calls(_ messages: Int, _ now: Moment) throws {
        guard isLimited else { return }
        let time = seconds(now)
        for number in 0..<messages {
            guard permitted(time) >= 1 - 1e-6 else {
                throw Violation("the rate permits \(number) attempts, but the transport was called with \(messages)")
            }
            lowest = min(lowest, Double(starts) - rate * time)
            starts += 1
            try climbs(time)
        }
    }

    private mutating func climbs(_ time: Double) throws {
        guard hasRamp else { return }
        if isInterrupted { (isInterrupted, ramp) = (false, (time, 0)) }
        guard let (since, count) = ramp else { return }
        let (passed, whole, low) = (time - since, Double(options.rampUp) / 1_000, min(1, rate))
        guard passed < whole else {
            ramp = nil
            return
        }
        let most = 1 + low * passed + (rate - low) * passed * passed / (2 * whole)
        guard Double(count) + 1 <= most + 1e-6 else { throw Violation("attempt \(count + 1) started \(passed) s after the ramp began") }
        ramp = (since, count + 1)
    }

    /// A message could start, but the scheduler waits.
    func waits(until: Int64?, _ now: Moment) throws {
        guard isLimited else { throw Violation("it waits without a rate") }
        guard let until else { throw Violation("it waits for ever for the rate") }
        let lowestRate = hasRamp ? min(1, rate) : rate
        guard Double(until - now.mono) <= 1_000 / lowestRate + 2 else { throw Violation("it waits \(until - now.mono) ms for the rate") }
        // A millisecond for the resolution of the clock, and one for the rounding.
        guard hasRamp || permitted(Double(until - 3) / 1_000) < 1 else { throw Violation("it waits longer than the rate demands") }
    }
}
