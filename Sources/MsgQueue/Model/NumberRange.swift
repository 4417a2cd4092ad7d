/// The range of an option that is a whole number.
package struct NumberRange: Sendable {
    private let name: StaticString
    private let range: ClosedRange<Int>
    private let unit: StaticString

    init(_ name: StaticString, _ range: ClosedRange<Int>, unit: StaticString = "") {
        (self.name, self.range, self.unit) = (name, range, unit)
    }

    /// Returns the value as an `Int`. Throws `invalid` if it is out of the range. The values of a caller may be larger than an `Int`, and
    /// the error must name the value that was given: so a caller does not clamp it before this check.
    @discardableResult
    package func check<T: BinaryInteger>(_ value: T) throws(QueueError) -> Int {
        guard let number = Int(exactly: value), range.contains(number) else {
            throw QueueError(.invalid, "\(name) must be \(range.lowerBound) to \(range.upperBound)\(unit), got \(value)")
        }
        return number
    }
}
