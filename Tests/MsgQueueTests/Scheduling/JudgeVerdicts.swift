import MsgQueueSimulation

@testable import MsgQueue

/// What the judge says of each step.
extension Judge {
    // MARK: Attempts

    mutating func starts(_ message: SimulatedMessage, _ conversation: Name, _ hand: Hand, _ simulation: Simulation) throws {
        guard !isAsleep else { return }
        let what = "message \(message.sequence) of \(message.conversation.text)"
        func fail(_ why: String) -> Violation { Violation("\(what) was started \(why)") }
        guard conversation == message.conversation else { throw fail("in conversation \(conversation.text)") }
        guard isOnline else { throw fail("while offline") }
        guard hasTransport else { throw fail("without a transport") }
        guard !isClosing else { throw fail("while closing") }
        guard simulation.now.mono >= simulation.storageUntil else { throw fail("while the store was in trouble") }
        guard mayStart(simulation), !simulation.scheduler.pausedConversations.contains(conversation) else { throw fail("while paused") }
        guard !simulation.sendingSequences.contains(message.sequence) else { throw fail("while it was being sent") }
        for flight in simulation.scheduler.flights.values where flight.conversation == message.conversation {
            throw fail("beside message \(flight.sequence) of its conversation")
        }
        // What a person asks for does not wait for what the engine does by itself.
        let most = options.maxInFlight + (hand.isOutOfTurn ? Scheduler.manualSlots : 0)
        guard slotsTaken(simulation) < most else { throw fail("as number \(slotsTaken(simulation) + 1) of \(most)") }
        if hand == .none {
            try startsByItself(message, simulation, fail)
            if message.progress.dueAt == 0, session?.serves(conversation) == true { session?.started += 1 }
        } else if hand == .retryAll {
            guard putBack.contains(message.sequence) else { throw fail("with others, which nobody asked for") }
            try startsWithOthers(message, simulation, fail)
        } else {
            guard forced[message.sequence] == hand else { throw fail("by \(hand), which nobody asked for") }
        }
        forced[message.sequence] = nil
        putBack.remove(message.sequence)
        direct.remove(message.sequence)
    }

    private func startsWithOthers(_ message: SimulatedMessage, _ simulation: Simulation, _ fail: (String) -> Violation) throws {
        guard !isLimited(simulation) else { throw fail("although a receiver asked the queue to wait") }
        guard !isBlocked(message, simulation) else { throw fail("although one before it failed for good") }
        guard !isMetered(message) else { throw fail("over a metered link") }
        for sequence in simulation.store.lanes[message.conversation] ?? [] where sequence < message.sequence {
            guard let other = simulation.store[sequence], other.isPlain, !isAfterJump(simulation.now) else { continue }
            let goesFirst = options.mode == .auto || putBack.contains(sequence) || isDelayed(other, simulation.now)
            guard !goesFirst || !options.strictOrder else {
                throw fail("although \(sequence) stands before it")
            }
        }
    }

    private func startsByItself(_ message: SimulatedMessage, _ simulation: Simulation, _ fail: (String) -> Violation) throws {
        let now = simulation.now
        let leave = hasLeave(message.conversation, simulation)
        guard leave || direct.contains(message.sequence) || returns(message, simulation) || following.contains(message.sequence)
        else { throw fail("without leave") }
        guard !isLimited(simulation) else { throw fail("although a receiver asked the queue to wait") }
        guard !isBlocked(message, simulation) else { throw fail("although one before it failed for good") }
        let head = head(of: message.conversation, simulation)?.sequence
        guard head == message.sequence || isAfterJump(now) else { throw fail("although \(head ?? 0) stands before it") }
        guard !hasExpired(message, now) else { throw fail("although it has expired") }
        guard !isMetered(message) else { throw fail("over a metered link") }
        guard isDue(message, now) || isAfterJump(now) else { throw fail("before its time") }
        guard leave, hasBudget(message) else { return }
        // Oldest first, of all that may go.
        for head in heads(simulation) where head.sequence < message.sequence {
            guard hasLeave(head.conversation, simulation), hasBudget(head) else { continue }
            guard !mayGo(head, now) || isAfterJump(now) else {
                throw fail("although \(head.sequence) of \(head.conversation.text) could go")
            }
        }
    }

    mutating func expires(_ message: SimulatedMessage, _ simulation: Simulation) throws {
        guard !isAsleep else { return }
        guard hasExpired(message, simulation.now) else { throw Violation("message \(message.sequence) expired too early") }
        if session?.serves(message.conversation) == true { session?.tally.failed += 1 }
        putBack.remove(message.sequence)
        forced[message.sequence] = nil
    }

    // MARK: The drain

