/// The time since the simulation began. The engine counts in milliseconds: fractions are truncated, and a negative time is 0.
public typealias VirtualTime = Duration

extension Duration {
    /// The number of whole milliseconds, at least 0.
    var wholeMilliseconds: Int64 {
        guard self > .zero else { return 0 }
        let (seconds, attoseconds) = components
        let (product, overflows) = seconds.multipliedReportingOverflow(by: 1_000)
        return overflows ? Int64.max / 4 : min(product, Int64.max / 4) + attoseconds / 1_000_000_000_000_000
    }
}
