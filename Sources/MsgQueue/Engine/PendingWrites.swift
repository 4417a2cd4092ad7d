/// Writes the core's decisions: adds them to the open transaction, performs their notices after its commit, and keeps them while the store
/// rejects writes. Under the engine's lock.
final class PendingWrites {
    private let context: EngineContext
    private let store: Store
    private let events: EventDelivery
    private let health: StoreHealth
    private let maintenance: Maintenance
    private let drains: Drains
    private let transactions: Transactions
    private let calls: CallQueue
    /// Facts in the open transaction.
    private var staged: [Fact] = []
    /// Ends of attempts that wait to be written together, before anything else is read or written; nil: each is written at once.
    private var gathered: [(fact: Fact, end: (row: Row, resolution: Resolution))]?
    private(set) var beginnings = Beginnings()
    /// Facts that the store rejected. No attempt starts before they are written.
    private var unsaved: [Fact] = []
    private var isMakingRoom = false

    init(
        _ context: EngineContext, _ events: EventDelivery, _ health: StoreHealth, _ maintenance: Maintenance, _ drains: Drains,
        _ transactions: Transactions, _ calls: CallQueue
    ) {
        (self.context, store, self.events, self.health) = (context, context.store, events, health)
        (self.maintenance, self.drains, self.transactions, self.calls) = (maintenance, drains, transactions, calls)
    }

    var hasUnsaved: Bool { !unsaved.isEmpty }
    var unsavedOutcomes: Int { unsaved.count(where: \.isOutcome) }

    /// Whether this message has expired, but the store rejected its failure.
    func isExpiring(_ sequence: Int64) -> Bool { unsaved.contains { $0.sequence == sequence && $0.isExpiry } }

    // MARK: Messages in flight

    /// The sequences of messages in flight, and of those whose outcome is not written yet.
    var sendingSequences: Set<Int64> { sendingSequences(in: nil) }

    /// The sequences of messages that must not be replaced or dropped: those in flight, and those with a change that is not written yet.
    var heldSequences: Set<Int64> { sendingSequences.union(unsaved.map(\.sequence)) }

    /// The same for one conversation, or (nil) for all.
    private func sendingSequences(in conversation: Name?) -> Set<Int64> {
        func belongs(_ name: Name?) -> Bool { conversation == nil || name == conversation }
        var places = Set(unsaved.lazy.filter { $0.isOutcome && belongs($0.conversation) }.map(\.sequence))
        for flight in context.core.scheduler.flights.open where belongs(flight.conversation) {
            places.insert(flight.sequence)
        }
        return places
    }

    /// The counts of all messages; those in flight count as `sending`, not as `queued`.
    var counts: Counts { store.counts.totals.separating(sending: Int64(sendingSequences.count)) }

    /// Returns the counts of one conversation; messages in flight count as `sending`, not as `queued`.
    func withSending(_ stored: Counts, _ conversation: Name) -> Counts {
        stored.separating(sending: Int64(sendingSequences(in: conversation).count))
    }

    // MARK: Effects

    func perform(_ effects: [Effect]) {
        for effect in effects {
            switch effect {
            case .record(let fact):
                context.observer?.records(fact)
                record(fact)
            case .notice(let notice): handle(notice)
            }
        }
    }

    /// Whether a message is removed by the commit that ends its attempt as sent.
    private var removesSent: Bool { !isMakingRoom && maintenance.removesSent }

