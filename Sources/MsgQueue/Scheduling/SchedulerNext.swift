/// The choice of the next step.
extension Scheduler {
    /// Returns the next step. `queued` is the number of messages in the store that are queued or being sent; `inSession` is that number for
    /// the conversation that is drained alone; `commits` the number of changes of the store.
    package mutating func next(_ now: Moment, queued: Int64, inSession: Int64? = nil, commits: Int = 0) -> Step {
        prompt.seen(queued: queued, commits: commits)
        if let token = gate.flights.overdue(now) { return .timeOut(token: token) }
        if let step = prompt.nextOfStanding(gate, isRetrying: isRetrying, changes: lanes.changes, now) { return step }
        guard !gate.isStoreRefusing(now) else {
            if session != nil { return .finish(.storage) }
            // Everything else needs the store, except a timeout and the end of a prompt.
            let others = [gate.flights.deadline, prompt.expiry].compactMap { $0 }
            return .wait(until: others.reduce(gate.storageRetryAt, min))
        }
        if let step = requests.unreachable(gate) { return step }
        if let stop = endOfSession(now) { return .finish(stop) }
        if let session, let step = putBackFailed(session) { return step }
        wakeWaiting(now)
        if !lanes.isScheduled { return .schedule }
        if let step = nextAttempt(now, queued: queued) { return step }
        if let session, isDone(session), !hasDelayedStart(session, now) {
            return .finish((inSession ?? queued) == 0 ? .empty : isHeldByPauses(session) ? .paused : .waiting)
        }
        // What became due may have changed what a standing prompt asks about.
        if let step = prompt.nextCount(gate, isRetrying: isRetrying, changes: lanes.changes, now) { return step }
        if !prompt.isPrepared { return .prepareCount }
        return .wait(until: soonest(now, startWaitsForRate ? gate.flights.pace?.opening(at: now.mono) : linger.wakeTime(now)))
    }

    /// The start of an attempt, or a read or an expiry that comes before it. A start that has to wait for the rate is not returned and delays
    /// no read: the end of a drain depends on what is read.
    private mutating func nextAttempt(_ now: Moment, queued: Int64) -> Step? {
        startWaitsForRate = false
        linger.step()
        guard gate.mayStart else { return nil }
        let isOpen = gate.flights.pace?.isOpen(at: now.mono) ?? true
        let (taken, slots) = (gate.flights.slotsTaken, gate.flights.slots)
        // Manual requests do not wait for automatic attempts.
        if taken < slots + Self.manualSlots, let step = requests.next(lanes) {
            if isOpen { return step }
            startWaitsForRate = true
        }
        guard taken < slots else {
            // What `retryAll` sends is found meanwhile: the prompt is counted again when nothing of it is left.
            guard round?.needsMore == true, let step = nextOfRound(now), !step.isStart else { return nil }
            return step
        }
        if let step = nextOfRound(now) {
            if isOpen || !step.isStart { return step }
            startWaitsForRate = true
        }
        guard let step = chooser.next(&lanes, gate, queued: queued, isOpen: isOpen, now) else {
            linger.end()
            return nil
        }
        if !step.isStart { return step }
        startWaitsForRate = !isOpen
        guard isOpen else { return nil }
        return linger.waits(step, lanes, gate, queued: queued, now) ? nil : step
    }

    /// Whether `retryAll` sends its messages.
    private var isRetrying: Bool { round?.isSending == true }

    /// Whether a message of the drain would be sent now, but for the rate.
    private func hasDelayedStart(_ session: DrainQueue.Session, _ now: Moment) -> Bool {
        guard startWaitsForRate else { return false }
        guard let conversation = session.conversation else { return true }
        if requests.entries.contains(where: { $0.conversation == conversation }) || round?.hasPick(of: conversation) == true { return true }
        return lanes.step(of: conversation, gate, now) != nil
    }

    /// Why the drain must end although messages may be left; nil: it continues.
    private func endOfSession(_ now: Moment) -> Report.Stop? {
        guard let session else { return nil }
        if gate.isClosing { return .closed }
        if let deadline = session.deadline, deadline <= now.mono { return .timeout }
        // A drain ends after its attempts in flight.
        guard gate.flights.underWay(in: session) == 0 else { return nil }
        if !gate.network.isOnline { return .offline }
        if gate.pauses.isPaused { return .paused }
        if let stop = session.stop { return stop }
        return session.hasBatchLeft ? nil : .batch
    }

