/// The messages of which a person asked for an attempt, in the order of the requests.
package struct ManualRequests {
    var entries: [Entry] = []

    struct Entry: Equatable {
        let conversation: Name
        let sequence: Int64
        let hand: Hand
    }

    var isEmpty: Bool { entries.isEmpty }
    var count: Int { entries.count }

    package func contains(_ sequence: Int64) -> Bool { entries.contains { $0.sequence == sequence } }

    /// Adds a request for this message, in place of an earlier one.
    package mutating func add(_ sequence: Int64, _ conversation: Name, _ hand: Hand) {
        remove(sequence)
        entries.append(Entry(conversation: conversation, sequence: sequence, hand: hand))
    }

    /// Removes a request that ends, or whose attempt begins.
    package mutating func remove(_ sequence: Int64) { entries.removeAll { $0.sequence == sequence } }

    /// Removes those of one conversation or of all.
    mutating func clear(_ conversation: Name?) { entries.removeAll { conversation == nil || $0.conversation == conversation } }

    /// The end of a request while offline or paused.
    func unreachable(_ gate: Gate) -> Step? {
        // There may be many requests, and most of the time none has to end.
        guard !gate.network.isOnline || gate.pauses.isPaused || !gate.pauses.conversations.isEmpty else { return nil }
        let entry = entries.first { !gate.network.isOnline || gate.isPaused($0.conversation) }
        return entry.map { .endUnreachable(conversation: $0.conversation, sequence: $0.sequence, hand: $0.hand) }
    }

    /// The start of the next one whose conversation is free.
    func next(_ lanes: LaneIndex) -> Step? {
        var busy: Name?
        for entry in entries where entry.conversation != busy {
            guard lanes[entry.conversation]?.flight != nil else {
                return .start(conversation: entry.conversation, sequence: entry.sequence, hand: entry.hand)
            }
            busy = entry.conversation
        }
        return nil
    }
}
