/// The scheduler's index of one conversation: its first queued messages, and whether the store has more.
///
/// Invariant: every queued message up to `last` is in `upcoming`, in `deferred` or in flight. If the store may have one after `last` that
/// `BacklogReading` does not find later, `more` is true.
struct Lane {
    /// The maximum length of `upcoming`; further messages stay in the store.
    static let window = 16

    /// The first queued messages, in order; the first element is the next to start.
    var upcoming: [Head] = [] { didSet { rest = nil } }
    /// Messages that wait for a time or an unmetered link. They do not block later messages and return to their place afterwards.
    var deferred: [Head] = [] { didSet { rest = nil } }
    /// When all that is known waits for times of its own; nil: something else is known, or this is not.
    var rest: Rest?
    /// The store may have queued messages after `last`.
    var more = false
    var last: Int64 = 0
    /// It is in `LaneIndex.unread`.
    var awaitsRead = false
    /// The attempt in flight, the last one of several; no other starts in this conversation until its call has returned.
    private(set) var flight: UInt64?
    /// The other attempts in flight: they belong to the same batch.
    private(set) var otherFlights: [UInt64] = []
    /// `Flight.batch` of the attempts in flight.
    private(set) var batch: UInt64 = 0
    /// The sequences that are sent directly: enqueued while online with no earlier message waiting. They need neither a drain nor mode auto.
    var direct: Range<Int64>?
    /// The messages of that range whose attempt ended without success. They are retried like all others.
    var attempted: Set<Int64> = []
    /// The next enqueued message may extend the range: no message outside it was enqueued after it.
    var isDirectRangeOpen = false
    /// When the lane is scheduled again (monotonic); 0: it has no ticket in `waiting`.
    var wakeAt: Int64 = 0
    /// When the first message that waits for a time is due (monotonic); nil: none waits.
    var dueAt: Int64?
    /// Messages that may start without a further confirmation in mode ask: they were attempted in this process and are retried by timer, or
    /// they follow such a message.
    var approved: Set<Int64> = []
    /// Messages loaded later, up to this sequence, join `approved`; 0: none.
    var approvedThrough: Int64 = 0
    /// Some of its messages wait because the transport skipped them, or did.
    var hasSkipped = false

    /// Until when nothing of a lane changes but by an input (all monotonic).
    struct Rest {
        /// The first time at which a message is due or expires.
        let until: Int64
        /// When the message is due that starts first; nil: none does by itself.
        let due: Int64?
        /// When the first message is due.
        let wake: Int64
    }

    /// The least number of deferred messages whose next time is noted.
    private static let leastRest = 8
    /// The maximum length of `deferred`; beyond it a deferred message blocks its conversation.
    static let deferredCeiling = 1024

    /// Whether a deferred message, which follows so many others, blocks no later one. Then it is counted, too.
    static func passesOver(_ deferred: inout Int) -> Bool {
        guard deferred < deferredCeiling else { return false }
        deferred += 1
        return true
    }

    /// The number of messages that it knows, without those in flight.
    var known: Int { upcoming.count + deferred.count }

    /// Whether it has queued messages or may have some in the store.
    var hasMessages: Bool { !upcoming.isEmpty || !deferred.isEmpty || more }

    var isIdle: Bool { flight == nil && !hasMessages }

    /// Whether a message of the lane may start without a drain and outside mode auto.
    var hasSelfStarting: Bool { direct != nil || !approved.isEmpty || (more && approvedThrough > last) }

    /// Whether the store has further messages that start without a drain and outside mode auto.
    var hasUnreadSelfStarting: Bool {
        more && (hasUnreadDirect || approvedThrough > last || approved.contains { $0 > last })
    }

    /// Whether a message starts in every mode, without a drain or an answer: it is sent directly or approved.
    func startsUnasked(_ sequence: Int64) -> Bool { isDirect(sequence) || approved.contains(sequence) }

    /// Whether a deferred message, when its time has come, holds back one that may start until then.
    func goesFirst(_ head: Head) -> Bool { upcoming.first.map { head.sequence < $0.sequence } ?? false }

    /// Notes that it is in no list of the scheduler.
    mutating func forgetTickets() { (wakeAt, dueAt, awaitsRead) = (0, nil, false) }

    /// Forgets which messages the transport skipped: a drain that begins later does not wait for them.
    mutating func forgetSkips() {
        guard hasSkipped else { return }
        hasSkipped = false
        for place in upcoming.indices { upcoming[place].skippedUntil = nil }
        for place in deferred.indices { deferred[place].skippedUntil = nil }
    }