    /// Whether the drain has failed messages to put back, before it sends anything. Offline or paused they stay `failed`.
    private func putBackFailed(_ session: DrainQueue.Session) -> Step? {
        guard let through = session.putBackThrough, gate.mayStart, session.isOpen else { return nil }
        if let conversation = session.conversation, gate.pauses.conversations.contains(conversation) { return nil }
        return .putBack(conversation: session.conversation, after: through)
    }

    /// Whether the drain has no attempt in flight and is not waiting for a slot that another conversation uses.
    private func isDone(_ session: DrainQueue.Session) -> Bool {
        gate.flights.underWay(in: session) == 0 && (gate.flights.slotsTaken < gate.flights.slots || gate.flights.underWay == 0)
    }

    /// Whether all that is queued belongs to paused conversations.
    private func isHeldByPauses(_ session: DrainQueue.Session) -> Bool {
        if let conversation = session.conversation { return gate.pauses.isPaused(byName: conversation) }
        guard lanes.reading.isComplete, !gate.pauses.conversations.isEmpty else { return false }
        let held = lanes.byName.filter { $0.value.hasMessages }
        return !held.isEmpty && held.allSatisfy { gate.pauses.isPaused(byName: $0.key) }
    }

    /// Processes times that have passed: the connection is stable, a hold has ended, the periodic trigger, and waiting lanes, which are
    /// scheduled again.
    mutating func wakeWaiting(_ now: Moment) {
        var (isDue, beginsBacklog) = (false, false)
        if let stableAt = gate.holds.stableAt, stableAt <= now.mono, gate.network.isOnline { networkReturned(at: stableAt) }
        if gate.holds.end(now) {
            (isDue, beginsBacklog) = (true, true)
        }
        if gate.options.triggerInterval > 0, gate.timersRun {
            let isTriggered = gate.nextTriggerAt.map { $0 <= now.mono } ?? false
            beginsBacklog = beginsBacklog || isTriggered && !gate.hasBudget
            isDue = isDue || isTriggered
            if isTriggered || gate.nextTriggerAt == nil { gate.nextTriggerAt = now.mono + gate.options.triggerInterval }
        }
        if isDue { trigger(asBacklog: beginsBacklog, now) }
        lanes.dropDueTimes(gate, now)
        lanes.wake(gate, now)
    }

    /// Renews the budget of automatic sending: at the launch, in the foreground, online, at the periodic trigger, and after a resume.
    mutating func trigger(asBacklog: Bool, _ now: Moment) {
        gate.budget = gate.options.runLimit
        lanes.scheduleAll(asBacklog: asBacklog, gate, now)
    }

    /// The nearest time at which the state could change without an input, even if a step is due before.
    package func deadline(_ now: Moment) -> Int64? { soonest(now, nil).map { max($0, now.mono + 1) } }

    /// The nearest time at which the state could change without an input.
    private func soonest(_ now: Moment, _ extra: Int64?) -> Int64? {
        var soonest = extra
        func note(_ time: Int64?, after past: Int64 = Int64.min) {
            if let time, time > past { soonest = min(soonest ?? time, time) }
        }
        note(gate.flights.deadline)
        note(lanes.wakeTime)
        // In the background a drain continues, and the prompt is raised.
        if gate.laneTimersRun || gate.options.mode == .ask { note(gate.holds.stableAt, after: now.mono) }
        if gate.timersRun {
            note(gate.holds.offlineEnd, after: now.mono)
            note(gate.nextTriggerAt, after: now.mono)
        }
        if gate.maySend(now) { note(lanes.reading.wakeTime(now), after: now.mono) }
        note(gate.holds.receiverEnd, after: now.mono)
        note(round?.resumesAt, after: now.mono)
        note(round?.delayEnd, after: now.mono)
        note(session?.deadline)
        note(prompt.expiry)
        note(prompt.countTime(gate, isRetrying: isRetrying, changes: lanes.changes, now))
        return soonest
    }
}
