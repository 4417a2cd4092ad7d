/// Drains: their requests, what they count, and their ends.
extension Scheduler {
    /// Requests a drain of one conversation or (nil) of all. It joins a drain that includes it; otherwise it begins when the current one
    /// has ended. Returns the number of the drain, and whether it begins now.
    package mutating func drain(
        _ conversation: Name? = nil, batch: Int, timeout: Int64?, includesFailed: Bool = false, _ now: Moment
    ) -> (number: Int, begins: Bool) {
        let deadline = timeout.map { now.mono.addingClamped($0) }
        let (number, begins) = gate.drains.request(conversation, batch: batch, deadline: deadline, includesFailed: includesFailed)
        if begins { drainBegan(now) }
        return (number, begins)
    }

    private mutating func drainBegan(_ now: Moment) {
        beginBacklog()
        if let conversation = session?.conversation {
            // Its stored messages are read separately from the scan.
            lanes[conversation, default: Lane()].more = true
        } else {
            gate.holds.endOfflinePause()
            // A drain also answers a prompt that is not raised yet.
            if prompt == .armed { prompt = .disarmed }
        }
        scheduleAll(now)
    }

    /// Ends the current drain, which was reported. `through` is the last sequence in the store. Outside mode auto the index of the backlog
    /// is dropped; the messages stay in the store. Returns true if the next requested drain begins.
    package mutating func finished(_ stop: Report.Stop, through: Int64, _ now: Moment) -> Bool {
        if stop == .waiting, gate.mode == .ask, gate.isStrict { approveFollowing(through: through, now) }
        gate.drains.session = nil
        if gate.mode != .auto { restartScan() }
        scheduleAll(now)
        guard gate.drains.beginNext() else { return false }
        drainBegan(now)
        return true
    }

    /// Approves the messages behind one that is retried by timer: the drain was requested for them, too.
    private mutating func approveFollowing(through: Int64, _ now: Moment) {
        for (conversation, lane) in lanes where session?.serves(conversation) == true {
            guard let head = lane.upcoming.first, lane.approved.contains(head.sequence) else { continue }
            let free = lane.upcoming.filter { !gate.isDeferred($0, now) }
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
}