    /// Notes that all that is known waits for times of its own, so that scheduling it again examines none of its messages. `due`: the wait for
    /// the message that starts first; nil: none does by itself.
    mutating func noteRest(due: Int64?, _ now: Moment) {
        guard upcoming.isEmpty, deferred.count >= Self.leastRest else { return }
        var (until, wake) = (Scheduler.longestSleep, Int64.max)
        for head in deferred {
            let wait = head.wait(now)
            guard wait > 0 else { return }
            wake = min(wake, wait)
            until = min(until, wait)
            if head.expiresAt != 0 { until = min(until, head.expiry(now).subtractingClamped(now.wall)) }
        }
        rest = Rest(
            until: now.mono.addingClamped(until), due: due.map { now.mono.addingClamped($0) }, wake: now.mono.addingClamped(wake))
    }

    /// Whether an attempt may begin, of the batch that is being chosen if there is one.
    func isFree(for batch: UInt64?) -> Bool { flight == nil || batch == self.batch }

    /// Of all attempts in flight.
    var tokens: [UInt64] { flight.map { [$0] + otherFlights } ?? [] }

    func hasFlight(_ token: UInt64) -> Bool { flight == token || otherFlights.contains(token) }

    mutating func begin(_ flight: Flight) {
        if let other = self.flight { otherFlights.append(other) }
        (self.flight, batch) = (flight.token, flight.batch)
    }

    /// Ends an attempt. Returns false if it was not in flight.
    @discardableResult
    mutating func end(_ token: UInt64) -> Bool {
        if flight == token {
            flight = otherFlights.popLast()
            return true
        }
        guard let place = otherFlights.firstIndex(of: token) else { return false }
        otherFlights.remove(at: place)
        return true
    }

    /// Ends the direct range; its messages become part of the backlog.
    mutating func closeDirectRange() { (direct, isDirectRangeOpen, attempted) = (nil, false, []) }

    /// Whether the index contains the message.
    func contains(_ sequence: Int64) -> Bool {
        upcoming.contains { $0.sequence == sequence } || deferred.contains { $0.sequence == sequence }
    }

    func isDirect(_ sequence: Int64) -> Bool { (direct?.contains(sequence) ?? false) && !attempted.contains(sequence) }

    /// Whether a message of the direct range is only in the store.
    var hasUnreadDirect: Bool { direct.map { $0.upperBound - 1 > last } ?? false }

    /// Whether a message that is not in flight is sent directly.
    var hasDirect: Bool { (more && hasUnreadDirect) || upcoming.contains { isDirect($0.sequence) } || hasDeferredDirect }

    /// Whether a message of the direct range waits for a time or an unmetered link.
    var hasDeferredDirect: Bool { deferred.contains { isDirect($0.sequence) } }

    /// Adds a message after all others of the conversation. One that is deferred takes no place in `upcoming`. Returns false if it stays in
    /// the store.
    @discardableResult
    mutating func append(_ head: Head, isDeferred: Bool = false) -> Bool {
        guard head.sequence > last else { return false }
        if !more, isDeferred, deferred.count < Self.deferredCeiling {
            deferred.append(head)
        } else if !more, upcoming.count < Self.window {
            upcoming.append(head)
        } else {
            more = true
            return false
        }
        last = head.sequence
        return true
    }

    /// Puts a message back into its place.
    mutating func insert(_ head: Head) {
        if head.skippedUntil != nil { hasSkipped = true }
        guard head.sequence <= last else {
            append(head)
            return
        }
        forget(head.sequence)
        let place = upcoming.firstIndex { $0.sequence > head.sequence } ?? upcoming.count
        upcoming.insert(head, at: place)
    }

    /// Removes all messages, except those in flight.
    mutating func clear() { (upcoming, deferred, more) = ([], [], false) }

    mutating func remove(_ sequence: Int64) {
        forget(sequence)
        approved.remove(sequence)
    }

    mutating func edited(_ sequence: Int64, bodySize: Int64) {
        if let place = upcoming.firstIndex(where: { $0.sequence == sequence }) { upcoming[place].bodySize = bodySize }
        if let place = deferred.firstIndex(where: { $0.sequence == sequence }) { deferred[place].bodySize = bodySize }
    }

    private mutating func forget(_ sequence: Int64) {
        if upcoming.first?.sequence == sequence { upcoming.removeFirst() } else { upcoming.removeAll { $0.sequence == sequence } }
        if !deferred.isEmpty { deferred.removeAll { $0.sequence == sequence } }
    }

    /// Approves those of `heads` up to `approvedThrough`. `heads` are not deferred.
    mutating func approve(_ heads: [Head]) {
        for head in heads where head.sequence <= approvedThrough { approved.insert(head.sequence) }
    }

    /// Moves messages between `upcoming` and `deferred`, according to their present conditions.
    mutating func sort(_ isDeferred: (Head) -> Bool) {
        if !deferred.isEmpty {
            let free = deferred.filter { !isDeferred($0) }
            deferred.removeAll { !isDeferred($0) }
            for head in free { insert(head) }
        }
        while let head = upcoming.first, isDeferred(head), deferred.count < Self.deferredCeiling {
            upcoming.removeFirst()
            deferred.append(head)
        }
    }
}
