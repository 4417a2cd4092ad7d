/// Attempts: how they begin and end, and those that were not made.
extension Scheduler {
    /// Adds an attempt that was chosen at `now`. `Flights.called` follows.
    package mutating func started(_ flight: Flight, _ now: Moment) {
        forced.removeAll { $0.sequence == flight.sequence }
        noteTurn(flight)
        round?.remove(flight.sequence, of: flight.conversation)
        var begun = flight
        (begun.batch, begun.outcomesBefore) = (gate.gathering?.batch ?? flight.token, flights.outcomes)
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
        flights.begin(begun)
        let isKnown = canInsert(flight.sequence, lane)
        withLane(flight.conversation, now) { lane in
            lane.remove(flight.sequence)
            lane.begin(begun)
            // A manual attempt in a conversation that was not read yet.
            if !isKnown { lane.more = true }
        }
        dropStale(now)
    }

    /// Whether `withdraw` can undo `started`, called before it.
    func canWithdraw(_ flight: Flight) -> Bool {
        // The attempts of a batch begin together, except manual ones, which are alone in theirs.
        if gate.gathering != nil { return true }
        guard flight.hand == .none, round == nil, let lane = lanes[flight.conversation] else { return false }
        return !lane.approved.contains(flight.sequence) && canInsert(flight.sequence, lane)
    }

    /// Undoes `started` for an attempt whose call was not made, or whose message the transport skipped; it then waits until `heldUntil`
    /// (monotonic). A call that has not returned occupies its conversation until it does.
    mutating func withdraw(_ flight: Flight, _ head: Head, heldUntil: Int64? = nil, isCalled: Bool = false, _ now: Moment) {
        guard var begun = flights.remove(flight.token) else { return }
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
        var lane = lanes[flight.conversation] ?? Lane()
        if isCalled && begun.isRunning {
            begun.isEnded = true
            flights[flight.token] = begun
        } else {
            lane.end(flight.token)
        }
        if canInsert(flight.sequence, lane) { lane.insert(known) } else { lane.more = true }
        if begun.wasApproved, gate.network.isOnline { lane.approved.insert(flight.sequence) }
        lanes[flight.conversation] = lane
        // Other conversations may have waited for room in the batch of a drain.
        let hasRoom = (session?.hasBatchLeft ?? true, gate.hasBudget)
        if hasRoom != hadRoom { scheduleAll(now) } else { schedule(flight.conversation, now) }
    }

    /// Ends an attempt. `back`: its message is queued again and waits in its place.
    package mutating func ended(_ token: UInt64, back: Head?, sent: Bool, offline: Bool, timedOut: Bool, _ now: Moment) {
        guard let flight = flights.end(token, timedOut: timedOut) else { return }
        if offline {
            if session?.serves(flight.conversation) == true { gate.drains.session?.stop = .offline }
            round = nil
            gate.holds.pausedAfterOffline(until: now.mono + Self.offlineHold)
        }
        noteOutcome(sent: sent, isQueuedAgain: back != nil)
        guard let place = lanes.index(forKey: flight.conversation) else { return }
        var lane = lanes.values[place]
        if !flight.isRunning { lane.end(token) }
        lane.approved.remove(flight.sequence)
        if let back {
            let isRetried = gate.mode == .ask && !offline
            if gate.isStrict { round?.hold(flight.conversation, behind: flight.sequence, isRetried: isRetried) }
            requeue(back, isBatched: flight.batch != token || !lane.otherFlights.isEmpty, into: &lane)
            if isRetried { lane.approved.insert(back.sequence) }
        } else {
            round?.retryEnded(flight.conversation)
        }
        let isLast = lane.otherFlights.isEmpty && (lane.flight == nil || lane.flight == token)
        if lane.upcoming.isEmpty, lane.deferred.isEmpty, !lane.more, isLast { lane.closeDirectRange() }
        lanes.values[place] = lane
        if offline { scheduleAll(now) } else { schedule(flight.conversation, at: place, now) }
    }

    /// Puts an attempted message back. It is no longer sent directly, and the direct messages behind it wait for it.
    private func requeue(_ head: Head, isBatched: Bool, into lane: inout Lane) {
        if canInsert(head.sequence, lane) { lane.insert(gate.withMonotonicDue(head)) }
        guard lane.isDirect(head.sequence) else { return }
        if isBatched, head.sequence == lane.directFrom, head.sequence < lane.directThrough {
            // One before it failed in the same batch.
            lane.directFrom = head.sequence + 1
        } else if lane.upcoming.contains(where: { $0.sequence < head.sequence }) {
            lane.directThrough = head.sequence - 1
            lane.isDirectRangeOpen = false
        } else if head.sequence < lane.directThrough {
            lane.directFrom = head.sequence + 1
        } else {
            lane.closeDirectRange()
        }
    }

    /// Notes that the call of the transport returned. Its outcome is reported separately.
    package mutating func callReturned(_ token: UInt64, _ now: Moment) {
        guard let flight = flights.returned(token), lanes[flight.conversation]?.flight != nil else { return }
        withLane(flight.conversation, now) { $0.end(token) }
    }
}
