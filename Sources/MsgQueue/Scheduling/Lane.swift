/// One moment on both clocks, in milliseconds: wall time for what people and receivers say, monotonic time for waiting.
package struct Moment: Sendable, Equatable {
    package var wall: Int64
    package var mono: Int64

    package init(wall: Int64, mono: Int64) {
        self.wall = wall
        self.mono = mono
    }
}

/// What the scheduler needs to know of a queued message.
package struct Head: Sendable, Equatable {
    package var sequence: Int64
    /// After a retryable failure: wall time, and the delay that led to it. 0: none.
    package var dueAt: Int64 = 0
    package var dueDelay: Int64 = 0
    package var notBefore: Int64 = 0
    package var expiresAt: Int64 = 0
    package var unmeteredOnly = false
    /// When its retry is due by the monotonic clock, which no change of the wall clock moves.
    package var due: Int64?

    package init(
        sequence: Int64, dueAt: Int64 = 0, dueDelay: Int64 = 0, notBefore: Int64 = 0, expiresAt: Int64 = 0, unmeteredOnly: Bool = false
    ) {
        self.sequence = sequence
        self.dueAt = dueAt
        self.dueDelay = dueDelay
        self.notBefore = notBefore
        self.expiresAt = expiresAt
        self.unmeteredOnly = unmeteredOnly
    }

    /// Milliseconds to wait from `now`. A retry never waits longer than its own delay, whatever the wall clock did.
    func wait(_ now: Moment) -> Int64 { max(retryWait(now), scheduledWait(now)) }

    /// Until either clock says so: the wall clock also runs while the machine sleeps, the monotonic one is not set back.
    func retryWait(_ now: Moment) -> Int64 {
        guard dueAt != 0 else { return 0 }
        let left = max(dueAt.subtractingClamped(now.wall), 0)
        if let due { return min(max(0, due - now.mono), left) }
        // A time beyond the delay that led to it was written by another clock: it is now.
        return left > dueDelay ? 0 : left
    }

    func scheduledWait(_ now: Moment) -> Int64 { notBefore == 0 ? 0 : max(notBefore.subtractingClamped(now.wall), 0) }

    func hasExpired(_ now: Moment) -> Bool { expiresAt != 0 && expiresAt <= now.wall }
}

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
    /// These were attempted in this run and come back by their timers (mode ask).
    var asked: Set<Int64> = []

    /// So many are kept in `deferred`; beyond that they hold their conversation.
    static let deferredCeiling = 1024

    /// Messages wait in it, or may.
    var hasMessages: Bool { !upcoming.isEmpty || !deferred.isEmpty || more }

    var isIdle: Bool { flight == nil && !hasMessages }

    /// Whether something here may go without a drain and without mode auto.
    var hasOwnLeave: Bool { directThrough != 0 || !asked.isEmpty }

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
        remove(head.sequence)
        let place = upcoming.firstIndex { $0.sequence > head.sequence } ?? upcoming.count
        upcoming.insert(head, at: place)
    }

    mutating func remove(_ sequence: Int64) {
        upcoming.removeAll { $0.sequence == sequence }
        deferred.removeAll { $0.sequence == sequence }
        asked.remove(sequence)
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
