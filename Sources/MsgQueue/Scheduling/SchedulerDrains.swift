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
        if let conversation = session?.conversation {
            // Its stored messages are read separately from the scan.
            lanes.byName[conversation, default: Lane()].more = true
        } else {
            gate.holds.endOfflinePause()
            prompt.drainBegan()
        }
        lanes.scheduleAll(asBacklog: true, gate, now)
    }

    /// Ends the current drain, which was reported. `through` is the last sequence in the store. Outside mode auto the index of the backlog
    /// is dropped, if it cannot be continued or is large; the messages stay in the store. Returns true if the next requested drain begins.
    package mutating func finished(_ stop: Report.Stop, through: Int64, _ now: Moment) -> Bool {
        if stop == .waiting, gate.options.mode == .ask, gate.options.strictOrder, let session {
            lanes.approveFollowing(through: through, of: session, gate, now)
        }
        gate.drains.session = nil
        lanes.dropUnlessKept(gate, now)
        guard gate.drains.beginNext() else { return false }
        drainBegan(now)
        return true
    }

    /// Drops the index of the backlog, so that the store is read again: an index of the store was rebuilt.
    package mutating func forgetBacklog(_ now: Moment) { lanes.forget(gate, now) }
}
