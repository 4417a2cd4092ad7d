@testable import MsgQueue

/// What a host, a receiver and the world do to a simulation.
extension Simulation {
    // MARK: Messages in

    /// Enqueues in one commit; their sequences.
    @discardableResult
    func enqueue(_ conversations: [Name], _ change: (inout FakeMessage) -> Void = { _ in }) -> [Int64] {
        guard !storeIsBroken else {
            storageTrouble()
            return []
        }
        let messages = conversations.map { store.insert($0, change) }
        var ahead: [Name: Int] = [:]
        for message in messages { ahead[message.conversation, default: 0] += 1 }
        for message in messages {
            let own = ahead[message.conversation] ?? 1
            let isDirect = scheduler.goesDirect(message.conversation) ?? isFirst(message, of: own)
            ahead[message.conversation] = own - 1
            note(.enqueued(message.sequence, message.conversation, direct: isDirect))
            judge.enqueued(message, isDirect: isDirect, self)
            scheduler.enqueued(message.head, message.conversation, goesDirect: isDirect, now)
        }
        return messages.map(\.sequence)
    }

    @discardableResult
    func enqueue(_ conversation: Name, count: Int = 1, _ change: (inout FakeMessage) -> Void = { _ in }) -> [Int64] {
        enqueue(Array(repeating: conversation, count: count), change)
    }

    /// Puts messages on disk that the scheduler has not heard of: as before a start.
    func preload(_ conversations: [Name], _ change: (inout FakeMessage) -> Void = { _ in }) {
        for conversation in conversations { _ = store.insert(conversation, change) }
    }

    private func isFirst(_ message: FakeMessage, of own: Int) -> Bool {
        let sending = flights.count { $0.conversation == message.conversation }
        return store.count(of: message.conversation) - sending <= own
    }

    // MARK: One message

    /// nil: it was taken.
    @discardableResult
    func force(_ sequence: Int64, _ action: PersonalAction, _ hand: Hand) -> QueueError.Code? {
        guard let message = store[sequence] else { return .notFound }
        let status = sendingPlaces.contains(sequence) ? .sending : message.progress.status
        if let code = refusal({ try StatusRule.check(action, on: status) }) { return code }
        let resolution: Resolution?
        do throws(QueueError) { resolution = try core.force(message.row, hand, now) } catch { return error.code }
        note(.forced(sequence, hand))
        guard let resolution else {
            judge.forced[sequence] = hand
            return nil
        }
        ended(unreachable: sequence, resolution)
        store.apply(.endUnreachable(message.row, resolution))
        follow(.endedUnreachable(message.row, resolution, now))
        return nil
    }

    /// Puts what failed back, of one conversation or of all; how many.
    @discardableResult
    func retryAll(_ conversation: Name? = nil) -> Int {
        guard judge.hasTransport, judge.isOnline || options.mode == .auto, !storeIsBroken else { return 0 }
        let all = store.all.filter { $0.progress.status == .failed && (conversation == nil || $0.conversation == conversation) }
        let failed = all.filter { !sendingPlaces.contains($0.sequence) }.sorted { $0.sequence < $1.sequence }
        guard let last = failed.last else { return 0 }
        rounds += 1
        let round = scheduler.roundNumber ?? rounds
        var first: [Name: Int64] = [:]
        for message in failed {
            store.update(message.sequence) {
                $0.progress = OutcomeRule.putBack($0.progress, expiresAt: $0.expiresAt, round: round, now: now.wall)
            }
            note(.putBack(message.sequence))
            if judge.isOnline { judge.putBack.insert(message.sequence) }
            if first[message.conversation] == nil { first[message.conversation] = message.sequence }
        }
        for name in first.keys { refreshBlock(name) }
        scheduler.putBack(first, round: round, through: last.sequence, now)
        return failed.count
    }

    @discardableResult
    func sendNow(_ sequence: Int64) -> QueueError.Code? { force(sequence, .sendNow, .sendNow) }

    @discardableResult
    func retry(_ sequence: Int64) -> QueueError.Code? { force(sequence, .retry, .retry) }

    @discardableResult
    func delete(_ sequence: Int64) -> QueueError.Code? {
        guard let message = store[sequence] else { return .notFound }
        if sendingPlaces.contains(sequence) { return .busy }
        guard !storeIsBroken else {
            storageTrouble()
            return .storage
        }
        note(.deleted(sequence))
        store.delete(sequence)
        judge.forced[sequence] = nil
        refreshBlock(message.conversation)
        scheduler.removed(sequence, message.conversation, now)
        return nil
    }

    func clear(_ conversation: Name? = nil) {
        guard !storeIsBroken else {
            storageTrouble()
            return
        }
        note(.cleared(conversation))
        for flight in flights where conversation == nil || flight.conversation == conversation {
            store.update(flight.sequence) { $0.progress.doomed = true }
            core.doom(flight.token)
        }
        for message in Array(store.all) where conversation == nil || message.conversation == conversation {
            guard message.progress.status == .queued || message.progress.status == .failed, message.cut == nil else { continue }
            store.delete(message.sequence)
            judge.forced[message.sequence] = nil
        }
        scheduler.cleared(conversation, now)
        for name in conversation.map({ [$0] }) ?? scheduler.blockedConversations { refreshBlock(name) }
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
        try end(flight, outcome)
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
        guard !storeIsBroken, unsaved.isEmpty, late.remove(token) != nil, let flight = core.lateFlight(token),
            let message = store[flight.sequence], let progress = core.lateSuccess(token, outcome, message.row, now)
        else { return }
        note(.late(flight.sequence))
        store.update(flight.sequence) { $0.progress = progress }
        judge.forced[flight.sequence] = nil
        for effect in core.answeredLate(token, message.row, now) { if case .notice(let notice) = effect { follow(notice) } }
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
        now = Moment(wall: now.wall + milliseconds, mono: 1_000)
        boot += 1
        restart()
    }

    func breakStore() {
        note(.storageBroken)
        storeIsBroken = true
    }

    func mendStore() { storeIsBroken = false }

    func close() {
        note(.closing)
        judge.isClosing = true
        scheduler.closing()
    }

    /// The process ends without a word, and another one opens the store.
    func restart(hasTransport: Bool = true) {
        note(.restarted)
        lostDrains += (scheduler.session == nil ? 0 : 1) + scheduler.pending.count
        for message in Array(store.all) {
            guard let cut = message.cut else { continue }
            let resolution = OutcomeRule.recover(
                number: cut.number, startedAt: cut.startedAt, of: message.progress, holdInterrupted: options.holdInterrupted,
                maxRetries: options.maxRetries)
            if resolution.fate == .deleted {
                store.delete(message.sequence)
            } else {
                store.update(message.sequence) { message in
                    message.cut = nil
                    message.progress = resolution.progress
                }
            }
        }
        (late, unsaved, storageUntil, storageDelay) = ([], [], 0, 0)
        storeIsBroken = false
        let opening = Opening(boot: boot, moment: now)
        core = Core(options, opening, firstToken: core.nextToken, openedAt: now.wall)
        if let hold = store.hold { scheduler.limit(until: hold.end(opening), now) }
        judge = Judge(options)
        judge.opened(self)
        for conversation in Set(store.all.map(\.conversation)) { refreshBlock(conversation) }
        if hasTransport {
            scheduler.transportChanged(present: true, now)
            judge.hasTransport = true
        }
    }
}
