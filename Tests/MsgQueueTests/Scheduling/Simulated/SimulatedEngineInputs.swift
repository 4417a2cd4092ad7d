@testable import MsgQueue

/// The inputs of the host and of the receiver. A result of nil or false means that nothing was changed: the store rejected the write or the
/// process ended.
extension SimulatedEngine {
    // MARK: Inserting

    /// Stores a message without an input to the scheduler, as if it had been there at the start.
    func preload(_ conversation: Name, _ change: (inout SimulatedMessage) -> Void = { _ in }) {
        _ = store.insert(conversation, change)
        store.commit()
        scheduler.opened(through: store.lastSequence, hasPriorities: store.hasPriorities, now)
        scheduler.openedWithBacklog(now)
    }

    /// Commits recorded facts, which must precede other writes. Returns false if the store rejects writes.
    func isReady() -> Bool {
        guard commit() else { return false }
        guard storeIsBroken else { return true }
        storageTrouble()
        return false
    }

    // MARK: One message

    enum RequestResult {
        /// An attempt is made as soon as its conversation is free.
        case accepted
        /// The request ended at once, without an attempt.
        case ended(Resolution)
    }

    /// Throws the errors of `retry` and `sendNow`. Returns nil if nothing was changed.
    func force(_ sequence: Int64, _ action: UserAction, _ hand: Hand) throws(QueueError) -> RequestResult? {
        guard commit() else { return nil }
        let message = try find(sequence, action)
        guard let resolution = try core.force(message.row, hand, now) else { return .accepted }
        store.apply(.endUnreachable(message.row, resolution))
        guard commit() else { return nil }
        observer?.endedUnreachable(sequence, resolution)
        handle(.endedUnreachable(message.row, resolution, now))
        return .ended(resolution)
    }

    private func find(_ sequence: Int64, _ action: UserAction) throws(QueueError) -> SimulatedMessage {
        guard let message = store[sequence] else { throw QueueError(.notFound, "message not found: \(sequence)") }
        try StatusRule.check(action, on: sendingSequences.contains(sequence) ? .sending : message.progress.status)
        return message
    }

    /// Puts the failed messages of one conversation or of all back, and sends them. Returns their sequences.
    func retryAll(_ conversation: Name?) -> [Int64] {
        guard scheduler.hasTransport, scheduler.network.isOnline || options.mode == .auto, isReady() else { return [] }
        guard !failed(in: conversation).isEmpty else { return [] }
        rounds += 1
        return putBack(failed(in: conversation), round: scheduler.round?.number ?? rounds) ?? []
    }

    /// Puts the failed messages back for a drain, except those of some conversations. Returns how many; nil: nothing was changed.
    func putBack(_ conversation: Name?, except paused: Set<Name>) -> Int? {
        guard isReady() else { return nil }
        return putBack(failed(in: conversation).filter { !paused.contains($0.conversation) }, round: 0)?.count
    }

    private func failed(in conversation: Name?) -> [SimulatedMessage] {
        let sending = sendingSequences
        return store.all.filter {
            $0.progress.status == .failed && (conversation == nil || $0.conversation == conversation) && !sending.contains($0.sequence)
        }.sorted { $0.sequence < $1.sequence }
    }

    /// Returns their sequences; nil: nothing was changed.
    private func putBack(_ failed: [SimulatedMessage], round: UInt32) -> [Int64]? {
        guard let last = failed.last else { return [] }
        var first: [Name: Int64] = [:]
        for message in failed {
            store.update(message.sequence) {
                $0.progress = OutcomeRule.putBack($0.progress, expiresAt: $0.expiresAt, round: round, now: now.wall)
            }
            if first[message.conversation] == nil { first[message.conversation] = message.sequence }
            expect(expiry: message.expiresAt)
        }
        guard commit() else { return nil }
        for name in first.keys { refreshBlock(name) }
        scheduler.putBack(first, round: round, through: last.sequence, now)
        return failed.map(\.sequence)
    }

    /// Returns false if nothing was changed.
    func delete(_ sequence: Int64) throws(QueueError) -> Bool {
        let message = try find(sequence, .delete)
        guard isReady() else { return false }
        store.delete(sequence)
        guard commit() else { return false }
        refreshBlock(message.conversation)
        scheduler.removed(sequence, message.conversation, now)
        return true
    }

    /// Returns the sequences of the messages deleted at once; nil: nothing was changed.
    func clear(_ conversation: Name?) -> [Int64]? {
        guard isReady() else { return nil }
        let open = flights.filter { conversation == nil || $0.conversation == conversation }
        for flight in open { store.update(flight.sequence) { $0.progress.doomed = true } }
        let removed = store.all.filter { message in
            (conversation == nil || message.conversation == conversation) && message.interrupted == nil
                && (message.progress.status == .queued || message.progress.status == .failed)
        }.map(\.sequence)
        for sequence in removed { store.delete(sequence) }
        guard commit() else { return nil }
        for flight in open { core.markCleared(flight.token) }
        scheduler.cleared(conversation, now)
        for name in conversation.map({ [$0] }) ?? scheduler.blockedConversations { refreshBlock(name) }
        return removed
    }

    // MARK: Outcomes

    /// Ends an attempt with an outcome.
    func end(_ flight: Flight, _ outcome: Outcome) throws {
        guard store[flight.sequence] != nil else { throw Violation("message \(flight.sequence) was deleted while in flight") }
        let isSkipped = outcome.verdict == .skipped
        try perform(isSkipped ? core.skipped(flight, now) : core.ended(flight, outcome, now, random: random()))
    }

    /// Handles an outcome after the timeout. Returns false if it has no effect.
    func answerLate(_ token: UInt64, _ outcome: Outcome) -> Bool {
        guard isReady(), unsaved.isEmpty, late.remove(token) != nil, let flight = core.lateFlight(token),
            let message = store[flight.sequence], let progress = core.lateSuccess(token, outcome, message.row, now)
        else { return false }
        store.update(flight.sequence) { $0.progress = progress }
        guard commit() else { return false }
        handle(core.lateSuccessSaved(token, message.row, progress, now))
        return true
    }

    /// Expires queued messages whose time has passed, like the engine's maintenance.
    func expireOverdue() throws {
        guard now.wall >= nextExpiry, isReady() else { return }
        let sending = sendingSequences
        let waiting = store.queued.compactMap { sending.contains($0) ? nil : store[$0] }
        for message in waiting where message.head.hasExpired(now) {
            try perform(core.expired(message.row, message.sequence, message.conversation, now))
        }
        guard commit() else { return }
        nextExpiry = waiting.map(\.head.expiresAt).filter { $0 > now.wall }.min() ?? Int64.max
    }
}