    mutating func finishes(_ report: Report, _ simulation: Simulation) throws {
        guard !isAsleep else { return }
        guard let session else { throw Violation("a drain finished that was not asked for") }
        guard isRight(report.stop, session, simulation) else { throw Violation("the drain says it stopped for \(report.stop)") }
        let tally = session.tally
        guard report.sent == tally.sent, report.failed == tally.failed, report.discarded == tally.discarded else {
            throw Violation("the drain reports \(report), but it was \(tally)")
        }
        if report.stop == .waiting, let head = startable(simulation), session.serves(head.conversation) {
            throw Violation("the drain ended although message \(head.sequence) of \(head.conversation.text) could go")
        }
        self.session = nil
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
        case .waiting: return isOver && left > 0 && !isHeldByPauses(session, simulation)
        case .offline: return isOver && (!isOnline || session.isStopped)
        case .batch: return !session.hasBatchLeft && isOver
        case .timeout: return session.deadline.map { $0 <= simulation.now.mono } ?? false
        case .storage: return simulation.now.mono < simulation.storageUntil
        case .closed: return isClosing
        case .paused: return isOver && (simulation.scheduler.isPaused || isHeldByPauses(session, simulation))
        case .started: return false
        }
    }

    /// Attempts that the drain waits for.
    private func open(_ session: Session, _ simulation: Simulation) -> Int {
        simulation.scheduler.flights.values.count { !($0.timedOut && $0.isRunning) && session.serves($0.conversation) }
    }

    /// Everything that is queued is in paused conversations, and was found by the drain.
    private func isHeldByPauses(_ session: Session, _ simulation: Simulation) -> Bool {
        if let conversation = session.conversation { return simulation.scheduler.pausedConversations.contains(conversation) }
        return !simulation.store.queued.isEmpty && mayStart(simulation) && !isLimited(simulation)
            && Set(simulation.store.lanes.keys).isSubset(of: simulation.scheduler.pausedConversations)
    }

    // MARK: The prompt

    mutating func raisesPrompt(_ simulation: Simulation) throws {
        guard !isAsleep else { return }
        let isBacklog = simulation.store.queued.contains { !direct.contains($0) }
        guard mayPrompt(simulation), isBacklog else { throw Violation("a prompt that is none") }
        guard promptUntil == nil else { throw Violation("a second prompt") }
        promptUntil = simulation.now.mono + options.promptTimeout
        hasPrompted = true
    }

    mutating func withdrawsPrompt(_ simulation: Simulation) throws {
        guard !isAsleep else { return }
        guard let until = promptUntil else { throw Violation("a prompt withdrawn that was not raised") }
        guard !stands(simulation, until) else { throw Violation("a prompt withdrawn without reason") }
        promptUntil = nil
    }

    private func stands(_ simulation: Simulation, _ until: Int64) -> Bool {
        isOnline && !simulation.store.queued.isEmpty && (session == nil || session?.conversation != nil) && !isClosing
            && simulation.now.mono < until
    }

    private func mayPrompt(_ simulation: Simulation) -> Bool {
        options.mode == .ask && !hasPrompted && mayStart(simulation) && session == nil && simulation.now.mono >= settledAt
            && simulation.scheduler.flights.values.allSatisfy(\.isHung)
    }

    /// There is a conversation with nothing that goes by itself.
    private func shouldPrompt(_ simulation: Simulation) -> Bool {
        guard mayPrompt(simulation) else { return false }
        return putBack.isEmpty
            && simulation.store.lanes.values.contains { lane in !lane.contains { direct.contains($0) || asked.contains($0) } }
    }

    // MARK: Rest

    /// A message that could go now: the scheduler must not wait.
    private func startable(_ simulation: Simulation) -> SimulatedMessage? {
        let now = simulation.now
        guard mayStart(simulation), slotsTaken(simulation) < options.maxInFlight + Scheduler.manualSlots else { return nil }
        let closed = closed(simulation)
        for sequence in forced.keys.sorted() {
            if let message = simulation.store[sequence], !closed.contains(message.conversation) { return message }
        }
        guard slotsTaken(simulation) < options.maxInFlight, session?.hasBatchLeft != false, !isLimited(simulation) else { return nil }
        return heads(simulation).first { head in
            let leave = hasLeave(head.conversation, simulation) && hasBudget(head)
            let own = (direct.contains(head.sequence) && head.isPlain) || returns(head, simulation)
            return mayGo(head, now) && (leave || own)
        }
    }

    func waits(until: Int64?, _ simulation: Simulation) throws {
        guard !isAsleep else { return }
        let now = simulation.now
        if let until, until <= now.mono { throw Violation("it waits for a time that has passed") }
        for flight in simulation.scheduler.flights.values where !flight.isEnded && flight.deadline <= now.mono {
            throw Violation("the attempt of message \(flight.sequence) does not time out")
        }
        if let session {
            let waitsForSlot = slotsTaken(simulation) >= options.maxInFlight && slots(simulation).open > 0
            guard open(session, simulation) > 0 || waitsForSlot else { throw Violation("a drain has nothing under way and no report") }
            if let deadline = session.deadline, deadline <= now.mono { throw Violation("a drain goes on beyond its time") }
        }
        if let until = promptUntil, !stands(simulation, until) { throw Violation("a prompt is not withdrawn") }
        if shouldPrompt(simulation) { throw Violation("no prompt is raised") }
        if let message = startable(simulation), !isAfterJump(now) || retries[message.sequence] != nil {
            throw Violation("message \(message.sequence) of \(message.conversation.text) could go, but nothing happens")
        }
        guard mayStart(simulation), session?.hasBatchLeft != false, !isAfterJump(now), slotsTaken(simulation) < options.maxInFlight
        else { return }
        for head in heads(simulation) where hasExpired(head, now) && isDue(head, now) {
            guard hasLeave(head.conversation, simulation), hasBudget(head) else { continue }
            throw Violation("message \(head.sequence) has expired, but nothing happens")
        }
    }
}
