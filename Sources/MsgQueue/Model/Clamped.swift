/// Arithmetic on numbers from outside.
extension Int64 {
    /// Never beyond the smallest and the largest number.
    package func addingClamped(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        guard overflow else { return sum }
        return other > 0 ? Int64.max : Int64.min
    }

    /// Never beyond the smallest and the largest number.
    package func subtractingClamped(_ other: Int64) -> Int64 {
        let (difference, overflow) = subtractingReportingOverflow(other)
        guard overflow else { return difference }
        return other > 0 ? Int64.min : Int64.max
    }
}
