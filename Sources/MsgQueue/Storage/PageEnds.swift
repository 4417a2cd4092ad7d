/// Where pages of conversations ended, in the order of the highest sequence numbers. A page is continued from the sequence number of a
/// conversation's newest message by time, which may be gone or no longer the newest by then. Bounded: the oldest ends are dropped.
struct PageEnds {
    static let capacity = 1_024

    /// The highest sequence number of the conversation, by that of its newest message by time.
    private var highest: [Int64: Int64] = [:]
    /// The keys, in a ring that begins at `next` when it is full.
    private var newest: [Int64] = []
    private var next = 0

    /// Notes that a page ended with the conversation whose newest message by time is `newest`.
    mutating func note(_ message: Int64, highest last: Int64) {
        guard highest.updateValue(last, forKey: message) == nil else { return }
        guard newest.count == Self.capacity else { return newest.append(message) }
        highest[newest[next]] = nil
        newest[next] = message
        next = (next + 1) % Self.capacity
    }

    /// The highest sequence number that the conversation had; nil: unknown.
    subscript(message: Int64) -> Int64? { highest[message] }
}
