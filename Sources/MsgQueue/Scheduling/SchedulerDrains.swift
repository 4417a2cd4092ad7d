/// Drains: their requests, what they count, and their ends.
extension Scheduler {
    /// Requests a drain of one conversation or (nil) of all. It joins a drain that includes it; otherwise it begins when the current one
    /// has ended. Returns the number of the drain, and whether it begins now.
    package mutating func drain(
        _ conversation: Name? = nil, batch: Int, timeout: Int64?, includesFailed: Bool = false, _ now: Moment
    ) -> (number: Int, begins: Bool) {
        let deadline = timeout.map { now.mono.addingClamped($0) }
        if let current = session, current.covers(conversation, includesFailed: includesFailed) {
            session?.extend(to: deadline)
            return (current.number, false)
        }
        if let place = pending.firstIndex(where: { $0.covers(conversation, includesFailed: includesFailed) }) {
            pending[place].extend(to: deadline)
            return (pending[place].number, false)
        }
        drains += 1
        let new = Session(
            number: drains, conversation: conversation, deadline: deadline, batch: batch == 0 ? defaultBatch : batch,
            includesFailed: includesFailed)
        guard session == nil else {
            pending.append(new)
            return (drains, false)
        }
        begin(new, now)
        return (drains, true)
    }

    private mutating func begin(_ new: Session, _ now: Moment) {
        session = new
        beginBacklog()
        if let conversation = new.conversation {
            // Its stored messages are read separately from the scan.
            lanes[conversation, default: Lane()].more = true
        } else {
            holds.endOfflinePause()
            // A drain also answers a prompt that is not raised yet.
            if prompt == .armed { prompt = .disarmed }
        }
        scheduleAll(now)
    }

    /// Notes that the current drain put failed messages back: `count` up to the sequence `through`; nil: there are no more.
    package mutating func drainPutBack(_ count: Int64, through: Int64?) {
        session?.putBackThrough = through
        session?.report.putBack += count
    }

    /// The store refused to put failed messages back: the current drain ends.
    package mutating func drainPutBackFailed() {
        session?.putBackThrough = nil
        session?.stop = .storage
    }

    /// Ends the current drain, which was reported. `through` is the last sequence in the store. Outside mode auto the index of the backlog
    /// is dropped; the messages stay in the store. Returns true if the next requested drain begins.
    package mutating func finished(_ stop: Report.Stop, through: Int64, _ now: Moment) -> Bool {
        if stop == .waiting, mode == .ask, isStrict { approveFollowing(through: through, now) }
        session = nil
        if mode != .auto { restartScan() }
        scheduleAll(now)
        guard !pending.isEmpty else { return false }
        begin(pending.removeFirst(), now)
        return true
    }

    /// Approves the messages behind one that is retried by timer: the drain was requested for them, too.
    private mutating func approveFollowing(through: Int64, _ now: Moment) {
        for (conversation, lane) in lanes where session?.serves(conversation) == true {
            guard let head = lane.upcoming.first, lane.approved.contains(head.sequence) else { continue }
            let free = lane.upcoming.filter { !isDeferred($0, now) }
            lanes[conversation]?.approvedThrough = through
            lanes[conversation]?.approve(free)
        }
    }

    /// Drops the index of the backlog, so that the store is read again: an index of the store was rebuilt.
    package mutating func forgetBacklog(_ now: Moment) {
        lanes = lanes.compactMapValues { lane in
            guard lane.flight != nil else { return nil }
            // Messages before the one in flight may be missing from the index, too.
            var unread = lane
            (unread.upcoming, unread.deferred, unread.last, unread.more) = ([], [], 0, true)
            return unread
        }
        restartScan()
        scheduleAll(now)
    }

    /// Changes the report of the current drain, if the conversation belongs to it.
    package mutating func count(_ conversation: Name, _ change: (inout Report) -> Void) {
        guard var current = session, current.serves(conversation) else { return }
        change(&current.report)
        session = current
    }
}