    /// Writes a change into the open transaction.
    func write(_ change: StoreChange) throws(QueueError) {
        switch change {
        case .requeue(let row, let progress): try store.messages.update(row, to: progress, .never)
        case .endAttempt(let row, let resolution):
            try store.outcomes.end(row, resolution, removedAt: removesSent ? context.ports.wall() : nil)
        case .revokeAttempt(let sequence): try store.outcomes.revoke(sequence)
        case .recover(let sequence, let number, let startedAt):
            guard let (id, resolution) = try store.outcomes.recover((sequence, number, startedAt), context.options) else { return }
            events.log(EventText.interrupted(id, resolution))
        case .hold(let due): store.state.hold = due
        case .expire(let sequence, let progress, let attempt):
            guard let current = try store.messages.row(at: sequence, .none), current.progress.status == .queued else { return }
            try store.messages.update(current, to: progress)
            try store.outcomes.write(attempt, of: sequence)
        case .endUnreachable(let row, let resolution):
            guard let current = try store.messages.row(at: row.sequence, .none), current.progress == row.progress else { return }
            try store.messages.update(current, to: resolution.progress, .always)
            if let attempt = resolution.attempt { try store.outcomes.write(attempt, of: row.sequence) }
        case .markDamaged(let sequence): try store.outcomes.markDamaged(sequence)
        }
    }

    private func handle(_ notice: Notice) {
        switch notice {
        case .event(let event): events.emit(event)
        case .countsChanged: events.countsChanged()
        case .failuresChanged(let conversation): refreshBlock(conversation)
        case .progress(let conversation):
            if context.core.scheduler.session?.serves(conversation) == true { events.emit(.drainProgress(drains.report())) }
        case .historyGrew: maintenance.historyGrew()
        case .expires(let time): maintenance.expires(at: time)
        case .damaged(let sequence, let error, let now): emitDamage(sequence, error, now)
        case .endedUnreachable(let row, let resolution, let now): perform(context.core.endedUnreachable(row, resolution, now))
        case .log(let level, let text): Log.write(level, "\(store.path): \(text())")
        }
    }

    private func emitDamage(_ sequence: Int64, _ error: QueueError, _ now: Moment) {
        attempt { () throws(QueueError) in
            guard let row = try store.messages.row(at: sequence, .outline) else { return }
            events.emit(row.changed(from: .queued, to: .failed, .damaged(error.detail, at: now.wall), at: now.wall))
        }
    }

    // MARK: Facts

    /// Writes a fact into the open transaction, or begins one; `commit` ends it.
    func record(_ fact: Fact) {
        if gathered != nil, !removesSent, fact.changes.count == 1, case .endAttempt(let row, let resolution)? = fact.changes.first,
            store.outcomes.canGather(row, resolution)
        {
            gathered?.append((fact, (row, resolution)))
            if gathered?.count == AttemptOutcomes.endsTogether { writeGathered() }
            return
        }
        writeGathered()
        do throws(QueueError) {
            try store.begin()
            for change in fact.changes { try write(change) }
            staged.append(fact)
        } catch {
            if removesSent, fact.isOutcome { rollBackRemoval(error, keeping: [fact]) } else { rollBack(error, keeping: [fact]) }
        }
    }

    /// From now on until `endGathering` the ends of attempts are written several at a time, if as many are expected. Meanwhile nothing reads
    /// the messages.
    func beginGathering(_ expected: Int) {
        endGathering()
        if expected >= AttemptOutcomes.endsTogether { gathered = [] }
    }

    func endGathering() {
        writeGathered()
        gathered = nil
    }

    private func writeGathered() {
        guard let ends = gathered, !ends.isEmpty else { return }
        gathered?.removeAll(keepingCapacity: true)
        do throws(QueueError) {
            try store.begin()
            try store.outcomes.endTogether(ends.map(\.end))
            staged += ends.map(\.fact)
        } catch {
            rollBack(error, keeping: ends.map(\.fact))
        }
    }

    /// Takes an attempt whose beginning is in the open transaction. Returns whether another one may begin in the same transaction.
    func stage(_ attempt: CallQueue.Attempt, _ transport: Registration<Transport>) -> Bool {
        let reservation = context.core.canWithdraw(attempt.start) ? context.core.reserve(attempt.start) : nil
        beginnings.add(attempt, transport, reservation)
        return reservation != nil
    }

