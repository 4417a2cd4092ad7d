/// How much one step of background work does. A step that took long is followed by smaller ones, so that callers wait only briefly for the
/// lock, whatever the store and the disk.
struct StepSize {
    /// In milliseconds.
    private let longest: Int64
    private let range: ClosedRange<Int64>
    private(set) var value: Int64

    init(_ value: Int64, in range: ClosedRange<Int64>, longest: Int64 = 2) {
        (self.value, self.range, self.longest) = (value, range, longest)
    }

    /// Notes how long a step took, in milliseconds.
    mutating func took(_ time: Int64) {
        if time > longest {
            value = max(value / 2, range.lowerBound)
        } else if time <= longest / 2 {
            value = min(value * 2, range.upperBound)
        }
    }
}
