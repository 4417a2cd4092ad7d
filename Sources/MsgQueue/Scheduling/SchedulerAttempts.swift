/// Attempts: how they begin and end, and those that were not made.
extension Scheduler {
    /// Adds an attempt that was chosen at `now`. `Flights.called` follows.
    package mutating func started(_ flight: Flight, _ now: Moment) {
        requests.remove(flight.sequence)
        lanes.reads = 0
        chooser.began(flight)
        round?.remove(flight.sequence, of: flight.conversation)
        var begun = flight
        (begun.batch, begun.outcomesBefore) = (gate.gathering?.batch ?? flight.token, gate.flights.outcomes)
        let lane = lanes[flight.conversation] ?? Lane()
        begun.wasApproved = lane.approved.contains(flight.sequence)
        // Retries of the backoff ladder do not count against a batch.
        if flight.hand == .none, lane.upcoming.first(where: { $0.sequence == flight.sequence })?.isRetry != true {
            if let session, session.serves(flight.conversation) {
                begun.charge = .drain(session.number)
                gate.drains.session?.started += 1
            } else if !lane.isDirect(flight.sequence), gate.charge() {
                begun.charge = .budget
            }
        }
        gate.flights.begin(begun)
        lanes.began(begun, gate, now)
        chooser.dropStale(&lanes, gate, now)
    }

    /// Whether `withdraw` can undo `started`, called before it.
    func canWithdraw(_ flight: Flight) -> Bool {
        // The attempts of a batch begin together, except manual ones, which are alone in theirs.
        if gate.gathering != nil { return true }
        guard flight.hand == .none, round == nil, let lane = lanes[flight.conversation] else { return false }
        return !lane.approved.contains(flight.sequence) && lanes.canInsert(flight.sequence, lane)
    }

    /// Undoes `started` for an attempt whose call was not made, or whose message the transport skipped; it then waits until `heldUntil`
    /// (monotonic). A call that has not returned occupies its conversation until it does.
    mutating func withdraw(_ flight: Flight, _ head: Head, heldUntil: Int64? = nil, isCalled: Bool = false, _ now: Moment) {
        guard var begun = gate.flights.remove(flight.token) else { return }
        let hadRoom = (session?.hasBatchLeft ?? true, gate.hasBudget)
        switch begun.charge {
        case .drain(let number): if let drain = session, drain.number == number { gate.drains.session?.started = max(drain.started - 1, 0) }
        case .budget: gate.refund()
        case .none: break
        }
        // Its message may be one of the round, or precede one.
        round?.restart()
        if let heldUntil, head.round != 0, head.round == round?.number {
            round?.delay(flight.conversation, at: flight.sequence, until: heldUntil)
        }
        var known = gate.withMonotonicDue(head)
        known.skippedUntil = heldUntil
        let isRunning = isCalled && begun.isRunning
        if isRunning {
            begun.isEnded = true
            gate.flights[flight.token] = begun
        }
        lanes.withdrew(begun, known, isRunning: isRunning, gate)
        // Other conversations may have waited for room in the batch of a drain.
        let hasRoom = (session?.hasBatchLeft ?? true, gate.hasBudget)
        if hasRoom != hadRoom { lanes.scheduleAll(gate, now) } else { lanes.schedule(flight.conversation, gate, now) }
    }

    /// Ends an attempt. `back`: its message is queued again and waits in its place.
    package mutating func ended(_ token: UInt64, back: Head?, sent: Bool, offline: Bool, timedOut: Bool, _ now: Moment) {
        guard let flight = gate.flights.end(token, timedOut: timedOut) else { return }
        if offline {
            if session?.serves(flight.conversation) == true { gate.drains.session?.stop = .offline }
            round = nil
            gate.holds.pausedAfterOffline(until: now.mono + Self.offlineHold)
        }
        if chooser.ended(sent: sent, isQueuedAgain: back != nil) { lanes.ready.beginBacklog() }
        let isRetried = back != nil && gate.options.mode == .ask && !offline
        if back == nil {
            round?.retryEnded(flight.conversation)
        } else if gate.options.strictOrder {
            round?.hold(flight.conversation, behind: flight.sequence, isRetried: isRetried)
        }
        lanes.ended(flight, back: back, isApproved: isRetried, schedules: !offline, gate, now)
        if offline { lanes.scheduleAll(gate, now) }
    }

    /// Notes that the call of the transport returned. Its outcome is reported separately.
    package mutating func callReturned(_ token: UInt64, _ now: Moment) {
        guard let flight = gate.flights.returned(token), lanes[flight.conversation]?.flight != nil else { return }
        lanes.change(flight.conversation, gate, now) { $0.end(token) }
    }
}
