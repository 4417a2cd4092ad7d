/// A token bucket: decides when the next attempt may begin, so that in every window of T seconds at most `rate * T + burst` begin.
///
/// Times are whole milliseconds of a monotonic clock, rounded down. Between two readings m and n at least n - m - 1 ms have passed, so the
/// last millisecond of a wait is not counted: the promise also holds for the exact times.
package struct RateBucket: Sendable, Equatable {
    /// Attempts per millisecond.
    private var rate: Double
    private var burst: Double
    /// The time of the latest change.
    private var time: Int64
    /// The number of attempts that may begin at `time`.
    private var level: Double
    /// The number of attempts that may begin in the millisecond after `time`, whatever `level` is.
    private var ceiling: Double

    /// Attempts lost in rounding errors.
    private static let tolerance = 1e-9

    /// An empty bucket, because the attempts of an earlier process are not known. `rate` is per second.
    package init(rate: Double, burst: Double, at now: Int64) {
        (self.rate, self.burst, time, level, ceiling) = (rate / 1_000, burst, now, 0, 0)
    }

    /// The number of attempts that may begin now.
    package func available(at now: Int64) -> Double {
        guard now > time else { return level }
        let passed = Double(now.subtractingClamped(time))
        return min(level + rate * passed, ceiling + rate * (passed - 1), burst)
    }

    package func isOpen(at now: Int64) -> Bool { available(at: now) >= 1 - Self.tolerance }

    /// The earliest time, not before now, at which an attempt may begin.
    package func opening(at now: Int64) -> Int64 {
        if isOpen(at: now) { return now }
        let wait = max((1 - level) / rate, (1 - ceiling) / rate + 1, 1)
        let opening = max(now.addingClamped(1), time.addingClamped(Int64(min(wait, 9e15).rounded(.up))))
        // The sum may have been rounded up by a millisecond.
        return opening - 1 > now && isOpen(at: opening - 1) ? opening - 1 : opening
    }

    /// Attempts begin.
    package mutating func take(_ count: Int = 1, at now: Int64) {
        level = available(at: now) - Double(count)
        if now > time { (time, ceiling) = (now, burst - Double(count)) } else { ceiling -= Double(count) }
    }

    /// Changes rate (per second) and burst from now on.
    package mutating func set(rate: Double, burst: Double, at now: Int64) {
        if now > time { (level, ceiling, time) = (available(at: now), self.burst, now) }
        (self.rate, self.burst) = (rate / 1_000, burst)
        (level, ceiling) = (min(level, burst), min(ceiling, burst))
    }
}
