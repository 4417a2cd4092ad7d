/// Performs the core's steps, one after the other, and wakes those that have to go on. Under the engine's lock.
final class Driver: @unchecked Sendable {
    /// An attempt to be made: on disk, and with all that the transport needs.
    struct Work {
        let start: Core.Start
        let delivery: Delivery
        let transport: Registration<TransportFunction>
    }

    private let context: EngineContext
    private let store: Store
    private let ports: Ports
    private let events: EventDelivery
    private let health: StoreHealth
    private let maintenance: Maintenance
    private let drains: Drains
    private let transactions: Transactions
    private let writes: PendingWrites
    private let network: NetworkWatch
    private let poll: PollHost?
    private let workers: WorkerPool
    private let host: HostCalls
    private let timer: EngineTimer
    private var transport: Registration<TransportFunction>?
    /// How long the machine had slept when that was looked at last.
    private var asleepBefore: Int64

    init(_ parts: EngineParts) {
        context = parts.context
        store = parts.context.store
        ports = parts.context.ports
        (events, health, maintenance, drains) = (parts.events, parts.health, parts.maintenance, parts.drains)
        (transactions, writes, network) = (parts.transactions, parts.writes, parts.network)
        (poll, workers, host, timer) = (parts.poll, parts.workers, parts.host, parts.timer)
        asleepBefore = parts.context.ports.asleep()
    }

    // MARK: Going on

    /// Performs the core's steps as far as they need no transport, and wakes who performs the others. The last thing that is done under
    /// the lock after anything that may have changed what is due.
    func settle() {
        guard context.phase != .closed else { return }
        let step = advance()
        writes.commit()
        drains.endWaits(ports.mono())
        switch step {
        case .start:
            context.hasStart = true
            // It waits for whoever calls transports; the clock goes on for everything else.
            let deadline = context.core.scheduler.deadline(ports.moment) ?? Int64.max
            arm(poll == nil ? min(deadline, workers.findThread(self, blocks: transport?.blocks ?? false)) : deadline)
        case .wait(let deadline):
            context.hasStart = false
            workers.noStartWaits()
            arm(deadline ?? Int64.max)
        default: break
        }
        wake()
        if context.phase == .closing { context.quietCondition.broadcast() }
    }

    /// Wakes who tells events, or runs callbacks.
    func wake() {
        if let poll { poll.wake() } else if events.hasWork { events.wake() }
    }

    private func arm(_ deadline: Int64) {
        timer.arm(
            min(
                min(deadline, maintenance.deadline(writes), network.deadline), min(drains.deadline, transactions.flushDeadline()),
                poll?.quietDeadline ?? Int64.max))
    }

    /// What the timer thread does when it wakes up.
    func runTimer() {
        timer.run(network) {
            transactions.flushWhatIsDue()
            maintenance.run(writes, transactions)
            maintenance.compareIndexes(writes)
            settle()
        }
    }

    /// The thread that tells the events of a queue that is not polled.
    func runEvents() { events.run { deliverOne() } }

    /// Performs steps until one needs the transport, or until there is nothing to do for now. May leave a transaction open, for
    /// `PendingWrites.commit`.
    private func advance() -> Step {
        while true {
            noticeSleep()
            let now = ports.moment
            if writes.hasUnsaved, now.mono >= context.core.scheduler.storageRetryAt { writes.saveUnsaved() }
            let step = context.core.scheduler.next(now, queued: store.totals.queued, inSession: queuedInSession)
            switch step {
            case .start, .wait: return step
            case .scan(let after, let limit):
                writes.attempt { () throws(QueueError) in
                    let rows = try store.queued(after: after, limit: limit)
                    context.core.scheduler.scanned(rows, complete: rows.count < limit, now)
                }
            case .load(let conversation, let after, let limit):
                writes.attempt { () throws(QueueError) in
                    let heads = try store.queued(in: conversation, after: after, limit: limit)
                    context.core.scheduler.loaded(conversation, heads, complete: heads.count < limit, now)
                }
            case .expire(let conversation, let sequence):
                writes.attempt { () throws(QueueError) in
                    try writes.withRow(sequence, conversation, now) { context.core.expired($0, sequence, conversation, now) }
                }
            case .seek(let after, let limit):
                writes.attempt { () throws(QueueError) in
                    let rows = try store.queued(after: after, limit: limit)
                    context.core.scheduler.sought(rows, complete: rows.count < limit, now)
                }
            case .endUnreachable(let conversation, let sequence, let hand):
                writes.attempt { () throws(QueueError) in
                    try writes.withRow(sequence, conversation, now) { context.core.requestAborted($0, sequence, conversation, hand, now) }
                }
            case .timeOut(let token): writes.perform(context.core.timedOut(token, now, random: ports.fraction))
            case .finish(let stop):
                writes.commit()
                if drains.finish(stop, now) { drainStarted() }
            case .raisePrompt: writes.attempt { () throws(QueueError) in try raisePrompt(now) }
            case .withdrawPrompt: writes.perform(context.core.promptWithdrawn())
            }
        }
    }

    /// Messages that are queued in the conversation that is drained alone; nil: none is.
    private var queuedInSession: Int64? {
        guard let session = context.core.scheduler.session, session.conversation != nil else { return nil }
        return drains.left(of: session.conversation).queued
    }

    private func noticeSleep() {
        let asleep = ports.asleep()
        // The clocks are not read at one instant.
        guard asleep - asleepBefore > 100 else { return }
        context.core.scheduler.machineSlept(asleep - asleepBefore)
        asleepBefore = asleep
    }

