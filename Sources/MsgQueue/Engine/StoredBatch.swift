/// The messages that one call stored. Their sequence numbers and ids are computed when they are needed, because a batch may have a million
/// messages.
package struct StoredBatch {
    /// One of the messages.
    struct Message {
        let index: Int
        let sequence: Int64
        /// It took the place of another message.
        let isInPlace: Bool
        let draft: BorrowedDraft
        /// The generator of the id's random bits, before them.
        let bits: RandomBits
        fileprivate let now: Int64

        /// Whether the id is that of the draft, and not generated.
        var isNamed: Bool { draft.id != nil }

        var id: String {
            if let id = draft.id { return id }
            var bits = bits
            return MessageID.make(sequence: sequence, now: now, random: bits.next())
        }
    }

    /// What a hand-over adds to its drafts.
    struct Addition {
        /// The drafts that are stored as failed messages, by their positions.
        let failures: [Int: QueueError]
        /// Called in the transaction, after the drafts were stored. The transaction may be repeated.
        let write: () throws(QueueError) -> Void
    }

    private let drafts: DraftBatch
    /// The sequence number of the first message that took no other's place. The others follow without a gap.
    private let first: Int64
    /// The sequence numbers of those that took the place of another message, by the position of their drafts.
    private var places: [Int: Int64] = [:]
    private let now: Int64
    private let bits: RandomBits
    /// Whether the draft at this position was stored. Those that were not took no sequence number.
    private let isStored: (Int) -> Bool
    /// The drafts that were stored as failed messages; nil: none.
    private let failures: [Int: QueueError]?

    /// `first`: the store's next sequence number.
    init(
        _ drafts: DraftBatch, first: Int64, now: Int64, bits: RandomBits, failures: [Int: QueueError]? = nil,
        isStored: @escaping (Int) -> Bool = { _ in true }
    ) {
        (self.drafts, self.first, self.now, self.bits, self.isStored) = (drafts, first, now, bits, isStored)
        self.failures = failures
    }

    /// Why the draft at this position was stored as a failed message; nil: it was not.
    func failure(at index: Int) -> QueueError? { failures?[index] }

    /// The number of messages.
    var count: Int { drafts.count }

    /// The first message; nil: there is none.
    func firstMessage() throws(QueueError) -> Message? {
        guard count > 0 else { return nil }
        let place = places[0]
        return Message(
            index: 0, sequence: place ?? first, isInPlace: place != nil, draft: try drafts.draft(at: 0), bits: bits, now: now)
    }

    mutating func took(place: Int64, _ index: Int) { places[index] = place }

    /// Calls `body` for each message, in order.
    func forEach(_ body: (Message) throws(QueueError) -> Void) throws(QueueError) {
        var (next, bits) = (first, bits)
        try drafts.forEach { index, draft throws(QueueError) in
            guard isStored(index) else { return }
            let place = places.isEmpty ? nil : places[index]
            try body(
                Message(index: index, sequence: place ?? next, isInPlace: place != nil, draft: draft, bits: bits, now: now))
            if place == nil { next += 1 }
            _ = bits.next()
        }
    }

    /// Calls `body` with the position and the id of each message, while the call that stored them lasts.
    package func forEachID(_ body: (Int, String) -> Void) throws(QueueError) {
        do throws(QueueError) { try forEach { body($0.index, $0.id) } } catch {
            throw QueueError(.unknown, "the messages were stored, but their drafts were changed during the call: \(error.detail)")
        }
    }

    /// The ids in order, while the call that stored the messages lasts.
    package func ids() throws(QueueError) -> [String] {
        var ids: [String] = []
        ids.reserveCapacity(drafts.count)
        try forEachID { ids.append($1) }
        return ids
    }
}
