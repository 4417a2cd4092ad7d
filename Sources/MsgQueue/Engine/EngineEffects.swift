/// Performing what the core wants done: the only place where its changes are written and its notices are followed.
extension Engine {
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
        case .event(let event): emit(event)
        case .countsChanged: countsChanged()
        case .failuresChanged(let conversation): refreshBlock(conversation)
        case .progress(let conversation):
            if core.scheduler.session?.serves(conversation) == true { emit(.drainProgress(reportSoFar())) }
        case .historyGrew: pruneIfMany()
        case .expires(let time): nextExpiry = min(nextExpiry, time)
        case .damaged(let sequence, let error, let now): tellDamage(sequence, error, now)
        case .endedUnreachable(let row, let resolution, let now): perform(core.endedUnreachable(row, resolution, now))
        case .log(let level, let text): Log.write(level, "\(store.path): \(text)")
        }
    }

    private func tellDamage(_ sequence: Int64, _ error: QueueError, _ now: Moment) {
        attempt { () throws(QueueError) in
            guard let row = try store.row(at: sequence, .outline) else { return }
            emit(
                .status(
                    StatusChange(
                        id: row.id, conversation: row.conversation.text, from: .queued, to: .failed, attempt: 0,
                        failure: .damaged(error.detail, at: now.wall), at: now.wall)))
        }
    }

    // MARK: Facts

    /// Writes a fact in the transaction under way, or begins one; `commitFacts` ends it.
    func record(_ fact: Fact) {
        do throws(QueueError) {
            try store.begin()
            for change in fact.changes { try write(change) }
            staged.append(fact)
        } catch {
            giveUpFacts(error, and: fact)
        }
    }

    /// Commits what was recorded, and tells it. False when it has to wait.
    ///
    /// `begins`: the beginning of an attempt is in the transaction, too.
    @discardableResult
    func commitFacts(begins: Bool = false) -> Bool {
        guard !isOrphan, store.isInTransaction else { return true }
        do throws(QueueError) {
            let outcomes = staged.count(where: \.isOutcome)
            try committing(outcomes) { () throws(QueueError) in
                try store.commit(
                    durable: options.durableOutcomes && outcomes > 0 || begins && (options.durableOutcomes || options.holdInterrupted))
            }
            storageIsWell()
        } catch {
            giveUpFacts(error)
            return false
        }
        let facts = staged
        staged = []
        for fact in facts { for notice in fact.notices { follow(notice) } }
        return true
    }

    /// Rolls back; the facts are kept and written later.
    func giveUpFacts(_ error: QueueError, and fact: Fact? = nil) {
        store.rollback()
        unsaved += staged
        if let fact { unsaved.append(fact) }
        staged = []
        if error.isIndex, !isMakingRoom, mendIndexes(error) {
            isMakingRoom = true
            defer { isMakingRoom = false }
            saveUnsaved()
            if unsaved.isEmpty { return }
        }
        // With the room that is kept for it, at once.
        if error.isFull, !isMakingRoom {
            isMakingRoom = true
            defer { isMakingRoom = false }
            while store.makeRoom() {
                saveUnsaved()
                if unsaved.isEmpty { return }
            }
        }
        storagePause(error)
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
        commitFacts()
    }
}
