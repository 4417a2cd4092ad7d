/// Performing the scheduler's steps, and the attempts that come of them.
extension Engine {
    /// An attempt to be made: on disk, and with all that the transport needs.
    struct Work {
        let flight: Flight
        let delivery: Delivery
        let transport: Registration<TransportFunction>
        /// The message's status before.
        let from: MessageStatus
        /// The message as it is on disk now, without its body.
        let row: Row
    }

    /// Performs steps until one needs the transport, or until there is nothing to do for now. May leave a transaction open, for
    /// `commitFacts`.
    func advance() -> Step {
        while true {
            noticeSleep()
            let now = ports.moment
            if !unsaved.isEmpty, now.mono >= scheduler.storageUntil { saveUnsaved() }
            let step = scheduler.next(now, queued: store.totals.queued, inSession: queuedInSession)
            switch step {
            case .start, .wait: return step
            case .scan(let after, let limit):
                attempt { () throws(QueueError) in
                    let rows = try store.queued(after: after, limit: limit)
                    scheduler.scanned(rows, complete: rows.count < limit, now)
                }
            case .load(let conversation, let after, let limit):
                attempt { () throws(QueueError) in
                    let heads = try store.queued(in: conversation, after: after, limit: limit)
                    scheduler.loaded(conversation, heads, complete: heads.count < limit, now)
                }
            case .expire(let conversation, let sequence):
                attempt { () throws(QueueError) in try expire(conversation, sequence, now) }
            case .seek(let after, let limit):
                attempt { () throws(QueueError) in
                    let rows = try store.queued(after: after, limit: limit)
                    scheduler.sought(rows, complete: rows.count < limit, now)
                }
            case .endUnreachable(let conversation, let sequence, let hand):
                attempt { () throws(QueueError) in try endUnreachable(conversation, sequence, hand, now) }
            case .timeOut(let token): timeOut(token)
            case .finish(let stop): finishDrain(stop, now)
            case .raisePrompt: attempt { () throws(QueueError) in try raisePrompt(now) }
            case .withdrawPrompt:
                scheduler.promptWithdrawn()
                prompt = nil
                emit(.promptWithdrawn)
            }
        }
    }

    /// Messages that are queued in the conversation that is drained alone; nil: none is.
    private var queuedInSession: Int64? {
        guard let session = scheduler.session, session.conversation != nil else { return nil }
        return left(in: session).queued
    }

    private func noticeSleep() {
        let asleep = ports.asleep()
        // The clocks are not read at one instant.
        guard asleep - asleepBefore > 100 else { return }
        scheduler.slept(asleep - asleepBefore)
        asleepBefore = asleep
    }

    /// What the engine does by itself has no caller to tell its errors.
    private func attempt(_ body: () throws(QueueError) -> Void) {
        do throws(QueueError) { try body() } catch { giveUpFacts(error) }
    }

    // MARK: Starting

    /// Starts the next attempt, in one commit with what was recorded before. Under the lock.
    func startNext() -> Work? {
        while true {
            guard phase == .open, case .start(let conversation, let sequence, let hand) = advance(), let transport else {
                commitFacts()
                return nil
            }
            do throws(QueueError) {
                guard let work = try prepare(conversation, sequence, hand, transport) else { continue }
                guard commitFacts(begins: true) else { return nil }
                begun(work)
                return work
            } catch {
                giveUpFacts(error)
                return nil
            }
        }
    }

    /// Puts an attempt on disk; nil: the message is not there to be sent any more.
    private func prepare(
        _ conversation: Name, _ sequence: Int64, _ hand: Hand, _ transport: Registration<TransportFunction>
    ) throws(QueueError) -> Work? {
        let now = ports.moment
        let row: Row
        let pairs: [(key: String, value: String)]
        do throws(QueueError) {
            guard let found = try store.row(at: sequence, .whole), isStartable(found, hand) else {
                scheduler.removed(sequence, conversation, now)
                return nil
            }
            if found.head.hasExpired(now), hand != .retry {
                try expire(conversation, sequence, now)
                return nil
            }
            (row, pairs) = (found, try found.metadata())
        } catch {
            guard error.code == .corrupt else { throw error }
            setAside(damaged: sequence, conversation, error, now)
            return nil
        }
        let timeout = hand.isOutOfTurn ? options.manualTimeout : options.attemptTimeout
        let flight = Flight(
            token: nextToken, conversation: conversation, sequence: sequence, number: row.progress.attempts &+ 1, hand: hand,
            startedAt: now, deadline: now.mono + timeout)
        try store.begin()
        var kept = row
        kept.body = []
        if row.progress.status == .failed {
            kept.progress.status = .queued
            kept.progress.retriesUsed = 0
            kept.progress.isDamaged = false
            try store.update(row, to: kept.progress)
        }
        try store.begin(attempt: flight.number, of: sequence, at: now.wall)
        let delivery = Delivery(
            id: row.id, conversation: row.conversation.text, body: row.body, pairs: pairs, attempt: flight.number, token: flight.token,
            createdAt: row.createdAt, timeout: timeout)
        return Work(flight: flight, delivery: delivery, transport: transport, from: row.progress.status, row: kept)
    }