    /// The same for an attempt of the batch that is being chosen, with which one call is made.
    func stageInBatch(_ attempt: CallQueue.Attempt, _ transport: Registration<Transport>) {
        beginnings.add(attempt, transport, context.core.reserveInBatch(attempt.start))
    }

    /// Commits the attempts of the batch that were chosen until now, and lets callers that wait run. Returns false if no others can be added:
    /// the store rejected these, or the call must not be made any more. `CallQueue.complete` follows, if a part was committed.
    func commitPart() -> Bool {
        guard commit(isPart: true), let batch = context.core.interruptBatch() else { return false }
        context.lock.yield()
        guard context.phase == .open, calls.isGathering(batch.batch) else { return false }
        context.core.continueBatch(batch)
        return true
    }

    /// Commits the recorded facts and the beginnings of attempts, performs the notices and queues the calls. Returns false if the store
    /// rejected them: the facts are kept, the beginnings are not. `isPart`: further attempts of the batch follow.
    @discardableResult
    func commit(isPart: Bool = false) -> Bool {
        context.lock.assertHeld()
        guard !context.isForkedChild else { return true }
        writeGathered()
        guard store.isInTransaction else { return true }
        var removal: Maintenance.Removal?
        let outcomes = staged.count(where: \.isOutcome)
        if !isMakingRoom, maintenance.hasExcess(self) {
            do throws(QueueError) { removal = try maintenance.removeExcess(outcomes: outcomes) } catch {
                rollBackRemoval(error)
                return false
            }
        }
        let batch = context.core.scheduler.gate.gathering
        let attempts = batch == nil && store.feed == nil ? [] : beginnings.attempts(ofBatch: batch != nil)
        do throws(QueueError) {
            try store.attempts.begin(beginnings.rows)
            if let feed = store.feed { for attempt in attempts { try feed.noteSending(attempt.start.row) } }
            try transactions.counting(outcomes) { () throws(QueueError) in
                try store.commit(
                    durable: context.options.durableOutcomes && (outcomes > 0 || !beginnings.isEmpty)
                        || context.options.holdInterrupted && !beginnings.isEmpty)
            }
            health.committed()
        } catch {
            rollBack(error)
            return false
        }
        let (facts, begun) = (staged, beginnings)
        (staged, beginnings) = ([], Beginnings())
        if batch != nil, !isPart { context.core.closeBatch(context.ports.mono()) }
        for fact in facts { for notice in fact.notices { handle(notice) } }
        if let batch, let transport = begun.all.first?.transport {
            beganBatch(batch, attempts, transport, isPart: isPart)
        } else {
            for beginning in begun.all { began(beginning) }
        }
        if let removal { maintenance.report(removal) }
        maintenance.pruneExcess(self, transactions)
        return true
    }

    /// Rolls back after the removal of sent messages may have failed. The outcomes are written without it, so that such a failure delays no
    /// message.
    private func rollBackRemoval(_ error: QueueError, keeping facts: [Fact] = []) {
        // The rebuild of an index, or room on a full disk, may be all that is needed.
        if error.isIndex || error.isFull { return rollBack(error, keeping: facts) }
        maintenance.removalFailed(error)
        withdraw(keeping: facts)
        saveUnsaved()
    }

    /// Puts the attempt in flight, after its beginning was committed.
    private func began(_ beginning: Beginnings.Beginning) {
        beginning.transport.enter()
        let isReserved = beginning.reservation != nil
        if !isReserved { context.core.reserve(beginning.attempt.start) }
        perform(context.core.began(beginning.attempt.start))
        add(CallQueue.Call(attempts: [beginning.attempt], transport: beginning.transport, isRevocable: isReserved))
    }

    /// Queues the call of a batch, or adds to it, after the beginning of its attempts, or of a part of them, was committed.
    private func beganBatch(_ batch: Gathering, _ attempts: [CallQueue.Attempt], _ transport: Registration<Transport>, isPart: Bool) {
        for attempt in attempts { perform(context.core.began(attempt.start)) }
        if batch.hasParts, calls.extend(batch.batch, by: attempts) { return }
        transport.enter()
        add(CallQueue.Call(attempts: attempts, transport: transport, gathering: isPart ? batch.batch : nil, isRevocable: true))
    }

