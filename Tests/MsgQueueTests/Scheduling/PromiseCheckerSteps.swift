@testable import MsgQueue

/// The checks of each step.
extension PromiseChecker {
    // MARK: Attempts

    mutating func starts(_ message: SimulatedMessage, _ conversation: Name, _ hand: Hand, _ simulation: Simulation) throws {
        guard !isDisabled else { return }
        let what = "message \(message.sequence) of \(message.conversation.text)"
        func fail(_ why: String) -> Violation { Violation("\(what) was started \(why)") }
        guard conversation == message.conversation else { throw fail("in conversation \(conversation.text)") }
        guard isOnline else { throw fail("while offline") }
        guard hasTransport else { throw fail("without a transport") }
        guard !isClosing else { throw fail("while closing") }
        guard simulation.now.mono >= simulation.storageUntil else { throw fail("while the store refused writes") }
        guard mayStart(simulation), !simulation.scheduler.gate.pauses.conversations.contains(conversation) else {
            throw fail("while paused")
        }
        guard !simulation.sendingSequences.contains(message.sequence) else { throw fail("while it was being sent") }
        let batch = simulation.scheduler.gate.gathering
        for flight in simulation.scheduler.flights.values where flight.conversation == message.conversation {
            let isInBatch = flight.batch == batch?.batch && (hand != .none || flight.sequence < message.sequence || !options.strictOrder)
            guard isInBatch else { throw fail("beside message \(flight.sequence) of its conversation") }
        }
        if let batch, !hand.isOutOfTurn, batch.count > 0 {
            try joins(batch, message, simulation, fail)
        } else {
            // Requests on demand have slots of their own.
            let most = mostSlots(simulation) + (hand.isOutOfTurn ? Scheduler.manualSlots : 0)
            guard slotsTaken(simulation) < most else { throw fail("as number \(slotsTaken(simulation) + 1) of \(most)") }
            try pace.starts(simulation.now, taken: slotsTaken(simulation), isOnDemand: hand.isOutOfTurn)
        }
        var start = Begun(
            wasDirect: direct.contains(message.sequence), wasPutBack: putBack.contains(message.sequence), outcomes: outcomes)
        if hand == .none {
            try startsByItself(message, simulation, fail)
            if message.progress.dueAt == 0, session?.serves(conversation) == true {
                session?.started += 1
                start.isCounted = true
            }
        } else if hand == .retryAll {
            guard putBack.contains(message.sequence) else { throw fail("by retry_all, which was not called") }
            try startsWithOthers(message, simulation, fail)
        } else {
            guard forced[message.sequence] == hand else { throw fail("by \(hand), which was not requested") }
        }
        forced[message.sequence] = nil
        putBack.remove(message.sequence)
        direct.remove(message.sequence)
        skips[message.sequence] = nil
        begun[message.sequence] = start
    }

    /// Checks a message of a batch that is not its first one. `batch` has those before it.
    private mutating func joins(
        _ batch: Gathering, _ message: SimulatedMessage, _ simulation: Simulation, _ fail: (String) -> Violation
    ) throws {
        let limits = batch.limits
        let taken = slotsTaken(simulation)
        guard batch.count < limits.maxMessages else { throw fail("as number \(batch.count + 1) of a batch") }
        let hasRoom = limits.maxBatches > 0 ? taken <= limits.maxBatches : taken == batch.count || taken < options.maxInFlight
        guard hasRoom else { throw fail("in a batch, as number \(taken + 1) in flight") }
        let others = simulation.scheduler.flights.values.filter { $0.batch == batch.batch }
        guard others.count == batch.count else { throw fail("in a batch of \(others.count), which counts \(batch.count)") }
        let bytes = others.reduce(message.body.count) { $0 + (simulation.store[$1.sequence]?.body.count ?? 0) }
        guard bytes <= limits.maxBytes else { throw fail("in a batch of \(bytes) bytes") }
        if limits.singleConversation {
            guard others.allSatisfy({ $0.conversation == message.conversation }) else { throw fail("in a batch of another conversation") }
            turns.isUncertain = true
        }
        // The ramp limits the attempts in flight between batches.
        try pace.starts(simulation.now, taken: 0, isOnDemand: false)
    }

    private func startsWithOthers(_ message: SimulatedMessage, _ simulation: Simulation, _ fail: (String) -> Violation) throws {
        guard !isLimited(simulation) else { throw fail("although a receiver delays the queue") }
        guard !isBlocked(message, simulation.store) else { throw fail("although a final failure before it blocks it") }
        guard !isMetered(message) else { throw fail("over a metered link") }
        for sequence in simulation.store.lanes[message.conversation] ?? [] where sequence < message.sequence {
            guard let other = simulation.store[sequence], other.isPlain, !isAfterJump(simulation.now) else { continue }
            // It is in the same batch.
            if simulation.sendingSequences.contains(sequence) { continue }
            let goesFirst = options.mode == .auto || putBack.contains(sequence) || isDelayed(other, simulation.now)
            guard !goesFirst || !options.strictOrder else {
                throw fail("although \(sequence) is before it")
            }
        }
    }

