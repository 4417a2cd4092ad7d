/// The conversations of which a message may start now, by rank and by age. Entries become stale when the head of a conversation changes;
/// the scheduler recognises and drops those when they become the first.
struct ReadyList {
    struct Entry: Comparable {
        let rank: Rank
        let conversation: Name
        static func < (left: Entry, right: Entry) -> Bool { left.rank < right.rank }
    }

    private(set) var byRank = Heap<Entry>()
    /// Not used while the rank is the age.
    private(set) var byAge = Heap<Scheduler.Ticket>()

    /// The conversations of the entries, in no particular order; some more than once.
    var conversations: [Name] { byRank.elements.map(\.conversation) }

    var count: Int { max(byRank.count, byAge.count) }

    mutating func insert(_ rank: Rank, _ conversation: Name, isRanked: Bool) {
        byRank.insert(Entry(rank: rank, conversation: conversation))
        if isRanked { byAge.insert(Scheduler.Ticket(key: rank.sequence, conversation: conversation)) }
    }

    /// Adds the entries of another list and removes them from it.
    mutating func take(from other: inout ReadyList) {
        byRank.insert(contentsOf: other.byRank)
        byAge.insert(contentsOf: other.byAge)
        other.removeAll()
    }

    mutating func removeFirst() { byRank.removeFirst() }

    mutating func removeOldest() { byAge.removeFirst() }

    /// Keeps one entry of each conversation whose entry is valid. `isValid` gets the conversation and the sequence of the entry.
    mutating func compact(_ isValid: (Name, Int64) -> Bool) {
        var (ranked, aged) = (Set<Name>(), Set<Name>())
        byRank.keep { isValid($0.conversation, $0.rank.sequence) && ranked.insert($0.conversation).inserted }
        byAge.keep { isValid($0.conversation, $0.key) && aged.insert($0.conversation).inserted }
    }

    mutating func removeAll() {
        byRank.removeAll()
        byAge.removeAll()
    }
}
