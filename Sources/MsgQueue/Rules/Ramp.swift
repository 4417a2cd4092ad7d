/// The rate, the burst and the number of attempts in flight after an outage. They begin low, grow with each success, and are halved when the
/// receiver is overloaded.
///
/// - Sending begins again (`restart`): 1 attempt in flight, a burst of 1, and 1 attempt per second, or the full rate if that is lower.
/// - A success adds the share of the way to the full values that one attempt takes at the present rate: `1 / (rate * duration)`. With
///   nothing but successes the growth is linear. The values are never above the straight line that begins with the first attempt after the
///   restart and reaches the full values `duration` later.
/// - An overload (429, 503, timeout) halves them, not below the first values. An attempt that began before the latest halving does not halve
///   them again.
/// - An outage of the receiver: an attempt failed, and none succeeded for `outage` or longer after it. The first success after it restarts.
///
/// Times are milliseconds of a monotonic clock.
package struct Ramp: Sendable, Equatable {
    /// How long failures without a success last at least in an outage.
    package static let outage: Int64 = 1_000

    private let fullRate: Double
    private let fullBurst: Double
    private let fullSlots: Double
    private let duration: Double
    /// Attempts per second.
    package private(set) var rate: Double
    package private(set) var burst: Double
    private var slots: Double
    private var line = Line.none
    /// The first failure since the latest success; nil: none.
    private var failingSince: Int64?
    private var halvedAt = Int64.min

    /// The line above which the values do not grow.
    private enum Line: Equatable {
        /// There was no restart.
        case none
        /// It begins with the next attempt.
        case awaited
        case since(Int64)
    }

    /// At the full values. `duration` is in milliseconds.
    package init(rate: Double, burst: Double, slots: Int, duration: Int64) {
        (fullRate, fullBurst, fullSlots, self.duration) = (rate, burst, Double(slots), Double(duration))
        (self.rate, self.burst, self.slots) = (rate, burst, Double(slots))
    }

    package var maxInFlight: Int { Int(slots) }
    package var isFull: Bool { rate >= fullRate && burst >= fullBurst && slots >= fullSlots }
    private var lowestRate: Double { min(1, fullRate) }

    /// Sending was interrupted: it begins again with the next attempt.
    package mutating func restart() { (rate, burst, slots, line, failingSince) = (lowestRate, 1, 1, .awaited, nil) }

    package mutating func began(at now: Int64) {
        if line == .awaited { line = .since(now) }
    }

    package mutating func succeeded(at now: Int64) {
        if let since = failingSince, now.subtractingClamped(since) >= Self.outage {
            restart()
            line = .since(now)
            return
        }
        failingSince = nil
        guard !isFull else { return }
        let share = min(1_000 / (rate * duration), 1)
        rate = grown(rate, from: lowestRate, to: fullRate, share, now)
        burst = grown(burst, from: 1, to: fullBurst, share, now)
        slots = grown(slots, from: 1, to: fullSlots, share, now)
    }

    private func grown(_ value: Double, from low: Double, to full: Double, _ share: Double, _ now: Int64) -> Double {
        let part = partOfLine(now)
        // The sum has a rounding error; the end of the line is the full value.
        let limit = part < 1 ? low + (full - low) * part : full
        return max(value, min(value + (full - low) * share, limit))
    }

    private func partOfLine(_ now: Int64) -> Double {
        switch line {
        case .none: 1
        case .awaited: 0
        case .since(let start): min(max(Double(now.subtractingClamped(start)), 0) / duration, 1)
        }
    }

    /// An attempt that began at `startedAt` failed and may be retried.
    package mutating func failed(startedAt: Int64, isOverload: Bool, at now: Int64) {
        if failingSince == nil { failingSince = now }
        guard isOverload, startedAt >= halvedAt else { return }
        halvedAt = now
        rate = max(rate / 2, lowestRate)
        burst = max(burst / 2, 1)
        slots = max(slots / 2, 1)
    }
}
