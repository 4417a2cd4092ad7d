@testable import MsgQueue

/// The inputs of a host, a receiver and the environment, which the checker gets, too.
extension Simulation {
    // MARK: Adding messages

    /// Enqueues in one commit. Returns the sequences. What it replaces and drops is checked; the next `settle` throws a violation.
    @discardableResult
    func enqueue(
        _ conversations: [Name], key: String? = nil, _ change: (inout SimulatedMessage) -> Void = { _ in }
    ) -> [Int64] {
        engine.commit()
        let insertion = InsertionChecker(self, conversations, key)
        var enqueued: [SimulatedEngine.Enqueued] = []
        do throws(Violation) {
            do throws(QueueError) {
                enqueued =
                    try withoutActuallyEscaping(change) { change throws(QueueError) in
                        try engine.enqueue(conversations, key: key, change)
                    } ?? []
            } catch {
                try insertion.checkRefusal(error, self)
            }
            try insertion.check(enqueued, self)
        } catch { violation = error }
        for entry in enqueued {
            for old in entry.dropped {
                note(.dropped(old.sequence))
                checker.removed(old.sequence)
            }
            for old in entry.replaced {
                note(.replaced(old.sequence, by: entry.message.sequence))
                checker.removed(old.sequence)
            }
            note(.enqueued(entry.message.sequence, entry.message.conversation, direct: entry.isDirect))
            checker.enqueued(entry.message, isDirect: entry.isDirect, self)
        }
        return enqueued.map(\.message.sequence)
    }

    @discardableResult
    func enqueue(
        _ conversation: Name, count: Int = 1, key: String? = nil, _ change: (inout SimulatedMessage) -> Void = { _ in }
    ) -> [Int64] {
        enqueue(Array(repeating: conversation, count: count), key: key, change)
    }

    /// Adds messages to the store before the scheduler starts.
    func preload(_ conversations: [Name], _ change: (inout SimulatedMessage) -> Void = { _ in }) {
        for conversation in conversations { engine.preload(conversation, change) }
        checker.pace.interrupted()
    }

    // MARK: One message

    /// Returns the error; nil: the request was accepted.
    @discardableResult
    func force(_ sequence: Int64, _ action: UserAction, _ hand: Hand) -> QueueError.Code? {
        do throws(QueueError) {
            guard let wish = try engine.force(sequence, action, hand) else { return .storage }
            note(.forced(sequence, hand))
            if case .accepted = wish { checker.forced[sequence] = hand }
            return nil
        } catch { return error.code }
    }

    /// Puts failed messages back, of one conversation or of all. Returns their number.
    @discardableResult
    func retryAll(_ conversation: Name? = nil) -> Int {
        let sequences = engine.retryAll(conversation)
        for sequence in sequences {
            note(.putBack(sequence))
            if checker.isOnline { checker.putBack.insert(sequence) }
        }
        return sequences.count
    }

    @discardableResult
    func sendNow(_ sequence: Int64) -> QueueError.Code? { force(sequence, .sendNow, .sendNow) }

    @discardableResult
    func retry(_ sequence: Int64) -> QueueError.Code? { force(sequence, .retry, .retry) }

    @discardableResult
    func delete(_ sequence: Int64) -> QueueError.Code? {
        do throws(QueueError) {
            guard try engine.delete(sequence) else { return .storage }
        } catch { return error.code }
        note(.deleted(sequence))
        checker.forced[sequence] = nil
        return nil
    }

    func clear(_ conversation: Name? = nil) {
        guard let removed = engine.clear(conversation) else { return }
        note(.cleared(conversation))
        for sequence in removed { checker.forced[sequence] = nil }
    }

    // MARK: Answers

    /// Answers the attempt of this message when the call returns or, with `early`, by token while the call still runs.
    func answer(_ sequence: Int64, _ outcome: Outcome, early: Bool = false) throws {
        guard let flight = flights.first(where: { $0.sequence == sequence }) else {
            throw Violation("message \(sequence) is not being sent")
        }
        if flight.isRunning, !early {
            scheduler.callReturned(flight.token, now)
            note(.returned(sequence))
        }
        try engine.end(flight, outcome)
    }

    /// Returns a hung call of the transport, with or without an answer.
    func returnCall(_ token: UInt64, _ outcome: Outcome?) {
        guard let flight = scheduler.flights[token], flight.isEnded, flight.isRunning else { return }
        note(.returned(flight.sequence))
        scheduler.callReturned(token, now)
        if let outcome { answerLate(token, outcome) }
    }

