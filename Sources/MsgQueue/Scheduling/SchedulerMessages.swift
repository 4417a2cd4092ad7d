/// Messages that are stored, changed and removed, and those that are read from the store.
extension Scheduler {
    // MARK: Messages

    /// Takes what the store contains when the queue is opened: the highest sequence, and whether queued messages have priorities.
    package mutating func opened(through sequence: Int64, hasPriorities: Bool, _ now: Moment) {
        lanes.ready.noteNewest(sequence)
        lanes.ready.beginBacklog()
        if hasPriorities { lanes.rank(gate, now) }
    }

    /// Whether a message enqueued now is sent directly; nil: if the store has no other queued message of its conversation.
    package func goesDirect(_ conversation: Name) -> Bool? { lanes.goesDirect(conversation, gate) }

    /// Whether a message in this place is sent directly; nil: if no queued message of its conversation is before it.
    package func goesDirect(_ conversation: Name, inPlaceOf sequence: Int64) -> Bool? {
        lanes.goesDirect(conversation, inPlaceOf: sequence, gate)
    }

    /// Whether a message enqueued now can start although the scan has not reached it, if it is the first queued one of its conversation.
    package func startsBeforeScan(_ conversation: Name, _ now: Moment) -> Bool {
        !lanes.reading.isComplete && gate.maySend(now) && lanes[conversation] == nil
    }

    /// Adds an enqueued message. `goesDirect`: it is sent directly; `isFirst`: no other message of its conversation is queued.
    package mutating func enqueued(_ head: Head, _ conversation: Name, goesDirect: Bool, isFirst: Bool = false, _ now: Moment) {
        lanes.enqueued(head, conversation, goesDirect: goesDirect, isFirst: isFirst, gate, now)
    }

    /// Puts a message into the place of one that it replaced. It has no delay, no manual request and no part in a `retryAll`; a permission
    /// to be sent without a drain belongs to the place.
    package mutating func replaced(by head: Head, _ conversation: Name, goesDirect: Bool, _ now: Moment) {
        requests.remove(head.sequence)
        let wasPicked = round?.picks.contains { $0.sequence == head.sequence } ?? false
        round?.remove(head.sequence, of: conversation)
        // It is sent before those of the round.
        if wasPicked, gate.options.mode == .auto { round?.hold(conversation, behind: head.sequence) }
        lanes.replaced(by: head, conversation, goesDirect: goesDirect, gate, now)
    }

    /// Puts a queued message back into its place, or updates its times.
    package mutating func returned(_ head: Head, _ conversation: Name, _ now: Moment) { lanes.returned(head, conversation, gate, now) }

    /// Notes the new size of a message.
    package mutating func edited(_ sequence: Int64, _ conversation: Name, bodySize: Int64) {
        lanes[conversation]?.edited(sequence, bodySize: bodySize)
    }

    /// Removes a message that is no longer queued: deleted, failed or sent.
    package mutating func removed(_ sequence: Int64, _ conversation: Name, _ now: Moment) {
        requests.remove(sequence)
        round?.remove(sequence, of: conversation)
        if lanes[conversation]?.approved.contains(sequence) == true { round?.retryEnded(conversation) }
        lanes.removed(sequence, conversation, gate, now)
    }

    /// Removes all unsent messages of one conversation or of all, except those in flight.
    package mutating func cleared(_ conversation: Name?, _ now: Moment) {
        requests.clear(conversation)
        round?.cleared(conversation)
        lanes.cleared(conversation, gate, now)
    }

    /// Ends the delays of messages that failed for lack of a network, once the connection is stable.
    mutating func networkReturned(at time: Int64) {
        gate.returnedAt = time
        lanes.networkReturned(at: time)
    }

    // MARK: The round

    /// Adds failed messages that were put back, up to `through`. `first` has the first of each conversation. While online they are sent in
    /// order, in every mode; messages that were queued before are not part of the round. `number`: 0 if they are not sent.
    package mutating func putBack(_ first: [Name: Int64], round number: UInt32, through: Int64, _ now: Moment) {
        for (conversation, sequence) in first { lanes.reload(conversation, from: sequence, gate, now) }
        guard number != 0, gate.network.isOnline, let from = first.values.min() else { return }
        if round == nil { round = Round(number, through: through) } else { round?.extend(from: from, through: through) }
    }

    /// The start of the next message of the round, or a read of more of them.
    mutating func nextOfRound(_ now: Moment) -> Step? {
        round?.endDelays(now)
        // A drain that is about to end must end first.
        guard let round, session?.isOpen ?? true else { return nil }
        guard round.isOver else { return self.round?.next(lanes, gate, now) }
        // Their messages may be put back.
        if !gate.flights.open.contains(where: { $0.hand == .retryAll }) { self.round = nil }
        return nil
    }

    /// Takes the queued messages after the last ones that the round has read, in order. `complete`: there are no more.
    package mutating func sought(_ rows: [(conversation: Name, head: Head)], complete: Bool, _ now: Moment) {
        round?.sought(rows, complete: complete, lanes, gate, now)
    }

    // MARK: Reading the store

    /// Takes the queued messages after the last ones scanned, in order. `complete`: there are no more.
    package mutating func scanned(_ rows: [(conversation: Name, head: Head)], complete: Bool, _ now: Moment) {
        lanes.scanned(rows, complete: complete, gate, now)
    }

    /// Takes conversations with queued messages, in the order of their names. `complete`: there are no more.
    package mutating func surveyed(_ names: [Name], through last: Name?, complete: Bool, _ now: Moment) {
        lanes.surveyed(names, through: last, complete: complete, gate, now)
    }

    /// Takes the conversations of the queued messages with a priority; nil: more messages have one than were to be read.
    package mutating func foundPriorities(_ names: Set<Name>?, _ now: Moment) { lanes.foundPriorities(names, gate, now) }

    /// Takes the queued messages without a start time after the last ones scanned, in order. `complete`: there are no more.
    package mutating func foundUnscheduled(_ rows: [(conversation: Name, sequence: Int64)], complete: Bool, _ now: Moment) {
        lanes.foundUnscheduled(rows, complete: complete, gate, now)
    }

    /// Takes the conversations of the messages scheduled for a time up to `through`; nil: there are more than were to be found. `next`: the
    /// next one; nil: there is none.
    package mutating func foundScheduled(
        _ names: Set<Name>?, through: Int64, next: (time: Int64, conversation: Name)?, _ now: Moment
    ) {
        lanes.foundScheduled(names, through: through, next: next, gate, now)
    }

    /// Takes the queued messages of one conversation after `Lane.last`. `complete`: there are no more.
    package mutating func loaded(_ conversation: Name, _ heads: [Head], complete: Bool, _ now: Moment) {
        let skipEnds = round?.delays(in: conversation) ?? [:]
        lanes.loaded(conversation, heads, complete: complete, skipEnds: skipEnds, gate, now)
    }

    /// Schedules some of the conversations that an input has left (`Step.schedule`).
    package mutating func scheduleMore(_ now: Moment) { lanes.scheduleMore(gate, now) }
}