    private mutating func startsByItself(_ message: SimulatedMessage, _ simulation: Simulation, _ fail: (String) -> Violation) throws {
        let now = simulation.now
        let isAllowed = maySendBacklog(message.conversation, simulation)
        guard isAllowed || direct.contains(message.sequence) || retriesByTimer(message, simulation) || following.contains(message.sequence)
        else { throw fail("without permission") }
        guard !isLimited(simulation) else { throw fail("although a receiver delays the queue") }
        guard !isBlocked(message, simulation.store) else { throw fail("although a final failure before it blocks it") }
        let head = head(of: message.conversation, simulation)?.sequence
        guard head == message.sequence || isAfterJump(now) else { throw fail("although \(head ?? 0) is before it") }
        guard !hasExpired(message, now) else { throw fail("although it has expired") }
        guard !isMetered(message) else { throw fail("over a metered link") }
        guard isDue(message, now) || isAfterJump(now) else { throw fail("before its time") }
        try takesTurn(message, isAllowed: isAllowed && hasBudget(message, simulation), simulation, fail)
    }

    /// The transport is called.
    mutating func calls(_ messages: [SimulatedMessage], _ simulation: Simulation) throws {
        guard !isDisabled else { return }
        try pace.calls(messages.count, simulation.now)
        var last: [Name: (sequence: Int64, place: Int)] = [:]
        for (place, message) in messages.enumerated() {
            if let before = last[message.conversation] {
                guard before.place == place - 1 else {
                    throw Violation("the messages of \(message.conversation.text) are apart in a batch")
                }
                guard before.sequence < message.sequence else {
                    throw Violation("a batch has message \(message.sequence) behind \(before.sequence) of its conversation")
                }
            }
            last[message.conversation] = (message.sequence, place)
        }
    }

    mutating func expires(_ message: SimulatedMessage, _ simulation: Simulation) throws {
        guard !isDisabled else { return }
        guard hasExpired(message, simulation.now) else { throw Violation("message \(message.sequence) expired too early") }
        if session?.serves(message.conversation) == true { session?.tally.failed += 1 }
        putBack.remove(message.sequence)
        forced[message.sequence] = nil
    }

    // MARK: The drain

    mutating func finishes(_ report: Report, _ simulation: Simulation) throws {
        guard !isDisabled else { return }
        guard let session else { throw Violation("a drain finished that was not started") }
        guard isRight(report.stop, session, simulation) else { throw Violation("the drain reports a wrong stop: \(report.stop)") }
        let tally = session.tally
        guard report.sent == tally.sent, report.failed == tally.failed, report.discarded == tally.discarded else {
            throw Violation("the drain reports \(report), but did \(tally)")
        }
        if report.stop == .waiting, let head = startable(simulation), session.serves(head.conversation) {
            throw Violation("the drain ended although message \(head.sequence) of \(head.conversation.text) could go")
        }
        self.session = nil
        for sequence in Array(begun.keys) { begun[sequence]?.isCounted = false }
        guard report.stop == .waiting, options.mode == .ask, options.strictOrder else { return }
        for (conversation, lane) in simulation.store.lanes where session.serves(conversation) {
            guard let head = head(of: conversation, simulation), asked.contains(head.sequence) else { continue }
            following.formUnion(lane)
        }
    }

    private func isRight(_ stop: Report.Stop, _ session: Session, _ simulation: Simulation) -> Bool {
        let isOver = open(session, simulation) == 0
        let left = session.conversation.map { simulation.store.count(of: $0) } ?? simulation.store.queued.count
        switch stop {
        case .empty: return isOver && left == 0
        // The messages of a conversation with a hung call may be unread.
        case .waiting: return isOver && left > 0 && (!isHeldByPauses(session, simulation) || simulation.scheduler.flights.hung > 0)
        case .offline: return isOver && (!isOnline || session.isStopped)
        case .batch: return !session.hasBatchLeft && isOver
        case .timeout: return session.deadline.map { $0 <= simulation.now.mono } ?? false
        case .storage: return simulation.now.mono < simulation.storageUntil
        case .closed: return isClosing
        case .paused: return isOver && (simulation.scheduler.gate.pauses.isPaused || isAllPaused(session, simulation))
        case .started: return false
        }
    }

