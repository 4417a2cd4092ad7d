@testable import MsgQueue

/// The order between conversations.
extension PromiseChecker {
    /// The attempts of the backlog and of live messages since the start.
    struct Turns {
        /// Attempts that both could have had, and those of them that were live.
        var contested = 0
        var live = 0
        /// The attempts of each side since its oldest message had one.
        var sinceOldest: [Bool: Int] = [:]
        /// An attempt was made of which it is not known what else could have been sent: the counts above are not exact.
        var isUncertain = false
    }

    private func expiry(_ message: SimulatedMessage) -> Int64 {
        let expires = options.soonestExpiryFirst && !message.progress.ignoresExpiry && message.expiresAt != 0
        return expires ? message.expiresAt : Int64.max
    }

    private func precedes(_ left: SimulatedMessage, _ right: SimulatedMessage) -> Bool {
        if left.priority != right.priority { return left.priority > right.priority }
        return (expiry(left), left.sequence) < (expiry(right), right.sequence)
    }

    /// Checks that the message is the first of its side by rank, or the oldest if it is that one's turn, and that live messages have their
    /// share of the attempts.
    mutating func takesTurn(
        _ message: SimulatedMessage, isAllowed: Bool, _ simulation: Simulation, _ fail: (String) -> Violation
    ) throws {
        let now = simulation.now
        let isCertain = options.mode == .auto && options.drainBatch == 0 && sendsAutomatically(simulation) && !isAfterJump(now)
        if !isCertain { turns.isUncertain = true }
        guard isAllowed, !isAfterJump(now) else { return }
        // The rest of a batch of one conversation takes no turns.
        if let batch = simulation.scheduler.gate.gathering, batch.count > 0, batch.limits.singleConversation { return }
        let maySend = backlogPermission(simulation)
        let ready = heads(simulation).filter { head in
            (isReady(head, now) || head.sequence == message.sequence) && maySend(head.conversation)
                && hasBudget(head, simulation)
        }
        let through = simulation.scheduler.lanes.ready.backlogThrough
        let isLive = message.sequence > through
        let side = ready.filter { ($0.sequence > through) == isLive }
        guard let oldest = side.min(by: { $0.sequence < $1.sequence }), let first = side.min(by: precedes) else { return }
        let isOldest = oldest.sequence == message.sequence
        guard isOldest || first.sequence == message.sequence else {
            throw fail("although \(first.sequence) of \(first.conversation.text) is first, and \(oldest.sequence) the oldest")
        }
        guard !turns.isUncertain else { return }
        let since = turns.sinceOldest[isLive] ?? 0
        guard first.sequence == message.sequence || since == 7 else { throw fail("as the oldest, after \(since) others") }
        guard isOldest || since < 7 else { throw fail("although it is the turn of \(oldest.sequence), the oldest") }
        turns.sinceOldest[isLive] = isOldest ? 0 : since + 1
        guard side.count < ready.count else { return }
        turns.contested += 1
        if isLive { turns.live += 1 }
        let due = options.liveShare * Double(turns.contested) - Double(turns.live)
        guard due > -0.001, due < 1 else { throw fail("as live message \(turns.live) of \(turns.contested) attempts") }
    }
}