    private func add(_ call: CallQueue.Call) {
        var call = call
        if context.core.scheduler.flights.pace != nil { call.beginning = CallBeginning() }
        calls.add(call)
    }

    /// Rolls back. The facts of the transaction are kept; the beginnings of attempts are withdrawn.
    private func withdraw(keeping facts: [Fact]) {
        store.rollback()
        beginnings.withdraw(from: &context.core, context.ports.moment)
        unsaved += staged + facts
        staged = []
    }

    /// Rolls back. The facts of the transaction are kept and written later; the beginnings of attempts are withdrawn.
    func rollBack(_ error: QueueError, keeping facts: [Fact] = []) {
        withdraw(keeping: facts)
        // Attempts to make room follow one another at once. Only the first failure begins a pause, after the last of them.
        guard !isMakingRoom else {
            if !error.isFull { health.report(error) }
            return
        }
        if error.isIndex, maintenance.rebuildIndexes(error), savesAll() { return }
        // On a full disk outcomes are written at once, into the reserved room.
        if error.isFull {
            while store.log.freeSpace() { if savesAll() { return } }
            // Without the changes there may be room for the outcomes.
            if let feed = store.feed, !feed.isGivingWay {
                feed.giveWay()
                if savesAll() { return }
            }
        }
        health.pause(error)
    }

    /// Takes a fact that the store rejected.
    func keep(_ fact: Fact) { unsaved.append(fact) }

    /// Writes the facts that the store rejected before, after room was made. Returns false if it rejects one again.
    private func savesAll() -> Bool {
        isMakingRoom = true
        defer { isMakingRoom = false }
        saveUnsaved()
        return unsaved.isEmpty
    }

    /// Writes the facts that the store rejected before.
    func saveUnsaved() {
        let facts = unsaved
        unsaved = []
        for fact in facts {
            // After a failure the remaining facts are kept in their order.
            if unsaved.isEmpty { record(fact) } else { unsaved.append(fact) }
        }
        commit()
    }

    /// Throws while rejected facts are not written; for changes that depend on the stored state.
    func requireSaved() throws(QueueError) {
        if hasUnsaved { saveUnsaved() }
        if hasUnsaved, let trouble = health.trouble { throw trouble }
    }

    /// Whether a call is deleting this message. One that is being sent stays until its attempt ends.
    func isBeingRemoved(_ row: Row) -> Bool {
        let isUnsent = row.progress.status.isUnsent && !sendingSequences.contains(row.sequence)
        return context.core.scheduler.gate.pauses.isBeingRemoved(row.sequence, row.conversation, isUnsent: isUnsent)
    }

    /// Runs work of the engine that has no caller to report an error to.
    func attempt(_ body: () throws(QueueError) -> Void) { do throws(QueueError) { try body() } catch { rollBack(error) } }

    /// Calls `action` with the stored row (nil: it was deleted). A damaged message is marked as failed instead.
    func withRow(_ sequence: Int64, _ conversation: Name, _ now: Moment, _ action: (Row?) -> [Effect]) throws(QueueError) {
        let row: Row?
        do throws(QueueError) { row = try store.messages.row(at: sequence, .none) } catch {
            guard error.code == .corrupt else { throw error }
            return perform(context.core.damaged(sequence, conversation, error, now))
        }
        perform(action(row))
    }

    /// Updates the message that blocks the conversation, with the option `final_failure = block`.
    func refreshBlock(_ conversation: Name) {
        guard context.options.finalFailure == .block else { return }
        do throws(QueueError) {
            context.core.scheduler.block(conversation, at: try store.queue.firstFailed(in: conversation), context.ports.moment)
        } catch {
            health.report(error)
        }
    }
}
