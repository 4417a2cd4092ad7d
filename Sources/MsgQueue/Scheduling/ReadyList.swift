/// The conversations of which a message may start now, by rank and by age. Entries become stale when the head of a conversation changes;
/// `Chooser` recognises and drops those when they become the first.
struct ReadyList {
    struct Entry: Comparable {
        let rank: Rank
        let conversation: Name
        static func < (left: Entry, right: Entry) -> Bool { left.rank < right.rank }
    }

    private(set) var byRank = Heap<Entry>()
    /// Not used while the rank is the age.
    private(set) var byAge = Heap<LaneIndex.Ticket>()

    /// The conversations of the entries, in no particular order; some more than once.
    var conversations: [Name] { byRank.elements.map(\.conversation) }

    var count: Int { max(byRank.count, byAge.count) }

    mutating func insert(_ rank: Rank, _ conversation: Name, isRanked: Bool) {
        byRank.insert(Entry(rank: rank, conversation: conversation))
        if isRanked { byAge.insert(LaneIndex.Ticket(key: rank.sequence, conversation: conversation)) }
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

    mutating func drop(into dropped: inout DroppedEntries) {
        dropped.take(&byRank)
        dropped.take(&byAge)
    }
}

/// The messages that may start now, of the backlog and of those that were enqueued since.
struct ReadyLists {
    private var backlog = ReadyList()
    private var live = ReadyList()
    /// Queued messages up to this sequence are the backlog; later ones are live.
    private(set) var backlogThrough: Int64 = 0
    /// The highest sequence that was assigned.
    private var newest: Int64 = 0

    mutating func noteNewest(_ sequence: Int64) { newest = max(newest, sequence) }

    /// Sending begins again: what is queued now is the backlog.
    mutating func beginBacklog() {
        backlogThrough = newest
        backlog.take(from: &live)
    }

    func side(of sequence: Int64) -> TurnRule.Side { sequence > backlogThrough ? .live : .backlog }

    /// (Not a computed property of the value: that would copy the heaps.)
    subscript(side: TurnRule.Side) -> ReadyList {
        get { side == .live ? live : backlog }
        _modify {
            switch side {
            case .backlog: yield &backlog
            case .live: yield &live
            }
        }
    }

    /// In no particular order; some more than once.
    var conversations: [Name] { backlog.conversations + live.conversations }

    mutating func drop(into dropped: inout DroppedEntries) {
        backlog.drop(into: &dropped)
        live.drop(into: &dropped)
    }
}
