/// A conversation with something to send: its first queued messages, and whether there are more on disk.
///
/// What always holds: every queued message up to `last` is in `upcoming`, in `deferred` or in flight, and if there may be
/// one behind `last`, then
/// `more` is true.
struct Lane {
    /// So many are kept in memory; the rest stays on disk.
    static let window = 16

    /// The first queued messages in order; the first of them is next.
    var upcoming: [Head] = []
    /// Messages whose own condition keeps them (a time to come, a metered link): they hold nobody up, and come back in their place.
    var deferred: [Head] = []
    /// There may be queued messages behind `last`.
    var more = false
    var last: Int64 = 0
    /// The attempt under way; the conversation waits for it.
    var flight: UInt64?
    /// Messages in this range go without anybody's leave: enqueued online, with nothing waiting before them.
    var directFrom: Int64 = 0
    var directThrough: Int64 = 0
    /// The next message may join them: nothing without that leave came after them.
    var isChainOpen = false
    /// When the lane is to be looked at again (monotonic); 0: no ticket for it is out.
    var wakeAt: Int64 = 0
    /// When its first message that waits for a time is due (monotonic); 0: none does.
    var dueAt: Int64 = 0
    /// These were attempted in this run and come back by their timers, or follow one that does (mode ask).
    var asked: Set<Int64> = []
    /// What follows goes up to here; 0: nothing does.
    var askedThrough: Int64 = 0

    /// So many are kept in `deferred`; beyond that they hold their conversation.
    static let deferredCeiling = 1024

    /// Messages wait in it, or may.
    var hasMessages: Bool { !upcoming.isEmpty || !deferred.isEmpty || more }

    var isIdle: Bool { flight == nil && !hasMessages }

    /// Whether something here may go without a drain and without mode auto.
    var hasOwnLeave: Bool { directThrough != 0 || !asked.isEmpty || (more && askedThrough > last) }

    /// Nothing goes without leave any more.
    mutating func endChain() {
        (directFrom, directThrough, isChainOpen) = (0, 0, false)
    }

    func isDirect(_ sequence: Int64) -> Bool { sequence >= directFrom && sequence <= directThrough }

    /// A message behind all others of its conversation.
    mutating func append(_ head: Head) {
        guard head.sequence > last else { return }
        if !more, upcoming.count < Self.window {
            upcoming.append(head)
            last = head.sequence
        } else {
            more = true
        }
    }

    /// A message that returns to its place.
    mutating func insert(_ head: Head) {
        guard head.sequence <= last else {
            append(head)
            return
        }
        forget(head.sequence)
        let place = upcoming.firstIndex { $0.sequence > head.sequence } ?? upcoming.count
        upcoming.insert(head, at: place)
    }

    mutating func remove(_ sequence: Int64) {
        forget(sequence)
        asked.remove(sequence)
    }

    private mutating func forget(_ sequence: Int64) {
        upcoming.removeAll { $0.sequence == sequence }
        deferred.removeAll { $0.sequence == sequence }
    }

    /// Of these, which nothing of their own keeps, those up to `askedThrough` go, too.
    mutating func follow(_ heads: [Head]) {
        for head in heads where head.sequence <= askedThrough { asked.insert(head.sequence) }
    }

    /// Moves messages between `upcoming` and `deferred`, by what keeps them now.
    mutating func sort(_ isKept: (Head) -> Bool) {
        let free = deferred.filter { !isKept($0) }
        deferred.removeAll { !isKept($0) }
        for head in free { insert(head) }
        while let head = upcoming.first, isKept(head), deferred.count < Self.deferredCeiling {
            upcoming.removeFirst()
            deferred.append(head)
        }
    }
}