    private func raisePrompt(_ now: Moment) throws(QueueError) {
        let totals = store.totals
        let bytes = totals.failed == 0 ? totals.unsentBytes : totals.unsentBytes - (try store.failedBytes())
        let asked = Prompt(
            messages: totals.queued, bytes: bytes, oldestAt: try store.oldestQueued(), conversations: try store.queuedConversations(),
            timeout: context.options.promptTimeout)
        writes.perform(context.core.promptRaised(asked, now))
    }

    /// A drain has begun.
    func drainStarted() {
        guard let session = context.core.scheduler.session else { return }
        let left = drains.left(of: session.conversation)
        events.emit(.drainStarted(session.conversation.map { writes.withSending(left, $0) } ?? writes.counts))
    }

    // MARK: Attempts

    /// Gives the release of the transport before, when it is due now.
    func setTransport(_ new: Registration<TransportFunction>?) -> (@Sendable () -> Void)? {
        let release = transport?.retire()
        transport = new
        context.core.scheduler.transportChanged(present: new != nil, ports.moment)
        return release
    }

    /// The end of the queue: the transport's release.
    func close() -> (@Sendable () -> Void)? {
        defer { transport = nil }
        return transport?.retire()
    }

    /// Starts the next attempt, in one commit with what was recorded before.
    func startNext() -> Work? {
        // Each failure that room was made for, or an index mended, is followed by another try, which nobody else would make.
        var triesLeft = 16
        while true {
            guard context.phase == .open, case .start(let conversation, let sequence, let hand) = advance(), let transport else {
                writes.commit()
                return nil
            }
            do throws(QueueError) {
                guard let work = try prepare(conversation, sequence, hand, transport) else { continue }
                if writes.commit(begins: true) {
                    begun(work)
                    return work
                }
            } catch {
                writes.giveUp(error)
            }
            guard ports.mono() >= context.core.scheduler.storageRetryAt else { return nil }
            triesLeft -= 1
            guard triesLeft > 0 else {
                health.pause(QueueError(.storage, "the beginning of an attempt could not be written"))
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

    /// The attempt is on disk.
    private func begun(_ work: Work) {
        workers.noStartWaits()
        work.transport.enter()
        writes.perform(context.core.began(work.start))
    }

    /// Makes one attempt, with the lock given up meanwhile, and starts the next one in the same commit as its end.
    func call(_ work: Work, thenNext: Bool = true) -> Work? {
        host.beginTransportCall()
        let outcome = host.call { work.transport.function(work.delivery) }
        work.transport.blocks = outcome.verdict != .pending
        returned(work.start.flight, outcome)
        let release = work.transport.leave()
        let next = thenNext ? startNext() : nil
        if next == nil { writes.commit() }
        if let release { host.call(release) }
        host.endTransportCall()
        return next
    }

    /// The transport's call came back.
    private func returned(_ flight: Flight, _ outcome: Outcome) {
        guard context.phase != .closed else { return }
        let isAnswered = context.core.openFlight(flight.token) == nil
        context.core.scheduler.callReturned(flight.token, ports.moment)
        guard outcome.verdict != .pending else { return }
        if !isAnswered {
            end(flight, outcome)
        } else if context.core.lateFlight(flight.token) != nil {
            // It hung beyond its time; a success still counts, when nothing came after it.
            do throws(QueueError) { try answerLate(flight.token, outcome) } catch {
                Log.warning("\(store.path): ignored a late outcome for message \(flight.sequence): \(error.detail)")
            }
        }
    }

    /// The answer to an attempt that the transport left pending.
    func complete(_ token: UInt64, _ outcome: Outcome) throws(QueueError) {
        guard context.core.hasIssued(token) else { throw QueueError(.notFound, "there is no attempt \(token)") }
        if let flight = context.core.openFlight(token) {
            end(flight, outcome)
            writes.commit()
        } else {
            try answerLate(token, outcome)
        }
    }

    /// An answer to an attempt under way; a commit follows.
    private func end(_ flight: Flight, _ outcome: Outcome) {
        writes.perform(context.core.ended(flight, outcome, ports.moment, random: ports.fraction))
    }

    /// An answer after the time-out.
    private func answerLate(_ token: UInt64, _ outcome: Outcome) throws(QueueError) {
        let now = ports.moment
        guard let flight = context.core.lateFlight(token) else {
            throw QueueError(.conflict, "attempt \(token) was answered already")
        }
        guard let row = try store.row(at: flight.sequence, .whole), let progress = context.core.lateSuccess(token, outcome, row, now) else {
            throw QueueError(.conflict, "the attempt had timed out, and its message has gone on")
        }
        if store.isInTransaction { writes.commit() }
        try transactions.counting(1) { () throws(QueueError) in
            try transactions.run(durable: context.options.durableOutcomes) { () throws(QueueError) in try store.update(row, to: progress) }
        }
        writes.perform(context.core.lateSuccessSaved(token, row, now))
    }

    // MARK: Callbacks

    /// Tells one event; false: there is none, or another thread is telling one.
    func deliverOne() -> Bool {
        events.deliverOne(host) { .summary(writes.counts, context.core.scheduler.network) }
    }

    /// Runs one callback of a polled queue: an event if there is one, else an attempt.
    func runOne() -> Bool {
        guard context.phase != .closed else { return false }
        settle()
        if deliverOne() {
            settle()
            return true
        }
        guard context.hasStart else { return false }
        guard let work = startNext() else {
            settle()
            return deliverOne()
        }
        settle()
        _ = call(work, thenNext: false)
        settle()
        return true
    }
}