    private func isStartable(_ row: Row, _ hand: Hand) -> Bool {
        row.progress.status == .queued || (row.progress.status == .failed && hand == .retry)
    }

    /// The attempt is on disk.
    private func begun(_ work: Work) {
        nextToken += 1
        startWaitsSince = nil
        flying[work.flight.token] = work.row
        work.transport.enter()
        statisticsKeeper.started()
        refreshBlock(work.flight.conversation)
        scheduler.started(work.flight, work.flight.startedAt)
        emit(
            .status(
                StatusChange(
                    id: work.delivery.id, conversation: work.flight.conversation.text, from: work.from, to: .sending,
                    attempt: work.flight.number, failure: nil, at: work.flight.startedAt.wall)))
        countsChanged()
    }

    /// A message that is not what was written is never sent: it fails, with the reason.
    private func setAside(damaged sequence: Int64, _ conversation: Name, _ error: QueueError, _ now: Moment) {
        Log.error("\(store.path): \(error.detail)")
        scheduler.failed(sequence, conversation, now)
        scheduler.removed(sequence, conversation, now)
        scheduler.count(conversation) { $0.failed += 1 }
        record(
            Fact(
                sequence: sequence, isOutcome: false,
                write: { [store] () throws(QueueError) in try store.markDamaged(sequence) },
                tell: { [self] in
                    emit(.storage(error))
                    tellDamage(sequence, error, now)
                    countsChanged()
                }))
    }

    private func tellDamage(_ sequence: Int64, _ error: QueueError, _ now: Moment) {
        attempt { () throws(QueueError) in
            guard let row = try store.outline(at: sequence) else { return }
            emit(
                .status(
                    StatusChange(
                        id: row.id, conversation: row.conversation.text, from: .queued, to: .failed, attempt: 0,
                        failure: .damaged(error.detail, at: now.wall), at: now.wall)))
        }
    }

    // MARK: Ends of attempts

    /// What an outcome makes of its message: the scheduler knows at once, the store with the next commit, the host after that.
    func end(_ flight: Flight, _ outcome: Outcome, timedOut: Bool = false) {
        let now = ports.moment
        // As it was when the attempt began: nobody can have changed it since, and nothing need be read that might not be readable.
        guard let row = flying.removeValue(forKey: flight.token) else { return }
        if timedOut { late.add(flight, contentHash: row.contentHash) }
        let judgement = Classification.judge(
            outcome, now: now.wall, perhapsArrived: row.progress.perhapsArrived, conflictIsSent: options.conflictIsSent)
        let resolution = OutcomeRule.resolve(
            judgement, flight.trial(now), of: row.progress, policy: policy, discardExhausted: options.discardExhausted,
            discardRefused: options.discardRefused, pauseOnUnauthorized: options.pauseOnUnauthorized, now: now, boot: opening.boot,
            returnedAt: scheduler.returnedAt, random: ports.fraction)
        var back: Head?
        if resolution.fate == .queued {
            back = row.head
            back?.due = resolution.progress.due
            back?.waitsForNetwork = resolution.progress.waitsForNetwork
            if row.expiresAt != 0 { nextExpiry = min(nextExpiry, row.expiresAt) }
        }
        if resolution.fate == .failed { scheduler.failed(flight.sequence, row.conversation, now) }
        scheduler.ended(flight.token, back: back, offline: resolution.isOffline, timedOut: timedOut, now)
        // An answer to what was sent before the last resume says nothing about who we are now.
        if resolution.pausesQueue, flight.token >= resumedAt, scheduler.pause(nil, now) {
            emit(.paused(conversation: nil, isPaused: true, kind: .unauthorized))
        }
        let hold = hold(outcome, now)
        statisticsKeeper.ended(resolution, createdAt: row.createdAt, bytes: row.bodySize, now)
        scheduler.count(row.conversation) { report in
            switch resolution.fate {
            case .sent: report.sent += 1
            case .failed: report.failed += 1
            case .discarded: report.discarded += 1
            case .queued, .deleted: break
            }
        }
        record(
            Fact(
                sequence: flight.sequence, isOutcome: true,
                write: { [store] () throws(QueueError) in
                    try store.end(row, resolution)
                    if let hold { store.setHold((hold.at, hold.delay, hold.boot, hold.uptime)) }
                },
                tell: { [self] in tell(resolution, of: row, flight.number, now.wall) }))
    }