    /// Returns the number of attempts that the drain waits for.
    private func open(_ session: Session, _ simulation: Simulation) -> Int {
        simulation.scheduler.flights.values.count { !($0.timedOut && $0.isRunning) && session.serves($0.conversation) }
    }

    /// Whether every queued message is in a paused conversation.
    private func isAllPaused(_ session: Session, _ simulation: Simulation) -> Bool {
        if let conversation = session.conversation { return simulation.scheduler.gate.pauses.conversations.contains(conversation) }
        return !simulation.store.queued.isEmpty
            && Set(simulation.store.lanes.keys).isSubset(of: simulation.scheduler.gate.pauses.conversations)
    }

    /// Whether nothing else holds them, so that the scheduler knows it.
    private func isHeldByPauses(_ session: Session, _ simulation: Simulation) -> Bool {
        guard session.conversation == nil else { return isAllPaused(session, simulation) }
        return isAllPaused(session, simulation) && mayStart(simulation) && !isLimited(simulation)
    }

    // MARK: Waiting

    /// Returns a message that may start now, for which the scheduler must not wait.
    private func startable(_ simulation: Simulation) -> SimulatedMessage? {
        let now = simulation.now
        // With a ramp the number of slots may be as low as 1.
        let slots = pace.hasRamp ? 1 : mostSlots(simulation)
        guard mayStart(simulation), slotsTaken(simulation) < slots + Scheduler.manualSlots else { return nil }
        let closed = closed(simulation)
        for sequence in forced.keys.sorted() {
            if let message = simulation.store[sequence], !closed.contains(message.conversation) { return message }
        }
        guard slotsTaken(simulation) < slots, session?.hasBatchLeft != false, !isLimited(simulation) else { return nil }
        let maySend = backlogPermission(simulation)
        return heads(simulation).filter { head in
            let isAllowed = maySend(head.conversation) && hasBudget(head, simulation)
            return isReady(head, now) && (isAllowed || direct.contains(head.sequence) || retriesByTimer(head, simulation))
        }.min { $0.sequence < $1.sequence }
    }

    /// Whether a batch that is not full waits for more messages.
    private func waitsForMore(_ until: Int64?, _ simulation: Simulation) throws -> Bool {
        let end = simulation.scheduler.linger.until ?? 0
        guard let limits = simulation.scheduler.flights.limits, session == nil, end > simulation.now.mono else { return false }
        // The rate may permit an attempt only later.
        guard !simulation.scheduler.startWaitsForRate else { return false }
        guard let until, until <= end, end <= simulation.now.mono + limits.linger else {
            throw Violation("a batch waits longer than \(limits.linger) ms for messages")
        }
        return true
    }

    func waits(until: Int64?, _ simulation: Simulation) throws {
        guard !isDisabled else { return }
        let now = simulation.now
        if let until, until <= now.mono { throw Violation("the scheduler waits for a time that has passed") }
        for flight in simulation.scheduler.flights.values where !flight.isEnded && flight.deadline <= now.mono {
            throw Violation("the attempt of message \(flight.sequence) has not timed out")
        }
        if let session {
            let waitsForSlot = slotsTaken(simulation) >= (pace.hasRamp ? 1 : mostSlots(simulation)) && slots(simulation).open > 0
            let waitsForRate = pace.isLimited && simulation.scheduler.startWaitsForRate
            guard open(session, simulation) > 0 || waitsForSlot || waitsForRate else {
                throw Violation("a drain has no attempt in progress and no report")
            }
            if let deadline = session.deadline, deadline <= now.mono { throw Violation("a drain continues after its timeout") }
        }
        try waitsForPrompt(until: until, simulation)
        if let message = startable(simulation), !isAfterJump(now) || retries[message.sequence] != nil {
            if try waitsForMore(until, simulation) { return }
            do { try pace.waits(until: until, now) } catch {
                throw Violation("message \(message.sequence) of \(message.conversation.text) is ready, but does not start: \(error)")
            }
        }
        // Then the maintenance fails expired messages.
        if simulation.scheduler.startWaitsForRate { return }
        guard mayStart(simulation), session?.hasBatchLeft != false, !isAfterJump(now),
            slotsTaken(simulation) < (pace.hasRamp ? 1 : mostSlots(simulation))
        else { return }
        // The scheduler does not look at a message that waits for an unmetered link.
        for head in heads(simulation) where hasExpired(head, now) && isDue(head, now) && !isMetered(head) {
            guard maySendBacklog(head.conversation, simulation), hasBudget(head, simulation) else { continue }
            throw Violation("message \(head.sequence) has expired, but is not failed")
        }
    }
}
