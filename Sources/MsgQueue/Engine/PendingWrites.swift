/// What the core decided and the store has to take: written in the transaction under way, told after its commit, and kept while the store
/// takes nothing. Under the engine's lock.
final class PendingWrites {
    private let context: EngineContext
    private let store: Store
    private let events: EventDelivery
    private let health: StoreHealth
    private let maintenance: Maintenance
    private let drains: Drains
    private let transactions: Transactions
    /// Facts in the transaction under way.
    private var staged: [Fact] = []
    /// Facts that the store did not take: nothing new starts before they are written.
    private var unsaved: [Fact] = []
    private var isMakingRoom = false

    init(
        _ context: EngineContext, _ events: EventDelivery, _ health: StoreHealth, _ maintenance: Maintenance, _ drains: Drains,
        _ transactions: Transactions
    ) {
        (self.context, store, self.events, self.health) = (context, context.store, events, health)
        (self.maintenance, self.drains, self.transactions) = (maintenance, drains, transactions)
    }

    var hasUnsaved: Bool { !unsaved.isEmpty }
    var unsavedOutcomes: Int { unsaved.count(where: \.isOutcome) }

    // MARK: What is being sent

    /// Messages that are being sent, or were sent and are not written down yet.
    var sendingPlaces: Set<Int64> { sendingPlaces(in: nil) }

    /// Those of one conversation, or (nil) of all.
    private func sendingPlaces(in conversation: Name?) -> Set<Int64> {
        func belongs(_ name: Name?) -> Bool { conversation == nil || name == conversation }
        var places = Set(unsaved.lazy.filter { $0.isOutcome && belongs($0.conversation) }.map(\.sequence))
        for flight in context.core.scheduler.flights.values where !flight.isEnded && belongs(flight.conversation) {
            places.insert(flight.sequence)
        }
        return places
    }

    /// All messages, with those being sent told apart.
    var counts: Counts { store.totals.tellingApart(Int64(sendingPlaces.count)) }

    /// The counts of one conversation, with what is being sent told apart.
    func withSending(_ stored: Counts, _ conversation: Name) -> Counts {
        stored.tellingApart(Int64(sendingPlaces(in: conversation).count))
    }

    // MARK: Effects

    func perform(_ effects: [Effect]) {
        for effect in effects {
            switch effect {
            case .record(let fact): record(fact)
            case .notice(let notice): follow(notice)
            }
        }
    }

    /// Writes a change in the transaction under way.
    func write(_ change: Change) throws(QueueError) {
        switch change {
        case .requeue(let row, let progress): try store.update(row, to: progress)
        case .beginAttempt(let sequence, let number, let startedAt): try store.begin(attempt: number, of: sequence, at: startedAt)
        case .endAttempt(let row, let resolution): try store.end(row, resolution)
        case .recover(let sequence, let number, let startedAt): try recover((sequence, number, startedAt))
        case .hold(let due): store.setHold((due.at, due.delay, due.boot, due.uptime))
        case .expire(let sequence, let progress, let attempt):
            guard let current = try store.row(at: sequence, .none), current.progress.status == .queued else { return }
            try store.update(current, to: progress)
            try store.write(attempt, of: sequence)
        case .endUnreachable(let row, let resolution):
            guard let current = try store.row(at: row.sequence, .none), current.progress == row.progress else { return }
            try store.update(current, to: resolution.progress)
            if let attempt = resolution.attempt { try store.write(attempt, of: row.sequence) }
        case .markDamaged(let sequence): try store.markDamaged(sequence)
        }
    }

    private func follow(_ notice: Notice) {
        switch notice {
        case .event(let event): events.emit(event)
        case .countsChanged: events.countsChanged()
        case .failuresChanged(let conversation): refreshBlock(conversation)
        case .progress(let conversation):
            if context.core.scheduler.session?.serves(conversation) == true { events.emit(.drainProgress(drains.report())) }
        case .historyGrew: maintenance.historyGrew()
        case .expires(let time): maintenance.expires(at: time)
        case .damaged(let sequence, let error, let now): tellDamage(sequence, error, now)
        case .endedUnreachable(let row, let resolution, let now): perform(context.core.endedUnreachable(row, resolution, now))
        case .log(let level, let text): Log.write(level, "\(store.path): \(text)")
        }
    }

    private func tellDamage(_ sequence: Int64, _ error: QueueError, _ now: Moment) {
        attempt { () throws(QueueError) in
            guard let row = try store.row(at: sequence, .outline) else { return }
            events.emit(
                .status(
                    StatusChange(
                        id: row.id, conversation: row.conversation.text, from: .queued, to: .failed, attempt: 0,
                        failure: .damaged(error.detail, at: now.wall), at: now.wall)))
        }
    }

    // MARK: Facts

    /// Writes a fact in the transaction under way, or begins one; `commit` ends it.
    func record(_ fact: Fact) {
        do throws(QueueError) {
            try store.begin()
            for change in fact.changes { try write(change) }
            staged.append(fact)
        } catch {
            giveUp(error, and: fact)
        }
    }

