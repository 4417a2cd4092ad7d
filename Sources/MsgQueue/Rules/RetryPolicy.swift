/// The delays before retries, as the options define them.
package struct RetryPolicy: Sendable, Equatable {
    /// The number of retries.
    package let steps: Int
    private let backoff: Backoff
    private let jitter: Double

    package init(_ options: Options) {
        jitter = options.jitter
        switch options.backoff {
        case .automatic:
            let ladder: [Int64] = options.mode == .auto ? [5_000, 30_000, 120_000] : []
            backoff = .ladder(ladder)
            steps = min(ladder.count, options.maxRetries)
        case .ladder(let ladder):
            backoff = options.backoff
            steps = min(ladder.count, options.maxRetries)
        case .exponential:
            backoff = options.backoff
            steps = options.maxRetries
        }
    }

    /// Returns the delay in milliseconds before the next retry after `used` retries; nil: no retry is left. If the receiver requested a
    /// longer delay, that applies, up to 7 days. `random` is in 0..<1.
    package func delay(afterRetries used: Int, requested: Int64?, random: Double) -> Int64? {
        guard used >= 0, used < steps else { return nil }
        let plain: Int64
        switch backoff {
        case .automatic: return nil
        case .ladder(let ladder): plain = ladder[used]
        case .exponential(let base, let factor, let cap): plain = Self.exponential(base, factor, cap, used)
        }
        let varied = Double(plain) * (1 + jitter * (2 * random - 1))
        return max(Int64(min(max(varied, 0), Double(Options.week))), min(max(requested ?? 0, 0), Options.week))
    }

    private static func exponential(_ base: Int64, _ factor: Double, _ cap: Int64, _ used: Int) -> Int64 {
        var delay = Double(base)
        for _ in 0..<used where delay < Double(cap) { delay *= factor }
        return Int64(min(delay, Double(cap)))
    }
}
