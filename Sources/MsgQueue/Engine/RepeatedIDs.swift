/// Finds the ids that occur more than once in a batch: all are noted first, then asked for in the same order.
///
/// Hash values need less memory than a set of the ids.
struct RepeatedIDs {
    private var hashes: [Int] = []
    /// Hash values that occur more than once.
    private var repeated: Set<Int> = []
    private var seen: Set<Name> = []

    init(capacity: Int) { if capacity > 1 { hashes.reserveCapacity(capacity) } }

    mutating func note(_ id: String) { hashes.append(Name(id).hashValue) }

    /// Ends the noting. Returns whether an id may occur twice.
    mutating func search() -> Bool {
        hashes.sort()
        repeated = Set(zip(hashes, hashes.dropFirst()).lazy.filter { $0 == $1 }.map(\.0))
        hashes = []
        return !repeated.isEmpty
    }

    /// Whether this call is not the first one for the id.
    mutating func isRepeated(_ id: String) -> Bool { repeated.contains(Name(id).hashValue) && !seen.insert(Name(id)).inserted }
}
