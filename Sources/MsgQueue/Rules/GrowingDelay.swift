/// Delays that double from one failure to the next, in milliseconds.
struct GrowingDelay {
    private let first: Int64
    private let longest: Int64
    private var delay: Int64 = 0

    init(first: Int64, longest: Int64) { (self.first, self.longest) = (first, longest) }

    /// The delay after one more failure.
    mutating func next() -> Int64 {
        delay = min(max(delay * 2, first), longest)
        return delay
    }

    /// It went well: the next delay is the first one again.
    mutating func reset() { delay = 0 }
}
