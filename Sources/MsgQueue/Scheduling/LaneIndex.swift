/// The scheduler's index of queued messages: a lane for each conversation found so far by reading the store in order, only as far as its
/// messages may be sent; and which of them may start now, or at a time.
package struct LaneIndex {
    /// Outside mode auto: the most conversations, and the most messages, that are known between two drains.
    static let keptLanes = 120_000
    private static let keptHeads = 250_000

    var byName = LaneTable()
    /// The conversations of which a message may start now.
    var ready = ReadyLists()
    /// Lanes by the time at which they are scheduled again.
    private var waiting = Heap<Ticket>()
    /// Lanes by the time at which their next message is due, without the limit `longestSleep`.
    private(set) var dueTimes = Heap<Ticket>()
    /// The lanes that must be scheduled again before anything else: those of `unscheduled`, and the first parts of `byName`.
    private var unscheduled: [Name] = []
    private var unscheduledParts = 0
    /// What `scheduleAll` has replaced, to be freed.
    private var dropped = DroppedEntries()
    /// How many lanes one step schedules again: about a millisecond.
    package var perStep = 1_000
    /// How often a lane may have changed.
    private(set) var changes: UInt64 = 0

    private let byExpiry: Bool
    /// How far the store was read.
    package internal(set) var reading: BacklogReading
    /// Conversations of which no message is known.
    private var unread: [Name] = []
    /// Reads of the store since the last attempt began.
    var reads = 0

    init(_ options: Options) {
        byExpiry = options.soonestExpiryFirst
        reading = BacklogReading(byExpiry: byExpiry)
    }

    /// An entry of a heap: a conversation with its sort key, a sequence or a monotonic time.
    struct Ticket: Comparable {
        let key: Int64
        let conversation: Name
        static func < (left: Ticket, right: Ticket) -> Bool { left.key < right.key }
    }

    package var isRanked: Bool { reading.isRanked }

    subscript(conversation: Name) -> Lane? {
        get { byName[conversation] }
        _modify { yield &byName[conversation] }
    }

    package var count: Int { byName.count }

    func rank(of head: Head) -> Rank { Rank(head, byExpiry: byExpiry) }

    // MARK: Changes

    mutating func noteChange() { changes &+= 1 }

    /// The store has messages of the conversation that are not in its lane.
    mutating func markUnread(_ conversation: Name, _ gate: Gate, _ now: Moment) {
        if byName[conversation]?.more != true { change(conversation, gate, now) { $0.more = true } }
    }

    /// Changes one lane and schedules it again.
    mutating func change(_ conversation: Name, _ gate: Gate, _ now: Moment, _ change: (inout Lane) -> Void) {
        guard let place = byName.index(forKey: conversation) else {
            var lane = Lane()
            change(&lane)
            byName[conversation] = lane
            return schedule(conversation, gate, now)
        }
        change(&byName[place])
        schedule(conversation, at: place, gate, now)
    }

    // MARK: When the next message is due

    /// Makes the lane's next message ready or puts a ticket of it into `waiting`, or drops the lane if it has nothing to send.
    mutating func schedule(_ conversation: Name, _ gate: Gate, _ now: Moment) {
        guard let place = byName.index(forKey: conversation) else { return }
        schedule(conversation, at: place, gate, now)
    }

    /// The same for the lane at this place.
    mutating func schedule(_ conversation: Name, at place: LaneTable.Index, _ gate: Gate, _ now: Moment) {
        noteChange()
        var lane = byName[place]
        let isDrained = gate.drains.session?.serves(conversation) ?? false
        let needsDrain = gate.options.mode != .auto && !isDrained && lane.flight == nil && !lane.hasSelfStarting
        if lane.isIdle || needsDrain && !reading.hasBegun {
            // Nothing is lost: the backlog is in the store, and the next drain scans it from the beginning.
            byName[conversation] = nil
            return
        }
        if needsDrain {
            // The next drain knows the conversation without a read. Until then no time is waited for.
            lane.forgetTickets()
            lane.forgetSkips()
            byName[place] = lane
            return
        }
        guard gate.isFree(lane), gate.mayStart, !gate.isPaused(conversation) else { return }
        var (due, wake): (Int64?, Int64?)
        if let rest = gate.rest(of: lane, conversation, now) {
            (due, wake) = (rest.due.map { $0.subtractingClamped(now.mono) }, rest.wake.subtractingClamped(now.mono))
        } else {
            lane.sort { gate.isDeferred($0, now) }
            var delayed = lane.deferred.isEmpty ? [] : lane.deferred.filter { $0.wait(now) > 0 }
            if let head = lane.upcoming.first {
                if !head.hasExpired(now), head.wait(now) > 0 {
                    delayed.append(head)
                } else if head.hasExpired(now) || gate.eligibility(of: head, conversation, lane, now).isStart {
                    makeReady(rank(of: head), conversation, gate)
                }
            }
            due = delayed.isEmpty ? nil : gate.soonest(of: lane, conversation, now)?.wait(now)
            wake = delayed.filter { gate.startsInTime($0, lane) || lane.goesFirst($0) }.map { $0.wait(now) }.min()
            if gate.mayRest(conversation) { lane.noteRest(due: due, now) }
        }
        if lane.upcoming.isEmpty, !lane.awaitsRead, gate.canLoad(lane, conversation, now) {
            lane.awaitsRead = true
            unread.append(conversation)
        }
        setDue(after: due, &lane, conversation, now)
        if let wake {
            let key = now.mono + min(wake, Scheduler.longestSleep)
            if lane.wakeAt <= now.mono || key < lane.wakeAt {
                lane.wakeAt = key
                waiting.insert(Ticket(key: key, conversation: conversation))
            }
        }
        byName[place] = lane
    }

    private mutating func makeReady(_ rank: Rank, _ conversation: Name, _ gate: Gate) {
        let side = ready.side(of: rank.sequence)
        ready[side].insert(rank, conversation, isRanked: isRanked)
        guard ready[side].count > 2 * byName.count + 64 else { return }
        // Stale entries that are not among the first accumulate. The new one may belong to a lane that is not stored yet.
        let lanes = byName
        ready[side].compact { name, sequence in
            if name == conversation { return sequence == rank.sequence }
            guard let lane = lanes[name], gate.isFree(lane) else { return false }
            return lane.upcoming.first?.sequence == sequence
        }
    }

    private mutating func setDue(after wait: Int64?, _ lane: inout Lane, _ conversation: Name, _ now: Moment) {
        let due = wait.map { now.mono.addingClamped($0) }
        // The two clocks are truncated to milliseconds: each time may differ by one.
        if let due, let known = lane.dueAt, due.subtractingClamped(known).magnitude <= 2 { return }
        lane.dueAt = due
        guard let due else { return }
        // Tickets far in the future become stale and would accumulate.
        if dueTimes.count > 2 * byName.count + 64 {
            dueTimes.removeAll()
            for (other, lane) in byName where other != conversation {
                if let due = lane.dueAt { dueTimes.insert(Ticket(key: due, conversation: other)) }
            }
        }
        dueTimes.insert(Ticket(key: due, conversation: conversation))
    }

    /// Schedules every lane again, the first of them at once. `asBacklog`: sending begins again, what is queued now is the backlog.
    mutating func scheduleAll(asBacklog: Bool = false, _ gate: Gate, _ now: Moment) {
        noteChange()
        // Their entries are freed and the lanes are found in steps: at 100,000 lanes each of both would take some milliseconds.
        ready.drop(into: &dropped)
        dropped.take(&waiting)
        dropped.take(&dueTimes)
        dropped.take(&unread)
        if asBacklog { ready.beginBacklog() }
        (unscheduled, unscheduledParts) = ([], LaneTable.partCount)
        takeUnscheduled()
        scheduleMore(gate, now)
    }

    var isScheduled: Bool { unscheduled.isEmpty && unscheduledParts == 0 && dropped.isEmpty }

    /// Takes the lanes of the next part.
    private mutating func takeUnscheduled() {
        while unscheduled.isEmpty, unscheduledParts > 0 {
            unscheduledParts -= 1
            unscheduled = byName.names(inPart: unscheduledParts)
        }
    }

    /// Schedules some of the lanes that `scheduleAll` has left. Until it has left none, no attempt starts and nothing is read.
    mutating func scheduleMore(_ gate: Gate, _ now: Moment) {
        var left = perStep
        dropped.free(DroppedEntries.perLane * perStep)
        while left > 0, let conversation = unscheduled.popLast() {
            left -= 1
            if unscheduled.isEmpty { takeUnscheduled() }
            guard let place = byName.index(forKey: conversation) else { continue }
            // Each deferred message is examined, unless it is known when the first of them is due.
            if byName[place].rest == nil { left -= byName[place].deferred.count / 4 }
            byName[place].forgetTickets()
            schedule(conversation, at: place, gate, now)
        }
    }

    /// When the next lane is scheduled again (monotonic).
    var wakeTime: Int64? { waiting.first?.key }

    /// Schedules the lanes again of which a message may have fallen due.
    mutating func wake(_ gate: Gate, _ now: Moment) {
        while let ticket = waiting.first, ticket.key <= now.mono {
            waiting.removeFirst()
            guard byName[ticket.conversation]?.wakeAt == ticket.key else { continue }
            byName[ticket.conversation]?.wakeAt = 0
            schedule(ticket.conversation, gate, now)
        }
    }

    /// Drops the times that have passed or are stale, so that the first one is that of the message that is due next.
    mutating func dropDueTimes(_ gate: Gate, _ now: Moment) {
        while let ticket = dueTimes.first {
            let isPaused = gate.pauses.conversations.contains(ticket.conversation)
            if ticket.key > now.mono, byName[ticket.conversation]?.dueAt == ticket.key, !isPaused { return }
            dueTimes.removeFirst()
        }
    }

    // MARK: Reading the store

    /// From the first message with a priority on, the conversations with such messages must be known before one is chosen.
    mutating func noteRank(_ head: Head, _ gate: Gate, _ now: Moment) { if head.priority != 0 { rank(gate, now) } }

    mutating func rank(_ gate: Gate, _ now: Moment) { if reading.rank() { scheduleAll(gate, now) } }

    /// Outside mode auto: drops what a drain has read, so that the next one reads the store, unless it can continue with it and it is small.
    mutating func dropUnlessKept(_ gate: Gate, _ now: Moment) {
        let isKept = reading.hasBegun && byName.count <= Self.keptLanes && byName.known <= Self.keptHeads
        if gate.options.mode != .auto, !isKept { reading.restart() }
        scheduleAll(gate, now)
    }

    /// The next read of the store that the choice needs; nil: none.
    mutating func nextRead(_ gate: Gate, sendsBacklog: Bool, _ now: Moment) -> Step? {
        while let name = unread.last {
            if let lane = byName[name], lane.upcoming.isEmpty, let step = load(lane, name, limit: window(of: lane), gate, now) {
                return step
            }
            unread.removeLast()
            byName[name]?.awaitsRead = false
        }
        // Whether all that is queued is held, and whether enough can start for a batch, depends on the messages that would be left out.
        if sendsBacklog, !gate.pauses.conversations.isEmpty || !gate.blocks.isEmpty || gate.flights.limits.map({ $0.linger > 0 }) ?? false {
            reading.readScheduled()
        }
        return sendsBacklog ? reading.next(now) : nil
    }

    /// The number of messages that are read of a lane. For the choice the first one of each conversation is enough; many deferred ones may
    /// follow one another.
    private func window(of lane: Lane) -> Int {
        if isRanked, lane.last == 0 { return 1 }
        return lane.rest == nil ? Lane.window : Scheduler.scanChunk
    }

    /// The read of more messages of a lane; nil: it needs none now.
    func load(_ lane: Lane, _ conversation: Name, limit: Int = Lane.window, _ gate: Gate, _ now: Moment) -> Step? {
        guard gate.isFree(lane), !gate.pauses.conversations.contains(conversation), gate.canLoad(lane, conversation, now) else {
            return nil
        }
        return .load(conversation: conversation, after: max(lane.last, gate.pauses.clearedThrough(conversation)), limit: limit)
    }

    // MARK: Starts

    /// The step for an entry of those that may start; nil: the entry is stale.
    func step(for entry: ReadyList.Entry, _ gate: Gate, _ now: Moment) -> Step? {
        // A closure that uses `self` would copy all of it.
        let byExpiry = byExpiry
        return step(of: entry.conversation, gate, now) { Rank($0, byExpiry: byExpiry) == entry.rank }
    }

    /// The step for the first message of a conversation, if it is the expected one: its start, or its expiry.
    func step(of conversation: Name, _ gate: Gate, _ now: Moment, isExpected: (Head) -> Bool = { _ in true }) -> Step? {
        guard let lane = byName[conversation], gate.isFree(lane), let head = lane.upcoming.first, isExpected(head),
            !gate.isPaused(conversation), !isOvertaken(head, lane, gate)
        else { return nil }
        if head.hasExpired(now) { return .expire(conversation: conversation, sequence: head.sequence) }
        guard gate.eligibility(of: head, conversation, lane, now).isStart else { return nil }
        return .start(conversation: conversation, sequence: head.sequence, hand: .none)
    }

    /// Whether at least so many messages can start now, as far as the index shows; of one conversation or (nil) of all.
    func hasReady(_ count: Int, in conversation: Name?, _ gate: Gate, queued: Int64, _ now: Moment) -> Bool {
        guard queued - Int64(gate.flights.inFlight) >= Int64(count) else { return false }
        if let conversation { return byName[conversation].map { $0.more || $0.upcoming.count >= count } ?? false }
        guard reading.isAtEnd || !gate.maySend(now) else { return true }
        var found = 0
        var counted = Set<Name>()
        for name in ready.conversations where counted.insert(name).inserted {
            guard let lane = byName[name], step(of: name, gate, now)?.isStart == true else { continue }
            found += lane.upcoming.count
            if lane.more || found >= count { return true }
        }
        return false
    }

    /// Whether messages that could start, or that follow those of this batch, are not in it.
    func hasMore(besides batch: UInt64, _ gate: Gate) -> Bool {
        func hasMore(_ conversation: Name) -> Bool { byName[conversation].map { $0.more || !$0.upcoming.isEmpty } ?? false }
        return ready.conversations.contains(where: hasMore)
            || gate.flights.values.contains { $0.batch == batch && hasMore($0.conversation) }
    }

    /// Whether the batch that is being chosen has a later message of the conversation, which `retryAll` sends before those that were queued.
    private func isOvertaken(_ head: Head, _ lane: Lane, _ gate: Gate) -> Bool {
        guard gate.options.strictOrder, gate.gathering != nil, let last = lane.flight.flatMap({ gate.flights[$0] }) else { return false }
        return last.sequence > head.sequence
    }
}