    /// A receiver asked the whole queue to wait, and longer than before.
    private func hold(_ outcome: Outcome, _ now: Moment) -> Due? {
        guard let delay = Classification.queueDelay(outcome, now: now.wall) else { return nil }
        let hold = Due(after: delay, now, boot: opening.boot)
        return scheduler.limit(until: hold.uptime, now) ? hold : nil
    }

    private func tell(_ resolution: Resolution, of row: Row, _ number: UInt32, _ at: Int64) {
        countsChanged()
        refreshBlock(row.conversation)
        if scheduler.session?.serves(row.conversation) == true { emit(.drainProgress(reportSoFar())) }
        if resolution.fate == .sent { pruneIfMany() }
        let failure = resolution.failure
        func change(_ to: MessageStatus) {
            emit(
                .status(
                    StatusChange(
                        id: row.id, conversation: row.conversation.text, from: .sending, to: to, attempt: number, failure: failure, at: at))
            )
        }
        switch resolution.fate {
        case .sent: change(.sent)
        case .queued: change(.queued)
        case .failed: change(.failed)
        case .deleted: emit(.deleted(id: row.id, conversation: row.conversation.text))
        case .discarded:
            guard let failure else { return }
            Log.warning("\(store.path): \(LogText.discarded(row.id, failure))")
            emit(.discarded(id: row.id, conversation: row.conversation.text, failure: failure))
        }
    }

    private func timeOut(_ token: UInt64) {
        guard let flight = scheduler.flights[token] else { return }
        let outcome = Outcome.retry(.timeout, text: "no answer within \(flight.deadline - flight.startedAt.mono) ms")
        end(flight, outcome, timedOut: true)
        guard scheduler.hung == Scheduler.hungCeiling else { return }
        Log.warning("\(store.path): \(Scheduler.hungCeiling) calls of the transport hang; the next that does holds up others")
    }

    // MARK: Expiry and the prompt

    func expire(_ conversation: Name, _ sequence: Int64, _ now: Moment) throws(QueueError) {
        let row: Row
        do throws(QueueError) {
            guard let found = try store.row(at: sequence, .none), found.progress.status == .queued else {
                scheduler.removed(sequence, conversation, now)
                return
            }
            row = found
        } catch {
            guard error.code == .corrupt else { throw error }
            return setAside(damaged: sequence, conversation, error, now)
        }
        let (progress, attempt) = OutcomeRule.expire(row.progress, expiresAt: row.expiresAt, now: now.wall)
        scheduler.failed(sequence, conversation, now)
        scheduler.removed(sequence, conversation, now)
        scheduler.count(conversation) { $0.failed += 1 }
        statisticsKeeper.expired()
        record(
            Fact(
                sequence: sequence, isOutcome: false,
                write: { [store] () throws(QueueError) in
                    // It may be written later than it happened.
                    guard let current = try store.row(at: sequence, .none), current.progress.status == .queued else { return }
                    try store.update(current, to: progress)
                    try store.write(attempt, of: sequence)
                },
                tell: { [self] in
                    emit(
                        .status(
                            StatusChange(
                                id: row.id, conversation: conversation.text, from: .queued, to: .failed, attempt: 0,
                                failure: Failure(attempt, attempts: progress.attempts), at: now.wall)))
                    countsChanged()
                    refreshBlock(conversation)
                }))
    }

    private func raisePrompt(_ now: Moment) throws(QueueError) {
        let totals = store.totals
        let bytes = totals.failed == 0 ? totals.unsentBytes : totals.unsentBytes - (try store.failedBytes())
        let asked = Prompt(
            messages: totals.queued, bytes: bytes, oldestAt: try store.oldestQueued(), conversations: try store.queuedConversations(),
            timeout: options.promptTimeout)
        scheduler.promptRaised(now)
        prompt = asked
        emit(.prompt(asked))
    }
}

/// Attempts that timed out lately.
struct LateAttempts {
    private static let ceiling = 1024
    private var flights: [UInt64: (flight: Flight, contentHash: Int64)] = [:]
    private var order: [UInt64] = []

    mutating func add(_ flight: Flight, contentHash: Int64) {
        flights[flight.token] = (flight, contentHash)
        order.append(flight.token)
        guard order.count > Self.ceiling else { return }
        flights[order.removeFirst()] = nil
    }

    subscript(token: UInt64) -> (flight: Flight, contentHash: Int64)? { flights[token] }

    mutating func remove(_ token: UInt64) {
        guard flights.removeValue(forKey: token) != nil else { return }
        order.removeAll { $0 == token }
    }
}
