/// A delay that doubles with each failure, in milliseconds.
struct GrowingDelay {
    private let first: Int64
    private let longest: Int64
    private var delay: Int64 = 0

    init(first: Int64, longest: Int64) { (self.first, self.longest) = (first, longest) }

    /// Returns the delay after another failure.
    mutating func next() -> Int64 {
        delay = min(max(delay * 2, first), longest)
        return delay
    }

    /// Starts again with the first delay, after a success.
    mutating func reset() { delay = 0 }
}
