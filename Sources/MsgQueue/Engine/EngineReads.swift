import Glibc

/// What callers see.
extension Engine {
    package func message(id: String) throws(QueueError) -> Message {
        try DraftRule.check(id: id)
        return try locked { () throws(QueueError) in
            guard let row = try store.find(id, .whole) else {
                throw QueueError(.notFound, "there is no message \(id)")
            }
            return try message(row)
        }
    }

    package func list(_ filter: Filter) throws(QueueError) -> [Message] {
        if let conversation = filter.conversation { try DraftRule.check(conversation: conversation) }
        guard (1...1000).contains(filter.limit) else { throw QueueError(.invalid, "a page has 1 to 1000 messages, not \(filter.limit)") }
        guard filter.after >= 0 else { throw QueueError(.invalid, "a sequence is not negative") }
        guard !filter.statuses.isEmpty, StatusSet.all.isSuperset(of: filter.statuses) else {
            throw QueueError(.invalid, "there are no such statuses")
        }
        return try locked { () throws(QueueError) in
            let rows = try store.page(filter, sending: sendingPlaces) { error in
                Log.error("\(store.path): \(error.detail)")
                emit(.storage(error))
            }
            var page: [Message] = []
            for row in rows { page.append(try message(row, withBody: !filter.withoutBodies)) }
            return page
        }
    }

    /// A row with what only the engine knows: whether it is being sent right now.
    func message(_ row: Row, withBody: Bool = true) throws(QueueError) -> Message {
        let flight = core.scheduler.flight(of: row.sequence, in: row.conversation)
        let isSending = flight != nil || sendingPlaces.contains(row.sequence)
        let progress = row.progress
        var failure: Failure?
        if let damage = row.damage {
            failure = .damaged(damage, at: row.createdAt)
        } else if progress.isDamaged {
            failure = .damaged("what was written of its attempts is damaged", at: row.createdAt)
        } else if !isSending, progress.sentAt == 0, let attempt = try store.lastAttempt(of: row.sequence) {
            failure = Failure(attempt, attempts: progress.attempts)
        }
        return Message(
            id: row.id, conversation: row.conversation.text, sender: row.sender, body: withBody ? row.body : nil,
            bodySize: row.damage != nil ? 0 : row.hasWholeBody ? row.body.count : Int(clamping: row.bodySize),
            preview: Preview.make(row.body), pairs: row.damage == nil ? try row.metadata() : [],
            status: isSending ? .sending : (row.damage == nil ? progress.status : .failed),
            sequence: row.sequence, createdAt: row.createdAt, editedAt: row.editedAt, notBefore: row.notBefore,
            expiresAt: row.expiresAt, nextAttemptAt: progress.dueAt, lastAttemptAt: flight?.startedAt.wall ?? progress.lastAttemptAt,
            sentAt: progress.sentAt, deliveredAt: row.isReceived ? row.createdAt : progress.deliveredAt, readAt: progress.readAt,
            attempts: flight?.number ?? progress.attempts, retriesUsed: UInt32(clamping: progress.retriesUsed),
            unmeteredOnly: row.unmeteredOnly, failure: failure)
    }

    /// The ledger of one message, oldest first.
    package func attempts(_ id: String) throws(QueueError) -> [Attempt] {
        try DraftRule.check(id: id)
        return try locked { () throws(QueueError) in
            guard let row = try store.find(id, .none) else {
                throw QueueError(.notFound, "there is no message \(id)")
            }
            var lines = try store.ledger(of: row)
            if let flight = core.scheduler.flight(of: row.sequence, in: row.conversation) {
                lines.append(
                    Attempt(
                        number: flight.number, startedAt: flight.startedAt.wall, duration: nil, result: .underWay, kind: .none, code: 0,
                        text: "", arrival: .perhaps))
            }
            return lines
        }
    }

    package func counts(_ conversation: String?) throws(QueueError) -> Counts {
        if let conversation { try DraftRule.check(conversation: conversation) }
        return try locked { () throws(QueueError) in
            guard let name = conversation.map({ Name($0) }) else { return counts }
            return withSending(try store.counts(of: name), name)
        }
    }

    /// The counts of one conversation, with what is being sent told apart.
    func withSending(_ stored: Counts, _ conversation: Name) -> Counts {
        let sending = Int64(core.scheduler.flights.values.count { !$0.isEnded && $0.conversation == conversation })
        var counts = stored
        counts.sending += sending
        counts.queued -= sending
        return counts
    }

    /// Makes a copy a little at a time, so that nobody else waits for more than a step of it.
    package func backup(to path: String) throws(QueueError) {
        let copy = try locked { () throws(QueueError) in
            let copy = try store.copy(to: path)
            copies.append(copy)
            return copy
        }
        do throws(QueueError) {
            while try locked({ () throws(QueueError) in try takeStep(of: copy) }) {
                // Whoever waits for the lock comes first.
                usleep(100)
            }
            try copy.finish()
        } catch {
            lock.withLock {
                copies.removeAll { $0 === copy }
                copy.abandon()
            }
            throw error
        }
    }

    private func takeStep(of copy: StoreCopy) throws(QueueError) -> Bool {
        if try copy.step() { return true }
        // Complete: it needs the store no more.
        copies.removeAll { $0 === copy }
        return false
    }
}
