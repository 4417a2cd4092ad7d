/// Makes calls of the transport and ends attempts with their outcomes. Under the engine's lock, which calls release.
final class OutcomeHandler {
    /// How many outcomes are written before other calls have their turn, and how many if each commit is flushed.
    private static let (outcomesPerTurn, flushedPerTurn) = (64, 128)

    private let context: EngineContext
    private let store: Store
    private let ports: Ports
    private let calls: CallQueue
    private let host: HostCalls
    private let transactions: Transactions
    private let writes: PendingWrites
    /// Calls that have returned, of which not all outcomes are handled.
    private var unhandled: [CallQueue.Returned] = []
    /// Calls that have not been counted against the rate.
    private var begun: [(starts: [Core.Start], beginning: CallBeginning)] = []
    /// Releases of replaced transports whose last call has returned.
    private var dueReleases: [@Sendable () -> Void] = []

    init(_ context: EngineContext, _ calls: CallQueue, _ host: HostCalls, _ transactions: Transactions, _ writes: PendingWrites) {
        (self.context, store, ports) = (context, context.store, context.ports)
        (self.calls, self.host, self.transactions, self.writes) = (calls, host, transactions, writes)
    }

    /// Handles the outcomes that have arrived, and revokes the calls that no thread has taken: the queue will be closed next.
    func prepareClose() {
        calls.close()
        var all = Int.max
        _ = handleReturned(atMost: .max, share: &all)
        writes.commit()
    }

    /// Returns the releases that are due when the queue is closed.
    func close() -> [@Sendable () -> Void] {
        defer { dueReleases = [] }
        return dueReleases
    }

    /// How many outcomes are written in one commit. The lock is released between commits, so that callers need not wait long.
    var perCommit: Int { context.options.durableOutcomes ? Self.flushedPerTurn : Self.outcomesPerTurn }

    // MARK: Calls

    /// Returns since when the call of an attempt is being made (monotonic); now, if it waits or its outcome does; nil: it is pending.
    func beginning(of token: UInt64) -> Int64? {
        unhandled.contains { $0.call.contains(token) } ? ports.mono() : calls.beginning(of: token)
    }

    /// Makes the call and further ones, with the lock released, then handles the outcomes. `begin` begins the next attempts in the same
    /// commit.
    func make(_ call: CallQueue.Call, thenBegin begin: () -> Void) {
        host.beginTransportCall()
        if let beginning = call.beginning { begun.append((call.attempts.map(\.start), beginning)) }
        handleReturnedInTurns(host.call { calls.make(call) { context.isOwnProcess } })
        // The beginning of a large batch takes as long as several parts of the outcomes.
        if call.attempts.count > perCommit { giveTurn() }
        if calls.hasWaiting || !dueReleases.isEmpty { writes.commit() } else { begin() }
        runReleases()
        host.endTransportCall()
    }

    /// Handles the outcomes that other threads have left, whose calls take long now.
    func handleLeft() {
        guard calls.state.hasWork else { return }
        handleReturnedInTurns(0)
        giveTurn()
        runReleases()
    }

    /// Handles the outcomes that have arrived. Those of large batches are committed in parts, between which the lock is released. `share`: how
    /// many calls this thread has made; then it may leave the rest to others.
    private func handleReturnedInTurns(_ share: Int) {
        var share = share
        while handleReturned(atMost: perCommit, share: &share) { giveTurn() }
        if share > 0 { calls.attended(share) }
    }

    /// Commits what was handled, and lets callers that wait run. A long log is checkpointed in a turn of its own.
    private func giveTurn() {
        writes.commit()
        context.lock.yield()
        if transactions.checkpointBetweenSteps() { context.lock.yield() }
    }

    /// Whether the threads that made the calls handle what is left, so that this one begins the next batch: if batches that return together
    /// also went on together, none would be sent while the outcomes of another are stored. What keeps others from being sent is handled first.
    private var mayLeaveRest: Bool {
        unhandled.allSatisfy { returned in
            returned.call.transport.function.limits != nil && returned.outcomes?.allSatisfy(Classification.letsOthersContinue) == true
        } && unhandled.count <= calls.owedCalls
    }

    /// Counts the calls against the rate that have begun. Until then they are judged as if they began now.
    func countBegun() {
        begun.removeAll { starts, beginning in
            guard let time = beginning.time else { return false }
            for start in starts { context.core.called(start, at: time) }
            return true
        }
    }

