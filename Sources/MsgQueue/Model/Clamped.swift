/// Arithmetic on numbers from outside.
extension Int64 {
    /// Never beyond the smallest and the largest number.
    func subtractingClamped(_ other: Int64) -> Int64 {
        let (difference, overflow) = subtractingReportingOverflow(other)
        guard overflow else { return difference }
        return other > 0 ? Int64.min : Int64.max
    }
}
