@testable import MsgQueue

/// The checks of the prompt: it asks about what a drain would send now, besides what starts without one.
extension PromiseChecker {
    mutating func raisesPrompt(_ simulation: Simulation) throws {
        guard !isDisabled else { return }
        guard mayPrompt(simulation) else { throw Violation("a prompt was raised without a reason") }
        guard promptUntil == nil else { throw Violation("a second prompt was raised") }
        try isRight(simulation)
        promptUntil = simulation.now.mono + options.promptTimeout
        hasPrompted = true
        promptChangedAt = simulation.now.mono
    }

    mutating func changesPrompt(_ simulation: Simulation) throws {
        guard !isDisabled else { return }
        guard let until = promptUntil, stands(simulation, until) else { throw Violation("a prompt changed that does not stand") }
        guard simulation.now.mono - promptChangedAt >= 250 else { throw Violation("a prompt changed too soon") }
        try isRight(simulation)
        promptChangedAt = simulation.now.mono
    }

    mutating func withdrawsPrompt(_ simulation: Simulation) throws {
        guard !isDisabled else { return }
        guard let until = promptUntil else { throw Violation("a prompt was withdrawn that was not raised") }
        guard !stands(simulation, until) || asked(simulation).contains(0) else {
            throw Violation("a prompt was withdrawn without a reason")
        }
        promptUntil = nil
    }

    /// Whether the prompt stands as long as there is something to ask about.
    private func stands(_ simulation: Simulation, _ until: Int64) -> Bool {
        let hasMessages = !simulation.store.queued.isEmpty || options.promptForFailed
        return isOnline && hasTransport && !isClosing && !simulation.scheduler.gate.pauses.isPaused && hasMessages
            && (session == nil || session?.conversation != nil) && simulation.now.mono < until
    }

    private func mayPrompt(_ simulation: Simulation) -> Bool {
        options.mode == .ask && !hasPrompted && mayStart(simulation) && session == nil && simulation.now.mono >= settledAt
            && simulation.scheduler.flights.values.allSatisfy(\.isHung)
    }

    /// Whether the numbers of the prompt are those of the queue.
    private func isRight(_ simulation: Simulation) throws {
        guard let prompt = simulation.core.prompt else { throw Violation("a prompt has no numbers") }
        let (asked, total) = (asked(simulation), prompt.messages + prompt.failed)
        guard asked.contains(total), total > 0 else { throw Violation("a prompt asks about \(total) messages instead of \(asked)") }
    }

    func waitsForPrompt(until: Int64?, _ simulation: Simulation) throws {
        if let until = promptUntil, !stands(simulation, until) { throw Violation("a prompt is not withdrawn") }
        // While messages are put back, or the store refuses writes, nothing is counted.
        guard putBack.isEmpty, simulation.now.mono >= simulation.storageUntil, !isAfterJump(simulation.now) else { return }
        let counts = until.map { $0 <= simulation.now.mono + 250 } ?? false
        guard !counts, promptUntil != nil || mayPrompt(simulation) else { return }
        let least = asked(simulation).lowerBound
        guard promptUntil == nil else {
            guard let prompt = simulation.core.prompt else { throw Violation("a prompt has no numbers") }
            // Messages that have expired since are failed by the maintenance, when the host polls.
            let most = asked(simulation, countsExpired: true).upperBound
            guard (least...max(least, most)).contains(prompt.messages + prompt.failed) else {
                throw Violation("a prompt asks about \(prompt.messages) and \(prompt.failed) messages instead of \(least) to \(most)")
            }
            return
        }
        if least > 0 { throw Violation("no prompt is raised") }
    }

    // MARK: What a yes sends

    /// The least and the most messages that a drain would send now, besides those that start without one. Where such messages are in a
    /// conversation, the scheduler may not know all of it.
    private func asked(_ simulation: Simulation, countsExpired: Bool = false) -> ClosedRange<Int64> {
        guard mayStart(simulation), !isLimited(simulation) else { return 0...0 }
        var (least, most) = (0, 0)
        let sending = simulation.sendingSequences
        for (conversation, messages) in Dictionary(grouping: unsent(simulation), by: \.conversation) {
            if isLeft(conversation, simulation) { continue }
            let inOrder = messages.sorted { $0.sequence < $1.sequence }.filter { !sending.contains($0.sequence) }
            let areKnown = !messages.contains { startsByItself($0.sequence) }
            let sent = sent(of: inOrder, simulation, countsExpired: countsExpired)
            least += areKnown ? sent.lowerBound : 0
            most += sent.upperBound
        }
        let batch = options.drainBatch == 0 ? Int.max : options.drainBatch
        return Int64(min(least, batch))...Int64(min(most, batch))
    }

    private func unsent(_ simulation: Simulation) -> [SimulatedMessage] {
        guard options.promptForFailed else { return simulation.store.queued.compactMap { simulation.store[$0] } }
        return simulation.store.all.filter { $0.progress.status == .queued || $0.progress.status == .failed }
    }

    private func isLeft(_ conversation: Name, _ simulation: Simulation) -> Bool {
        simulation.scheduler.gate.pauses.conversations.contains(conversation) || session?.conversation == conversation
            || simulation.scheduler.flights.values.contains { $0.timedOut && $0.isRunning && $0.conversation == conversation }
    }

    private func startsByItself(_ sequence: Int64) -> Bool {
        direct.contains(sequence) || asked.contains(sequence) || following.contains(sequence) || putBack.contains(sequence)
    }

    /// Whether the message may have waited for something of its own when those that start with it did, so that a drain sends it.
    private func mayHaveWaited(_ message: SimulatedMessage) -> Bool {
        guard !direct.contains(message.sequence), !asked.contains(message.sequence) else { return false }
        return putBack.contains(message.sequence) || message.unmeteredOnly || message.notBefore != 0 || options.unmeteredOnly
    }

    /// The number of messages of one conversation that a drain sends one after another, if each succeeds.
    private func sent(of messages: [SimulatedMessage], _ simulation: Simulation, countsExpired: Bool) -> ClosedRange<Int> {
        let now = simulation.now
        var (count, skipped): (Int, Int?) = (0, nil)
        for message in messages {
            // They are put back first: without a delay, and without an expiry that has passed.
            let isFailed = message.progress.status == .failed
            if !isFailed, hasExpired(message, now), !countsExpired {
                if options.finalFailure == .block { break }
                continue
            }
            if isFailed ? message.notBefore > now.wall || isMetered(message) : isHeldBack(message, now) { continue }
            if !options.promptForFailed, isBlocked(message, simulation.store) { break }
            if !isFailed, isDelayed(message, now) { break }
            // The scheduler may have forgotten the skip.
            if now.mono < skips[message.sequence] ?? 0, skipped == nil { skipped = count }
            if isFailed || !startsByItself(message.sequence) || mayHaveWaited(message) { count += 1 }
        }
        return (skipped ?? count)...count
    }
}
