import MsgQueueSimulation

@testable import MsgQueue

/// What a host, a receiver and the world do to a simulation; each is told to the judge, too.
extension Simulation {
    // MARK: Messages in

    /// Enqueues in one commit; their sequences.
    @discardableResult
    func enqueue(_ conversations: [Name], _ change: (inout SimulatedMessage) -> Void = { _ in }) -> [Int64] {
        let enqueued = withoutActuallyEscaping(change) { engine.enqueue(conversations, $0) } ?? []
        for (message, isDirect) in enqueued {
            note(.enqueued(message.sequence, message.conversation, direct: isDirect))
            judge.enqueued(message, isDirect: isDirect, self)
        }
        return enqueued.map(\.message.sequence)
    }

    @discardableResult
    func enqueue(_ conversation: Name, count: Int = 1, _ change: (inout SimulatedMessage) -> Void = { _ in }) -> [Int64] {
        enqueue(Array(repeating: conversation, count: count), change)
    }

    /// Puts messages on disk that the scheduler has not heard of: as before a start.
    func preload(_ conversations: [Name], _ change: (inout SimulatedMessage) -> Void = { _ in }) {
        for conversation in conversations { engine.preload(conversation, change) }
    }

    // MARK: One message

    /// nil: it was taken.
    @discardableResult
    func force(_ sequence: Int64, _ action: UserAction, _ hand: Hand) -> QueueError.Code? {
        do throws(QueueError) {
            guard let wish = try engine.force(sequence, action, hand) else { return .storage }
            note(.forced(sequence, hand))
            if case .accepted = wish { judge.forced[sequence] = hand }
            return nil
        } catch { return error.code }
    }

    /// Puts what failed back, of one conversation or of all; how many.
    @discardableResult
    func retryAll(_ conversation: Name? = nil) -> Int {
        let sequences = engine.retryAll(conversation)
        for sequence in sequences {
            note(.putBack(sequence))
            if judge.isOnline { judge.putBack.insert(sequence) }
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
        judge.forced[sequence] = nil
        return nil
    }

    func clear(_ conversation: Name? = nil) {
        guard let removed = engine.clear(conversation) else { return }
        note(.cleared(conversation))
        for sequence in removed { judge.forced[sequence] = nil }
    }

    // MARK: Answers

    /// The transport's answer to the attempt of this message: by its call's return or, `early`, by token while the call still runs.
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

    /// A transport's call that hung comes back, with an answer or none.
    func comeBack(_ token: UInt64, _ outcome: Outcome?) {
        guard let flight = scheduler.flights[token], flight.isEnded, flight.isRunning else { return }
        note(.returned(flight.sequence))
        scheduler.callReturned(token, now)
        if let outcome { answerLate(token, outcome) }
    }

    /// An answer after the time-out.
    func answerLate(_ token: UInt64, _ outcome: Outcome) {
        guard let flight = core.lateFlight(token), engine.answerLate(token, outcome) else { return }
        note(.late(flight.sequence))
        judge.forced[flight.sequence] = nil
    }

    /// Attempts that are over and whose calls have not come back.
    var hanging: [Flight] {
        scheduler.flights.values.filter { $0.isEnded && $0.isRunning }.sorted { $0.token < $1.token }
    }

    /// Settles and answers until nothing is under way.
    func run(_ answer: (Int64) -> Outcome = { _ in .sent }) throws {
        for _ in 0..<100_000 {
            try settle()
            guard let flight = flights.first else { return }
            try self.answer(flight.sequence, answer(flight.sequence))
        }
        throw Violation("it never comes to rest")
    }

    // MARK: The world

    func setNetwork(_ connectivity: Connectivity, metered: Bool = false) {
        let network = Network(connectivity: connectivity, link: .other, metered: metered)
        guard network != scheduler.network else { return }
        note(.network(network))
        judge.networkChanged(network, self)
        scheduler.networkChanged(network, now)
    }

    func goOffline() { setNetwork(.offline) }
    func goOnline(metered: Bool = false) { setNetwork(.online, metered: metered) }

    func setTransport(_ present: Bool) {
        note(.transport(present))
        judge.hasTransport = present
        scheduler.transportChanged(present: present, now)
    }

    func pause(_ conversation: Name? = nil) {
        note(.paused(conversation, true))
        _ = scheduler.pause(conversation, now)
    }

    func resume(_ conversation: Name? = nil) {
        note(.paused(conversation, false))
        _ = core.resume(conversation, now)
    }

    func setBackground(_ isInBackground: Bool) {
        note(.background(isInBackground))
        if scheduler.isInBackground, !isInBackground { judge.broughtToForeground() }
        scheduler.lifecycleChanged(isInBackground: isInBackground, now)
    }

    /// False: it joined the one under way, or there is no transport.
    @discardableResult
    func drain(_ conversation: Name? = nil, batch: Int = 0, timeout: Int64? = nil) -> Bool {
        guard judge.hasTransport else { return false }
        let drains = scheduler.drains
        let (number, begins) = scheduler.drain(conversation, batch: batch, timeout: timeout, now)
        guard number > drains else {
            note(.drainJoined)
            return false
        }
        note(.drainStarted(batch: batch, timeout: timeout))
        let session = Judge.Session(
            conversation: conversation, batch: batch == 0 ? options.drainBatch : batch, deadline: timeout.map { now.mono + $0 })
        if begins { judge.drainStarted(session, self) } else { judge.pending.append(session) }
        return true
    }

    func advance(_ milliseconds: Int64) {
        now.mono += milliseconds
        now.wall += milliseconds
    }

    /// The kernel may tell of it, or not (another machine's clock, in a virtual one).
    func jumpWallClock(_ milliseconds: Int64, isTold: Bool = false) {
        note(.jumped(milliseconds))
        now.wall += milliseconds
        judge.wallJumpedAt = now.mono
        if isTold { scheduler.clockSet(now) }
    }

    /// The machine is switched off for so long by the wall clock, which may have been set meanwhile.
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
        judge.isClosing = true
        scheduler.closing()
    }

    /// The process ends without a word, and another one opens the store.
    func restart(hasTransport: Bool = true) {
        note(.restarted)
        lostDrains += (scheduler.session == nil ? 0 : 1) + scheduler.pending.count
        engine.commit()
        engine.restart()
        judge = Judge(options)
        judge.opened(self)
        if hasTransport {
            scheduler.transportChanged(present: true, now)
            judge.hasTransport = true
        }
    }
}
