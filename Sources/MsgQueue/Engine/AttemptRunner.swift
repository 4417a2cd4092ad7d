/// Begins attempts, calls the transport and ends attempts with their outcomes. Under the engine's lock.
final class AttemptRunner {
    /// The most body bytes of attempts that begin in one commit, because their calls wait in memory.
    private static let bytesPerCommit = 1 << 20

    /// How many outcomes are written before other calls have their turn, unless each commit is flushed.
    private static let outcomesPerTurn = 64

    private let context: EngineContext
    private let store: Store
    private let ports: Ports
    private let health: StoreHealth
    private let transactions: Transactions
    private let writes: PendingWrites
    private let calls: CallQueue
    private let host: HostCalls
    private var transport: Registration<Transport>?
    /// Releases of replaced transports whose last call has returned.
    private var dueReleases: [@Sendable () -> Void] = []
    /// Calls that have returned, of which not all outcomes are handled.
    private var unhandled: [CallQueue.Returned] = []
    /// Calls that have not been counted against the rate.
    private var begun: [(starts: [Core.Start], beginning: CallBeginning)] = []

    init(
        _ context: EngineContext, _ health: StoreHealth, _ calls: CallQueue, _ host: HostCalls, _ transactions: Transactions,
        _ writes: PendingWrites
    ) {
        (self.context, store, ports) = (context, context.store, context.ports)
        (self.health, self.calls, self.host) = (health, calls, host)
        (self.transactions, self.writes) = (transactions, writes)
    }

    /// Replaces the transport. Returns the release of the previous one, if it is due now.
    func setTransport(_ new: Registration<Transport>?) -> (@Sendable () -> Void)? {
        let release = transport?.retire()
        transport = new
        calls.revoke { _ in true }
        calls.forgetTimes()
        context.core.scheduler.transportChanged(present: new != nil, batches: new?.function.limits, ports.moment)
        return release
    }

    /// Handles the outcomes that have arrived, and revokes the calls that no thread has taken: the queue will be closed next.
    func prepareClose() {
        calls.close()
        var all = Int.max
        _ = handleReturned(atMost: .max, share: &all)
        writes.commit()
    }

    /// Removes the transport when the queue is closed. Returns the releases that are due.
    func close() -> [(@Sendable () -> Void)?] {
        defer { (transport, dueReleases) = (nil, []) }
        return dueReleases + [transport?.retire()]
    }

    /// How many outcomes are written in one commit. The lock is released between commits, so that callers need not wait long. If each of
    /// them is flushed, those of a batch are written together.
    var outcomesPerCommit: Int {
        guard context.options.durableOutcomes else { return Self.outcomesPerTurn }
        return max(Self.outcomesPerTurn, transport?.function.limits?.maxMessages ?? 0)
    }

    // MARK: Beginning

    /// Begins attempts, in one commit with the facts recorded before: up to `limit`, or one batch. `nextStep` performs steps up to one that
    /// starts an attempt or waits, `nextInBatch` up to one that starts another attempt of the batch. Returns false if none can begin now.
    func begin(limit: Int, after nextStep: () -> Step, inBatch nextInBatch: () -> Step?) -> Bool {
        context.lock.assertHeld()
        // A write that failed is tried again after room was made for it or an index was rebuilt, because no other thread would try.
        var triesLeft = 16
        while true {
            let staged = stage(limit: limit, after: nextStep, inBatch: nextInBatch)
            let isCommitted = writes.commit()
            guard let staged else { return false }
            if staged, isCommitted { return true }
            guard ports.mono() >= context.core.scheduler.gate.storageRetryAt else { return false }
            triesLeft -= 1
            guard triesLeft > 0 else {
                health.pause(QueueError(.storage, "failed to write the beginning of an attempt"))
                return false
            }
        }
    }

    /// Writes the beginnings of attempts into the open transaction. Returns false if the store rejected one, nil if no attempt can begin.
    private func stage(limit: Int, after nextStep: () -> Step, inBatch nextInBatch: () -> Step?) -> Bool? {
        var (count, bytes) = (0, 0)
        while count < limit, bytes < Self.bytesPerCommit {
            guard context.phase == .open, case .start(let conversation, let sequence, let hand) = nextStep(), let transport else {
                return count > 0 ? true : nil
            }
            do throws(QueueError) {
                if transport.function.limits != nil {
                    guard try stageBatch((conversation, sequence, hand), transport, nextInBatch) else { continue }
                    return writes.hasBeginnings
                }
                guard let attempt = try prepare(conversation, sequence, hand) else { continue }
                count += 1
                bytes += attempt.delivery.body.count
                guard writes.stage(attempt, transport) else { return true }
            } catch {
                writes.rollBack(error)
                return false
            }
        }
        return true
    }

