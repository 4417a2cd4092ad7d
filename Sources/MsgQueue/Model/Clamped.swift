/// Arithmetic on untrusted numbers.
extension Int64 {
    /// Returns the sum, clamped to the range of the type.
    package func addingClamped(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        guard overflow else { return sum }
        return other > 0 ? Int64.max : Int64.min
    }

    /// Returns the difference, clamped to the range of the type.
    package func subtractingClamped(_ other: Int64) -> Int64 {
        let (difference, overflow) = subtractingReportingOverflow(other)
        guard overflow else { return difference }
        return other > 0 ? Int64.min : Int64.max
    }
}
