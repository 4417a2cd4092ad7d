/// Performing the scheduler's steps, and the attempts that come of them.
extension Engine {
    /// An attempt to be made: on disk, and with all that the transport needs.
    struct Work {
        let start: Core.Start
        let delivery: Delivery
        let transport: Registration<TransportFunction>
    }

    /// Performs steps until one needs the transport, or until there is nothing to do for now. May leave a transaction open, for
    /// `commitFacts`.
    func advance() -> Step {
        while true {
            noticeSleep()
            let now = ports.moment
            if !unsaved.isEmpty, now.mono >= core.scheduler.storageUntil { saveUnsaved() }
            let step = core.scheduler.next(now, queued: store.totals.queued, inSession: queuedInSession)
            switch step {
            case .start, .wait: return step
            case .scan(let after, let limit):
                attempt { () throws(QueueError) in
                    let rows = try store.queued(after: after, limit: limit)
                    core.scheduler.scanned(rows, complete: rows.count < limit, now)
                }
            case .load(let conversation, let after, let limit):
                attempt { () throws(QueueError) in
                    let heads = try store.queued(in: conversation, after: after, limit: limit)
                    core.scheduler.loaded(conversation, heads, complete: heads.count < limit, now)
                }
            case .expire(let conversation, let sequence):
                attempt { () throws(QueueError) in
                    try withRow(sequence, conversation, now) { core.expired($0, sequence, conversation, now) }
                }
            case .seek(let after, let limit):
                attempt { () throws(QueueError) in
                    let rows = try store.queued(after: after, limit: limit)
                    core.scheduler.sought(rows, complete: rows.count < limit, now)
                }
            case .endUnreachable(let conversation, let sequence, let hand):
                attempt { () throws(QueueError) in
                    try withRow(sequence, conversation, now) { core.wishEnded($0, sequence, conversation, hand, now) }
                }
            case .timeOut(let token): perform(core.timedOut(token, now, random: ports.fraction))
            case .finish(let stop): finishDrain(stop, now)
            case .raisePrompt: attempt { () throws(QueueError) in try raisePrompt(now) }
            case .withdrawPrompt: perform(core.promptWithdrawn())
            }
        }
    }

    /// Messages that are queued in the conversation that is drained alone; nil: none is.
    private var queuedInSession: Int64? {
        guard let session = core.scheduler.session, session.conversation != nil else { return nil }
        return left(in: session).queued
    }

    private func noticeSleep() {
        let asleep = ports.asleep()
        // The clocks are not read at one instant.
        guard asleep - asleepBefore > 100 else { return }
        core.scheduler.slept(asleep - asleepBefore)
        asleepBefore = asleep
    }

    /// What the engine does by itself has no caller to tell its errors.
    func attempt(_ body: () throws(QueueError) -> Void) {
        do throws(QueueError) { try body() } catch { giveUpFacts(error) }
    }

    // MARK: Starting

    /// Starts the next attempt, in one commit with what was recorded before. Under the lock.
    func startNext() -> Work? {
        // Each failure that room was made for, or an index mended, is followed by another try, which nobody else would make.
        var triesLeft = 16
        while true {
            guard phase == .open, case .start(let conversation, let sequence, let hand) = advance(), let transport else {
                commitFacts()
                return nil
            }
            do throws(QueueError) {
                guard let work = try prepare(conversation, sequence, hand, transport) else { continue }
                if commitFacts(begins: true) {
                    begun(work)
                    return work
                }
            } catch {
                giveUpFacts(error)
            }
            guard ports.mono() >= core.scheduler.storageUntil else { return nil }
            triesLeft -= 1
            guard triesLeft > 0 else {
                storagePause(QueueError(.storage, "the beginning of an attempt could not be written"))
                return nil
            }
        }
    }

    /// Puts an attempt on disk; nil: the message is not there to be sent any more.
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
            perform(core.damaged(sequence, conversation, error, now))
            return nil
        }
        switch core.admit(found, sequence, conversation, hand, now) {
        case .none(let effects):
            perform(effects)
            return nil
        case .start(let start):
            try store.begin()
            for change in start.changes { try write(change) }
            let delivery = Delivery(
                id: start.row.id, conversation: conversation.text, body: found?.body ?? [], pairs: pairs, attempt: start.flight.number,
                token: start.flight.token, createdAt: start.row.createdAt, timeout: start.flight.deadline - now.mono)
            return Work(start: start, delivery: delivery, transport: transport)
        }
    }

    /// The attempt is on disk.
    private func begun(_ work: Work) {
        startWaitsSince = nil
        work.transport.enter()
        perform(core.began(work.start))
    }

    /// An answer to an attempt under way; `commitFacts` follows.
    func end(_ flight: Flight, _ outcome: Outcome) {
        perform(core.ended(flight, outcome, ports.moment, random: ports.fraction))
    }

    // MARK: Without an attempt

    /// The row as it lies on disk; nil: it is gone. What is damaged is set aside, and `action` is not called.
    func withRow(
        _ sequence: Int64, _ conversation: Name, _ now: Moment, _ action: (Row?) -> [Effect]
    ) throws(QueueError) {
        let row: Row?
        do throws(QueueError) { row = try store.row(at: sequence, .none) } catch {
            guard error.code == .corrupt else { throw error }
            return perform(core.damaged(sequence, conversation, error, now))
        }
        perform(action(row))
    }

    private func raisePrompt(_ now: Moment) throws(QueueError) {
        let totals = store.totals
        let bytes = totals.failed == 0 ? totals.unsentBytes : totals.unsentBytes - (try store.failedBytes())
        let asked = Prompt(
            messages: totals.queued, bytes: bytes, oldestAt: try store.oldestQueued(), conversations: try store.queuedConversations(),
            timeout: options.promptTimeout)
        perform(core.promptRaised(asked, now))
    }
}