    /// Writes the beginnings of the attempts of one batch. Returns false if none of its messages can be sent.
    private func stageBatch(
        _ first: (conversation: Name, sequence: Int64, hand: Hand), _ transport: Registration<Transport>, _ nextInBatch: () -> Step?
    ) throws(QueueError) -> Bool {
        var isSuspect = false
        let attempt = try prepare(first.conversation, first.sequence, first.hand) { row throws(QueueError) in
            isSuspect = try wasInterrupted(row)
            return true
        }
        guard context.core.openBatch(first.hand, wasInterrupted: isSuspect) else {
            guard let attempt else { return false }
            _ = writes.stage(attempt, transport)
            return true
        }
        if let attempt { writes.stageInBatch(attempt, transport) }
        var isFull = false
        while !isFull, case .start(let conversation, let sequence, let hand)? = nextInBatch() {
            let attempt = try prepare(conversation, sequence, hand) { row throws(QueueError) in
                let fits = context.core.fitsBatch(bytes: row.body.count)
                isFull = fits ? try wasInterrupted(row) : true
                return !isFull
            }
            if let attempt { writes.stageInBatch(attempt, transport) }
        }
        guard writes.hasBeginnings else {
            // None of them can be sent any more, or the store rejected a read.
            context.core.dropBatch()
            return false
        }
        return true
    }

    /// Whether the message is alone in its next call: a previous process ended during its last attempt, perhaps because of it. This is read
    /// when the message is about to be sent, because reading it of every message would delay the opening of a large store.
    private func wasInterrupted(_ row: Row) throws(QueueError) -> Bool {
        do throws(QueueError) { return try store.attempts.wasInterrupted(row) } catch {
            // Damage of the attempts, which sending does not need, stops nothing.
            guard error.code == .corrupt else { throw error }
            Log.error("\(store.path): \(error.detail)")
            return true
        }
    }

    /// Writes the beginning of an attempt into the open transaction; nil: the message must not be sent any more, or is not accepted.
    private func prepare(
        _ conversation: Name, _ sequence: Int64, _ hand: Hand, accepts: (Row) throws(QueueError) -> Bool = { _ in true }
    ) throws(QueueError) -> CallQueue.Attempt? {
        let now = ports.moment
        let found: Row?
        let pairs: [(key: String, value: String)]
        do throws(QueueError) {
            found = try store.messages.row(at: sequence, .whole)
            pairs = try found?.metadata() ?? []
        } catch {
            guard error.code == .corrupt else { throw error }
            writes.perform(context.core.damaged(sequence, conversation, error, now))
            return nil
        }
        if let found, try !accepts(found) { return nil }
        switch context.core.admit(found, sequence, conversation, hand, now) {
        case .none(let effects):
            writes.perform(effects)
            return nil
        case .start(let start):
            context.observer?.begins(start)
            try store.begin()
            for change in start.changes { try writes.write(change) }
            let delivery = Delivery(
                id: start.row.id, conversation: conversation.text, body: found?.body ?? [], pairs: pairs, attempt: start.flight.number,
                token: start.flight.token, createdAt: start.row.createdAt, timeout: start.flight.deadline - now.mono)
            return CallQueue.Attempt(start: start, delivery: delivery)
        }
    }

    // MARK: Calling

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
        if calls.hasWaiting || !dueReleases.isEmpty { writes.commit() } else { begin() }
        runReleases()
        host.endTransportCall()
    }

    /// Handles the outcomes that other threads have left, whose calls take long now.
    func handleLeftOutcomes() {
        guard calls.state.hasWork else { return }
        handleReturnedInTurns(0)
        writes.commit()
        runReleases()
    }

    /// Handles the outcomes that have arrived. Those of large batches are committed in parts, between which the lock is released. `share`: how
    /// many calls this thread has made; then it may leave the rest to others.
    private func handleReturnedInTurns(_ share: Int) {
        var share = share
        while handleReturned(atMost: outcomesPerCommit, share: &share) {
            writes.commit()
            context.lock.yield()
        }
        if share > 0 { calls.attended(share) }
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

    /// Revokes the calls that must not be made any more: the queue was paused, is offline, or must wait.
    func revokeForbiddenCalls() {
        guard calls.hasWaiting else { return }
        let now = ports.moment
        calls.revoke { !context.core.scheduler.gate.mayCall($0, now) }
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

    /// Whether this thread may make calls of the transport: they return at once and run no code of the host.
    var callsReturnAtOnce: Bool { transport?.returnsAtOnce == true }

    /// Ends attempts that the transport left pending, in one commit. `begin` begins the next attempts in the same commit; nil: others do.
    /// Returns the error of each; nil: its outcome counts.
    func complete(
        _ answers: ArraySlice<(token: UInt64, outcome: Outcome)>, thenBegin begin: (() -> Void)?
    ) -> [QueueError?] {
        context.lock.assertHeld()
        countBegun()
        defer { if let begin { begin() } else { writes.commit() } }
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
        if store.isInTransaction { writes.commit() }
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
