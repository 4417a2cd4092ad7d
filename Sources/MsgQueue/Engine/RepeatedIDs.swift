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

extension DraftBatch {
    /// Throws if an id is in the store, is still remembered (`since`: when the oldest of those was removed), or occurs twice.
    func checkDuplicates(in store: Store, since: Int64) throws(QueueError) {
        guard needs.hasIDs else { return }
        func duplicate(_ index: Int, _ detail: String) -> QueueError { QueueError(.duplicate, detail).ofDraft(index, of: count) }
        var ids = RepeatedIDs(capacity: count)
        try forEach { index, draft throws(QueueError) in
            guard let id = draft.id else { return }
            if try store.messages.contains(id) {
                throw duplicate(index, "id \(id) is already in the store")
            }
            if let isReceived = try store.recentIDs.isReceived(id, since: since) {
                let end = isReceived ? "belonged to a recorded message" : "was sent or replaced recently"
                throw duplicate(index, "id \(id) \(end) and is still remembered")
            }
            if count > 1 { ids.note(id) }
        }
        guard ids.search() else { return }
        try forEach { index, draft throws(QueueError) in
            if let id = draft.id, ids.isRepeated(id) { throw duplicate(index, "id \(id) occurs twice in the batch") }
        }
    }
}