    /// Commits what was recorded, and tells it. False when it has to wait.
    ///
    /// `begins`: the beginning of an attempt is in the transaction, too.
    @discardableResult
    func commit(begins: Bool = false) -> Bool {
        guard !context.isOrphan, store.isInTransaction else { return true }
        do throws(QueueError) {
            let outcomes = staged.count(where: \.isOutcome)
            try transactions.counting(outcomes) { () throws(QueueError) in
                try store.commit(
                    durable: context.options.durableOutcomes && outcomes > 0
                        || begins && (context.options.durableOutcomes || context.options.holdInterrupted))
            }
            health.committed()
        } catch {
            giveUp(error)
            return false
        }
        let facts = staged
        staged = []
        for fact in facts { for notice in fact.notices { follow(notice) } }
        return true
    }

    /// Rolls back; the facts are kept and written later.
    func giveUp(_ error: QueueError, and fact: Fact? = nil) {
        store.rollback()
        unsaved += staged
        if let fact { unsaved.append(fact) }
        staged = []
        if error.isIndex, !isMakingRoom, maintenance.mendIndexes(error) {
            isMakingRoom = true
            defer { isMakingRoom = false }
            saveUnsaved()
            if unsaved.isEmpty { return }
        }
        // With the room that is kept for it, at once.
        if error.isFull, !isMakingRoom {
            isMakingRoom = true
            defer { isMakingRoom = false }
            while store.freeSpace() {
                saveUnsaved()
                if unsaved.isEmpty { return }
            }
        }
        health.pause(error)
    }

    /// Facts that a store in trouble did not take are written as soon as it does.
    func saveUnsaved() {
        let facts = unsaved
        unsaved = []
        for fact in facts {
            // After the first that fails the others are kept unwritten, in their order.
            guard unsaved.isEmpty else {
                unsaved.append(fact)
                continue
            }
            record(fact)
        }
        commit()
    }

    /// For changes that rest on what is on disk: throws while the store does not take what was recorded.
    func requireSaved() throws(QueueError) {
        if hasUnsaved { saveUnsaved() }
        if hasUnsaved, let trouble = health.trouble { throw trouble }
    }

    // MARK: What the engine does by itself

    /// It has no caller to tell its errors.
    func attempt(_ body: () throws(QueueError) -> Void) {
        do throws(QueueError) { try body() } catch { giveUp(error) }
    }

    /// The row as it lies on disk; nil: it is gone. What is damaged is set aside, and `action` is not called.
    func withRow(
        _ sequence: Int64, _ conversation: Name, _ now: Moment, _ action: (Row?) -> [Effect]
    ) throws(QueueError) {
        let row: Row?
        do throws(QueueError) { row = try store.row(at: sequence, .none) } catch {
            guard error.code == .corrupt else { throw error }
            return perform(context.core.damaged(sequence, conversation, error, now))
        }
        perform(action(row))
    }

    // MARK: Blocks

    /// Where a failure for good holds its conversation: who does now.
    func refreshBlock(_ conversation: Name) {
        guard context.options.finalFailure == .block else { return }
        do throws(QueueError) {
            context.core.scheduler.block(conversation, at: try store.firstFailed(in: conversation), context.ports.moment)
        } catch {
            health.report(error)
        }
    }

    // MARK: After a crash

    /// Attempts that the last owner did not end: their outcome is unknown, their messages go back to their places.
    func recover() throws(QueueError) {
        let interrupted = try store.interrupted()
        guard !interrupted.isEmpty else { return }
        do throws(QueueError) {
            try transactions.run(durable: true) { () throws(QueueError) in
                for attempt in interrupted { try recover(attempt) }
            }
        } catch {
            // On a full disk the messages can be read; nothing is sent before this is written.
            guard error.isFull else { throw error }
            for attempt in interrupted {
                unsaved.append(
                    Fact(
                        sequence: attempt.sequence, conversation: try store.row(at: attempt.sequence, .outline)?.conversation,
                        isOutcome: true,
                        changes: [.recover(sequence: attempt.sequence, number: attempt.number, startedAt: attempt.startedAt)], notices: []))
            }
            health.pause(error)
        }
    }

    func recover(_ attempt: (sequence: Int64, number: UInt32, startedAt: Int64)) throws(QueueError) {
        let row: Row
        do throws(QueueError) {
            // The mark of an attempt carries no checksum: what was sent already was not being sent.
            guard let found = try store.row(at: attempt.sequence, .whole), StatusRule.allows(found.progress.status, .sending) else {
                return try store.removeInFlight(attempt.sequence)
            }
            row = found
        } catch {
            // One damaged message does not keep the others from being sent.
            guard error.code == .corrupt else { throw error }
            Log.error("\(store.path): \(error.detail)")
            try store.markDamaged(attempt.sequence)
            return try store.removeInFlight(attempt.sequence)
        }
        let resolution = OutcomeRule.recover(
            // The message carries a checksum, the mark of its attempt none.
            number: row.progress.attempts &+ 1, startedAt: max(attempt.startedAt, 0), of: row.progress,
            holdInterrupted: context.options.holdInterrupted,
            maxRetries: context.options.maxRetries)
        try store.end(row, resolution)
    }
}

extension Counts {
    /// With so many of the queued ones as being sent.
    fileprivate func tellingApart(_ sending: Int64) -> Counts {
        var counts = self
        counts.sending += sending
        counts.queued -= sending
        return counts
    }
}