    /// Answers after the time-out.
    func answerLate(_ token: UInt64, _ outcome: Outcome) {
        guard let flight = core.lateFlight(token), engine.answerLate(token, outcome) else { return }
        note(.late(flight.sequence))
        checker.forced[flight.sequence] = nil
    }

    /// Attempts that have ended but whose calls have not returned.
    var hanging: [Flight] {
        scheduler.flights.values.filter { $0.isEnded && $0.isRunning }.sorted { $0.token < $1.token }
    }

    /// Performs steps and answers until no attempt is in progress.
    func run(_ answer: (Int64) -> Outcome = { _ in .sent }) throws {
        for _ in 0..<100_000 {
            try settle()
            guard let flight = flights.first else { return }
            try self.answer(flight.sequence, answer(flight.sequence))
        }
        throw Violation("the simulation does not end")
    }

    // MARK: Environment

    func setNetwork(_ connectivity: Connectivity, metered: Bool = false) {
        let network = Network(connectivity: connectivity, link: .other, metered: metered)
        guard network != scheduler.network else { return }
        note(.network(network))
        checker.networkChanged(network, self)
        scheduler.networkChanged(network, now)
    }

    func goOffline() { setNetwork(.offline) }
    func goOnline(metered: Bool = false) { setNetwork(.online, metered: metered) }

    func setTransport(_ present: Bool) {
        note(.transport(present))
        checker.hasTransport = present
        scheduler.transportChanged(present: present, batches: present ? limits : nil, now)
    }

    func pause(_ conversation: Name? = nil) {
        note(.paused(conversation, true))
        _ = scheduler.pause(conversation, now)
    }

    func resume(_ conversation: Name? = nil) {
        note(.paused(conversation, false))
        if conversation == nil, scheduler.isPaused { checker.pace.interrupted() }
        _ = core.resume(conversation, now)
    }

    func setBackground(_ isInBackground: Bool) {
        note(.background(isInBackground))
        if scheduler.isInBackground, !isInBackground { checker.broughtToForeground() }
        scheduler.lifecycleChanged(isInBackground: isInBackground, now)
    }

    /// Returns false when it joined the current drain, or there is no transport.
    @discardableResult
    func drain(_ conversation: Name? = nil, batch: Int = 0, timeout: Int64? = nil) -> Bool {
        guard checker.hasTransport else { return false }
        let drains = scheduler.gate.drains.count
        let (number, begins) = scheduler.drain(conversation, batch: batch, timeout: timeout, now)
        guard number > drains else {
            note(.drainJoined)
            checker.drainJoined(conversation, deadline: timeout.map { now.mono + $0 })
            return false
        }
        note(.drainStarted(batch: batch, timeout: timeout))
        let session = PromiseChecker.Session(
            conversation: conversation, batch: batch == 0 ? options.drainBatch : batch, deadline: timeout.map { now.mono + $0 })
        if begins { checker.drainStarted(session, self) } else { checker.pending.append(session) }
        return true
    }

    func advance(_ milliseconds: Int64) {
        now.mono += milliseconds
        now.wall += milliseconds
    }

    /// Sets the wall clock. The kernel may report that or not (the clock of a host, in a virtual machine).
    func jumpWallClock(_ milliseconds: Int64, isReported: Bool = false) {
        note(.jumped(milliseconds))
        now.wall += milliseconds
        checker.wallJumpedAt = now.mono
        if isReported { scheduler.clockSet(now) }
    }

    /// Reboots the machine. `milliseconds` is the difference of the wall clock, which may have been set meanwhile.
    func reboot(after milliseconds: Int64) {
        note(.rebooted(milliseconds))
        engine.commit()
        engine.reboot(after: milliseconds)
        restart()
    }

    func breakStore() {
        note(.storageBroken)
        engine.storeIsBroken = true
    }

    func mendStore() { engine.storeIsBroken = false }

    func close() {
        note(.closing)
        checker.isClosing = true
        scheduler.closing()
    }

    /// Ends the process without a close, and opens the store in another one.
    func restart(hasTransport: Bool = true) {
        note(.restarted)
        lostDrains += (scheduler.session == nil ? 0 : 1) + scheduler.gate.drains.pending.count
        engine.commit()
        let (pace, boot) = (checker.pace, self.boot)
        engine.restart()
        checker = PromiseChecker(options)
        // Its times count from the boot.
        if boot == pacedBoot { checker.pace = pace }
        pacedBoot = boot
        checker.opened(self)
        if hasTransport {
            scheduler.transportChanged(present: true, batches: limits, now)
            checker.hasTransport = true
        }
    }
}
