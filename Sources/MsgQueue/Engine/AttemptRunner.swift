/// Begins attempts, calls the transport and ends attempts with their outcomes. Under the engine's lock.
final class AttemptRunner {
    /// An attempt whose beginning is committed, with everything that the call of the transport needs.
    struct Work {
        let start: Core.Start
        let delivery: Delivery
        let transport: Registration<TransportFunction>
    }

    private let context: EngineContext
    private let store: Store
    private let ports: Ports
    private let health: StoreHealth
    private let transactions: Transactions
    private let writes: PendingWrites
    private let workers: WorkerPool
    private let host: HostCalls
    private var transport: Registration<TransportFunction>?

    init(
        _ context: EngineContext, _ health: StoreHealth, _ workers: WorkerPool, _ host: HostCalls, _ transactions: Transactions,
        _ writes: PendingWrites
    ) {
        (self.context, store, ports) = (context, context.store, context.ports)
        (self.health, self.workers, self.host) = (health, workers, host)
        (self.transactions, self.writes) = (transactions, writes)
    }

    /// Whether a call of the transport keeps its thread until the outcome is known.
    var transportBlocks: Bool { transport?.blocks ?? false }

    /// Replaces the transport. Returns the release of the previous one, if it is due now.
    func setTransport(_ new: Registration<TransportFunction>?) -> (@Sendable () -> Void)? {
        let release = transport?.retire()
        transport = new
        context.core.scheduler.transportChanged(present: new != nil, ports.moment)
        return release
    }

    /// Removes the transport when the queue is closed. Returns its release.
    func close() -> (@Sendable () -> Void)? {
        defer { transport = nil }
        return transport?.retire()
    }

    /// Begins the next attempt in one commit with the facts recorded before. `nextStep` performs steps up to one that starts an attempt or
    /// waits. Returns nil if no attempt can begin now.
    func startNext(after nextStep: () -> Step) -> Work? {
        // A write that failed is tried again after room was made for it or an index was rebuilt, because no other thread would try.
        var triesLeft = 16
        while true {
            guard context.phase == .open, case .start(let conversation, let sequence, let hand) = nextStep(), let transport else {
                writes.commit()
                return nil
            }
            do throws(QueueError) {
                guard let work = try prepare(conversation, sequence, hand, transport) else { continue }
                if writes.commit(begins: true) {
                    attemptBegan(work)
                    return work
                }
            } catch {
                writes.rollBack(error)
            }
            guard ports.mono() >= context.core.scheduler.storageRetryAt else { return nil }
            triesLeft -= 1
            guard triesLeft > 0 else {
                health.pause(QueueError(.storage, "failed to write the beginning of an attempt"))
                return nil
            }
        }
    }

    /// Writes the beginning of an attempt into the open transaction; nil: the message must not be sent any more.
    private func prepare(
        _ conversation: Name, _ sequence: Int64, _ hand: Hand, _ transport: Registration<TransportFunction>
    ) throws(QueueError) -> Work? {
        let now = ports.moment
        let found: Row?
        let pairs: [(key: String, value: String)]
        do throws(QueueError) {
            found = try store.row(at: sequence, .whole)
            pairs = try found?.metadata() ?? []
        } catch {
            guard error.code == .corrupt else { throw error }
            writes.perform(context.core.damaged(sequence, conversation, error, now))
            return nil
        }
        switch context.core.admit(found, sequence, conversation, hand, now) {
        case .none(let effects):
            writes.perform(effects)
            return nil
        case .start(let start):
            try store.begin()
            for change in start.changes { try writes.write(change) }
            let delivery = Delivery(
                id: start.row.id, conversation: conversation.text, body: found?.body ?? [], pairs: pairs, attempt: start.flight.number,
                token: start.flight.token, createdAt: start.row.createdAt, timeout: start.flight.deadline - now.mono)
            return Work(start: start, delivery: delivery, transport: transport)
        }
    }

    /// Puts the attempt in flight, after its beginning was committed.
    private func attemptBegan(_ work: Work) {
        workers.clearStartWait()
        work.transport.enter()
        // The rate counts from the call of the transport, which follows at once.
        let calledAt = context.core.scheduler.pace == nil ? nil : ports.mono()
        writes.perform(context.core.began(work.start, calledAt: calledAt))
    }

    /// Calls the transport, with the lock released, and ends the attempt. `startNext` may begin the next attempt in the same commit.
    func call(_ work: Work, thenStart startNext: () -> Work? = { nil }) -> Work? {
        host.beginTransportCall()
        let outcome = host.call { work.transport.function(work.delivery) }
        work.transport.blocks = outcome.verdict != .pending
        returned(work.start.flight, outcome)
        let release = work.transport.leave()
        let next = startNext()
        if next == nil { writes.commit() }
        if let release { host.call(release) }
        host.endTransportCall()
        return next
    }

    /// Handles the return of the transport's call.
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

    /// Ends attempts that the transport left pending, in one commit. Returns the error of each; nil: its outcome counts.
    func complete(_ answers: ArraySlice<(token: UInt64, outcome: Outcome)>) -> [QueueError?] {
        defer { writes.commit() }
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
        writes.perform(context.core.ended(flight, outcome, ports.moment, random: ports.fraction))
    }

    /// Handles an outcome that arrives after the timeout.
    private func answerLate(_ token: UInt64, _ outcome: Outcome) throws(QueueError) {
        let now = ports.moment
        guard let flight = context.core.lateFlight(token) else {
            throw QueueError(.conflict, "attempt \(token) already has an outcome")
        }
        guard let row = try store.row(at: flight.sequence, .whole), let progress = context.core.lateSuccess(token, outcome, row, now) else {
            throw QueueError(
                .conflict,
                "attempt \(token) timed out; only a success counts now, and only if the message was not edited or attempted again")
        }
        if store.isInTransaction { writes.commit() }
        try transactions.counting(1) { () throws(QueueError) in
            try transactions.run(durable: context.options.durableOutcomes) { () throws(QueueError) in try store.update(row, to: progress) }
        }
        writes.perform(context.core.lateSuccessSaved(token, row, now))
    }
}