    /// Handles outcomes that have arrived. Returns whether some are left for this thread.
    private func handleReturned(atMost limit: Int, share: inout Int) -> Bool {
        guard !context.isForkedChild else { return false }
        countBegun()
        unhandled += calls.takeReturned()
        writes.beginGathering(unhandled.reduce(0) { $0 + $1.places.count })
        defer { writes.endGathering() }
        var left = limit
        while !unhandled.isEmpty {
            if share == 0, mayLeaveRest { return false }
            let call = unhandled[0].call
            if let outcomes = unhandled[0].outcomes {
                while left > 0, let place = unhandled[0].places.popLast() {
                    returned(call.attempts[place].flight, outcomes[place])
                    left -= 1
                }
                guard unhandled[0].places.isEmpty else { return true }
            } else {
                for attempt in call.attempts { revoked(attempt.start) }
            }
            if unhandled.removeFirst().outcomes != nil, share > 0 {
                share -= 1
                calls.attended(1)
            }
            // A call that has returned and never began sent nothing.
            if let beginning = call.beginning { begun.removeAll { $0.beginning === beginning } }
            if let release = call.transport.leave() { dueReleases.append(release) }
        }
        return false
    }

    /// Puts a message back whose call was not made.
    private func revoked(_ start: Core.Start) {
        guard context.phase != .closed else { return }
        writes.perform(context.core.revoked(start, ports.moment))
    }

    private func runReleases() {
        let releases = dueReleases
        dueReleases = []
        for release in releases { host.call(release) }
    }

    /// Handles an outcome that the transport's call returned.
    private func returned(_ flight: Flight, _ outcome: Outcome) {
        guard context.phase != .closed else { return }
        let isAnswered = context.core.openFlight(flight.token) == nil
        context.core.scheduler.callReturned(flight.token, ports.moment)
        guard outcome.verdict != .pending else { return }
        if !isAnswered {
            end(flight, outcome)
        } else if context.core.lateFlight(flight.token) != nil {
            // The call returned after its timeout. A success still counts, if the message was not attempted again.
            do throws(QueueError) { try answerLate(flight.token, outcome) } catch {
                Log.warning("\(store.path): ignored a late outcome for message \(flight.sequence): \(error.detail)")
            }
        }
    }

    /// Ends attempts that the transport left pending, in one commit. `begin` begins the next attempts in the same commit; nil: others do.
    /// Returns the error of each; nil: its outcome counts.
    func complete(
        _ answers: ArraySlice<(token: UInt64, outcome: Outcome)>, thenBegin begin: (() -> Void)?
    ) -> [QueueError?] {
        context.lock.assertHeld()
        countBegun()
        writes.beginGathering(answers.count)
        defer {
            writes.endGathering()
            if let begin { begin() } else { writes.commit() }
        }
        return answers.map { token, outcome in
            do throws(QueueError) { try complete(token, outcome) } catch { return error }
            return nil
        }
    }

    /// The caller commits.
    private func complete(_ token: UInt64, _ outcome: Outcome) throws(QueueError) {
        guard context.core.hasIssued(token) else { throw QueueError(.notFound, "attempt token not found: \(token)") }
        guard let flight = context.core.openFlight(token) else { return try answerLate(token, outcome) }
        end(flight, outcome)
    }

    /// Ends an attempt in flight; the caller commits.
    private func end(_ flight: Flight, _ outcome: Outcome) {
        guard outcome.verdict != .skipped else {
            return writes.perform(context.core.skipped(flight, ports.moment))
        }
        writes.perform(context.core.ended(flight, outcome, ports.moment, random: ports.fraction))
    }

    /// Handles an outcome that arrives after the timeout.
    private func answerLate(_ token: UInt64, _ outcome: Outcome) throws(QueueError) {
        let now = ports.moment
        guard let flight = context.core.lateFlight(token) else {
            throw QueueError(.conflict, "attempt \(token) already has an outcome")
        }
        // The stored row must have the outcome of the attempt that followed.
        writes.commit()
        try writes.requireSaved()
        guard let row = try store.messages.row(at: flight.sequence, .whole),
            let progress = context.core.lateSuccess(token, outcome, row, now)
        else {
            throw QueueError(
                .conflict,
                "attempt \(token) timed out; only a success counts now, and only if the message was not edited or attempted again")
        }
        try transactions.counting(1) { () throws(QueueError) in
            try transactions.run(durable: context.options.durableOutcomes) { () throws(QueueError) in
                try store.messages.update(row, to: progress)
            }
        }
        writes.perform(context.core.lateSuccessSaved(token, row, progress, now))
    }
}
