/// Begins attempts with the transport. Under the engine's lock.
final class AttemptRunner {
    /// The most body bytes of attempts that begin in one commit, because their calls wait in memory.
    private static let bytesPerCommit = 1 << 20
    /// The most attempts of a batch that begin in one commit, between which the lock is released: about three milliseconds.
    private static let attemptsPerPart = 256

    private let context: EngineContext
    private let store: Store
    private let ports: Ports
    private let health: StoreHealth
    private let writes: PendingWrites
    private let calls: CallQueue
    private var transport: Registration<Transport>?

    init(_ context: EngineContext, _ health: StoreHealth, _ calls: CallQueue, _ writes: PendingWrites) {
        (self.context, store, ports) = (context, context.store, context.ports)
        (self.health, self.calls, self.writes) = (health, calls, writes)
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

    /// Removes the transport when the queue is closed. Returns its release, if it is due now.
    func close() -> (@Sendable () -> Void)? {
        defer { transport = nil }
        return transport?.retire()
    }

    // MARK: Beginning

    /// Begins attempts, in one commit with the facts recorded before: up to `limit`, or one batch. `nextStep` performs steps up to one that
    /// starts an attempt or waits, `nextInBatch` up to one that starts another attempt of the batch, or waits because the search for it takes
    /// long. Returns false if none can begin now.
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
                    guard let isCommitted = try stageBatch((conversation, sequence, hand), transport, nextInBatch) else { continue }
                    return isCommitted || !writes.beginnings.isEmpty
                }
                guard let attempt = try prepare(try read(conversation, sequence), hand) else { continue }
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

    /// Writes the beginnings of the attempts of one batch. Those of a large one are committed in parts; returns whether they were, or nil if
    /// none of its messages can be sent.
    private func stageBatch(
        _ first: (conversation: Name, sequence: Int64, hand: Hand), _ transport: Registration<Transport>, _ nextInBatch: () -> Step?
    ) throws(QueueError) -> Bool? {
        let found = try read(first.conversation, first.sequence)
        let (isSuspect, attempt) = (try wasInterrupted(found?.row), try prepare(found, first.hand))
        guard context.core.openBatch(first.hand, wasInterrupted: isSuspect) else {
            guard let attempt else { return nil }
            _ = writes.stage(attempt, transport)
            return false
        }
        let batch = context.core.scheduler.gate.gathering?.batch ?? 0
        var hasParts = false
        defer { if hasParts { calls.complete(batch) } }
        if let attempt { writes.stageInBatch(attempt, transport) }
        var isFull = false
        while !isFull {
            let step = mayDivide && writes.beginnings.count >= Self.attemptsPerPart ? .wait(until: nil) : nextInBatch()
            guard case .start(let conversation, let sequence, let hand)? = step else {
                guard step != nil, mayDivide, !writes.beginnings.isEmpty else { break }
                hasParts = true
                guard writes.commitPart() else { return false }
                continue
            }
            let found = try read(conversation, sequence)
            if let row = found?.row, !context.core.fitsBatch(bytes: row.body.count) { break }
            isFull = try wasInterrupted(found?.row)
            if !isFull, let attempt = try prepare(found, hand) { writes.stageInBatch(attempt, transport) }
        }
        if hasParts {
            writes.commit()
            context.core.closeBatch(ports.mono())
            return true
        }
        guard !writes.beginnings.isEmpty else {
            // None of them can be sent any more, or the store rejected a read.
            context.core.dropBatch()
            return nil
        }
        return false
    }

    /// Whether the beginnings of a batch may be committed in parts. A person decides about interrupted attempts: there should be as few as
    /// possible whose call was not made.
    private var mayDivide: Bool { !context.options.holdInterrupted }

    /// Whether the message is alone in its next call: a previous process ended during its last attempt, perhaps because of it. This is read
    /// when the message is about to be sent, because reading it of every message would delay the opening of a large store.
    private func wasInterrupted(_ row: Row?) throws(QueueError) -> Bool {
        guard let row else { return false }
        do throws(QueueError) { return try store.attempts.wasInterrupted(row) } catch {
            // Damage of the attempts, which sending does not need, stops nothing.
            guard error.code == .corrupt else { throw error }
            Log.error("\(store.path): \(error.detail)")
            return true
        }
    }

    /// A message that was chosen, as it is stored.
    private struct Found {
        let conversation: Name
        let sequence: Int64
        /// nil: it was deleted.
        let row: Row?
        let pairs: [(key: String, value: String)]
    }

    /// Reads a message that was chosen; nil: it is damaged, and becomes `failed`.
    private func read(_ conversation: Name, _ sequence: Int64) throws(QueueError) -> Found? {
        do throws(QueueError) {
            let row = try store.messages.row(at: sequence, .whole)
            return Found(conversation: conversation, sequence: sequence, row: row, pairs: try row?.metadata() ?? [])
        } catch {
            guard error.code == .corrupt else { throw error }
            writes.perform(context.core.damaged(sequence, conversation, error, ports.moment))
            return nil
        }
    }

    /// Writes what must precede the attempt into the open transaction; nil: the message must not be sent any more.
    private func prepare(_ found: Found?, _ hand: Hand) throws(QueueError) -> CallQueue.Attempt? {
        guard let found else { return nil }
        let now = ports.moment
        switch context.core.admit(found.row, found.sequence, found.conversation, hand, now) {
        case .none(let effects):
            writes.perform(effects)
            return nil
        case .start(let start):
            context.observer?.begins(start)
            try store.begin()
            for change in start.changes { try writes.write(change) }
            let delivery = Delivery(
                id: start.row.id, conversation: found.conversation.text, body: found.row?.body ?? [], pairs: found.pairs,
                attempt: start.flight.number, token: start.flight.token, createdAt: start.row.createdAt,
                timeout: start.flight.deadline - now.mono)
            return CallQueue.Attempt(start: start, delivery: delivery)
        }
    }

    /// Revokes the calls that must not be made any more: the queue was paused, is offline, or must wait.
    func revokeForbiddenCalls() {
        guard calls.hasWaiting else { return }
        let now = ports.moment
        calls.revoke { !context.core.scheduler.gate.mayCall($0, now) }
    }

    /// Whether this thread may make calls of the transport: they return at once and run no code of the host.
    var callsReturnAtOnce: Bool { transport?.returnsAtOnce == true }
}
