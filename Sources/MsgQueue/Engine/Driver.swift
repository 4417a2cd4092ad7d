/// Performs the core's steps one after another, and wakes the threads that perform the rest. Under the engine's lock.
final class Driver: @unchecked Sendable {
    private let context: EngineContext
    private let store: Store
    private let ports: Ports
    private let events: EventDelivery
    private let maintenance: Maintenance
    private let drains: Drains
    private let transactions: Transactions
    private let writes: PendingWrites
    private let network: NetworkWatch
    private let collection: CollectRequests
    private let poll: PollHost?
    private let calls: CallQueue
    private let workers: WorkerPool
    private let host: HostCalls
    private let attempts: AttemptRunner
    private let outcomes: OutcomeHandler
    private let timer: EngineTimer
    private let failed: FailedMessages
    private let stepReads: StepReads
    private let waits: Waits
    /// The events that a polled queue has delivered since its last attempt, and the most while one can begin.
    private var eventsInARow = 0
    private static let mostEventsInARow = 4
    private let reader: QueueReader
    /// So many requests by hand end, and so many parts of the failed messages are summed up, in one turn, however long it takes.
    private static let fewSteps = 16
    /// How often a thread that runs callbacks without a pause reads what the timer reports, in milliseconds.
    private static let readInterval: Int64 = 5
    /// For the present turn.
    private var search = SearchTime()
    /// When the core's next step is due at the latest (monotonic), beside attempts that may start now.
    private(set) var stepAt = Int64.max
    /// How long the machine had been suspended at the last check.
    private var suspendTime: Int64

    init(_ parts: EngineParts, _ reader: QueueReader) {
        context = parts.context
        store = parts.context.store
        ports = parts.context.ports
        (events, maintenance, drains) = (parts.events, parts.maintenance, parts.drains)
        (transactions, writes, network) = (parts.transactions, parts.writes, parts.network)
        collection = parts.collection
        (poll, calls, workers, host) = (parts.poll, parts.calls, parts.workers, parts.host)
        (timer, attempts, outcomes, failed) = (parts.timer, parts.attempts, parts.outcomes, FailedMessages(parts))
        stepReads = StepReads(parts.context, parts.writes)
        (waits, self.reader) = (parts.waits, reader)
        suspendTime = parts.context.ports.asleep()
    }

    // MARK: Steps

    /// Performs the core's steps up to one that calls the transport, and wakes the thread that makes the call. Called last, under the lock,
    /// after every change that may have made a step due.
    /// `isTimed`: nothing has changed but the time.
    func runDueSteps(isTimed: Bool = false) {
        guard context.phase != .closed else { return }
        context.assertInvariants()
        attempts.revokeForbiddenCalls()
        search.begin(at: ports.mono())
        var step = advance()
        // A refused commit begins a pause, for whose end the core waits.
        while !writes.commit() { step = advance() }
        context.assertInvariants()
        maintenance.pruneExcess(writes, transactions)
        drains.endWaits(ports.mono())
        endWaits(isTimed: isTimed)
        switch step {
        case .start:
            context.hasStart = true
            // The attempt waits for a thread that calls the transport; the timer serves all other deadlines.
            stepAt = context.core.scheduler.deadline(ports.moment) ?? Int64.max
            arm(min(stepAt, provideThread()))
        case .wait(let deadline):
            context.hasStart = false
            stepAt = deadline ?? Int64.max
            arm(min(stepAt, provideThread()))
        default: break
        }
        wake()
        events.watches.changed()
        if context.phase == .closing { context.progressCondition.broadcast() }
    }

    /// Provides a thread for attempts and calls; a polled queue has none. Returns when to call again (monotonic).
    private func provideThread() -> Int64 { poll == nil ? workers.provideThread(self) : Int64.max }

    /// Wakes the thread that delivers events, or the host's event loop.
    func wake() {
        if let poll { poll.wake() } else if events.hasWork { events.wake() }
    }

    private func arm(_ deadline: Int64) {
        timer.arm(
            min(
                min(deadline, maintenance.deadline(writes), network.deadline),
                min(drains.deadline, waits.deadline(ports.mono()), transactions.flushDeadline()),
                min(poll?.suppressionEnd ?? Int64.max, poll?.closeDeadline ?? Int64.max, collection.deadline)))
    }

    /// The body of the timer thread.
    func runTimer() { timer.run { runTimed() } }

    /// In a queue without threads: performs a part of what is due at a time on this thread. What the timer reports is read at most once in
    /// `interval` milliseconds.
    func runTimedHere(interval: Int64) {
        guard let poll, poll.readTimer(unlessWithin: interval) else { return }
        runTimed()
    }

    /// Performs a part of what is due at a time, and plans the rest.
    private func runTimed() {
        // A checkpoint takes some milliseconds. Calls that wait meanwhile have the next turn, and what else is due follows.
        guard !transactions.checkpointIfDue() else { return timer.arm(ports.mono()) }
        transactions.flushWhatIsDue()
        network.warnIfUnreported()
        collection.requestIfDue()
        maintenance.run(writes, transactions)
        maintenance.compareIndexes(writes)
        maintenance.giveBackSpace(writes, transactions)
        maintenance.checkStore()
        runDueSteps(isTimed: true)
    }

    // MARK: Polling

    /// Runs the pending callbacks of a polled queue on this thread, and waits for one if there is none. Returns how many ran.
    func runCallbacks(timeout: Int64?) throws(QueueError) -> Int {
        guard context.phase != .closed || poll?.awaitsCloseCallback == true else { throw context.closedError }
        if host.isInCallback {
            runTimedHere(interval: 0)
            if let poll, poll.suppressInsideCallback() { runDueSteps() }
            return 0
        }
        guard let poll else { throw QueueError(.conflict, "the queue is not polled: it runs its callbacks on its own threads") }
        return try poll.run(timeout: timeout, runCallback)
    }

    /// Runs one callback of a polled queue, after what is due at a time in a queue without threads. Returns false if there is none.
    func runCallback() -> Bool { runCallback(continues: false) }

    /// `continues`: the caller calls again at once, without returning to the host.
    func runCallback(continues: Bool) -> Bool {
        if poll?.runCloseCallback(host) == true { return true }
        runDueHere()
        return runOne(continues: continues) || (poll?.closing?.step() == true && poll?.runCloseCallback(host) == true)
    }

    /// In a queue without threads: performs a part of what is due at a time, and reads now and then what the timer reports.
    func runDueHere() { runTimedHere(interval: Self.readInterval) }

    // MARK: Events

    /// The body of the event thread of a queue that is not polled.
    func runEvents() { events.run { deliverOne() } }

    /// Performs steps until one needs the transport or nothing is due; returns that step. May leave a transaction open, for
    /// `PendingWrites.commit`.
    private func advance() -> Step {
        var (reads, others, counts) = (0, 0, 0)
        while true {
            extendDeadlinesAfterSuspend()
            outcomes.countBegun()
            let now = ports.moment
            if writes.hasUnsaved, now.mono >= context.core.scheduler.gate.storageRetryAt { writes.saveUnsaved() }
            let step = context.core.scheduler.next(
                now, queued: store.counts.totals.queued, inSession: drains.queuedAlone, commits: store.commits)
            switch step {
            case .start, .wait: return step
            case .schedule, .scan, .survey, .findPriorities, .findUnscheduled, .findScheduled, .load, .expire, .seek:
                guard search.allows(&reads, least: 1, now) else { return .wait(until: now.mono) }
                writes.attempt { () throws(QueueError) in try stepReads.perform(step, now) }
            case .endUnreachable(let conversation, let sequence, let hand):
                guard search.allows(&others, least: Self.fewSteps, now) else { return .wait(until: now.mono) }
                writes.attempt { () throws(QueueError) in
                    try writes.withRow(sequence, conversation, now) { context.core.requestAborted($0, sequence, conversation, hand, now) }
                }
            case .timeOut(let token):
                // The time counts from the call.
                if let since = outcomes.beginning(of: token),
                    context.core.scheduler.gate.flights.countTimeout(of: token, from: since) > now.mono
                {
                    continue
                }
                writes.perform(context.core.timedOut(token, now, random: ports.fraction))
            case .putBack(let conversation, let after):
                guard search.allows(&others, least: 1, now) else { return .wait(until: now.mono) }
                writes.commit()
                putBack(conversation, after: after)
            case .finish(let stop):
                writes.commit()
                if drains.finish(stop, now) { drainStarted() }
            case .countPrompt, .prepareCount:
                // One step takes about a millisecond.
                guard counts == 0 || ports.simulated != nil else { return .wait(until: now.mono) }
                counts += 1
                guard writes.commit() else { continue }
                writes.attempt { () throws(QueueError) in try stepReads.perform(step, now) }
            case .withdrawPrompt: writes.perform(context.core.promptWithdrawn())
            }
        }
    }

    /// Performs steps up to one that starts another attempt of the batch that is being chosen, or waits, because the search for another
    /// message takes long; nil: the batch is complete.
    private func advanceInBatch() -> Step? {
        if writes.beginnings.isEmpty { search.begin(at: ports.mono()) }
        outcomes.countBegun()
        while let step = context.core.scheduler.nextInBatch(ports.moment, queued: store.counts.totals.queued) {
            if step.isStart { return step }
            let now = ports.moment
            guard search.allowsReadInPart(now) else { return .wait(until: now.mono) }
            writes.attempt { () throws(QueueError) in try stepReads.perform(step, now) }
        }
        return nil
    }

    private func extendDeadlinesAfterSuspend() {
        let asleep = ports.asleep()
        // The two clocks are not read at the same instant, so small differences are ignored.
        guard asleep - suspendTime > 100 else { return }
        context.core.scheduler.gate.flights.machineSlept(asleep - suspendTime)
        suspendTime = asleep
    }

    /// Puts failed messages back for the current drain.
    private func putBack(_ conversation: Name?, after: Int64) {
        var search = FailedMessages.Search(
            .failed(conversation?.text), after: after, paused: context.core.scheduler.gate.pauses.conversations)
        do throws(QueueError) {
            let hasMore = try failed.putBack(&search, round: 0)
            context.core.scheduler.gate.drains.putBack(search.count, through: hasMore ? search.after : nil)
        } catch {
            // Those that were put back stay queued.
            context.core.scheduler.gate.drains.putBack(search.count, through: nil)
            context.core.scheduler.gate.drains.putBackFailed()
        }
    }

    /// Reports that a drain has begun.
    func drainStarted() {
        guard let session = context.core.scheduler.session else { return }
        let left = drains.left(of: session.conversation)
        events.emit(.drainStarted(session.conversation.map { writes.withSending(left, $0) } ?? writes.counts))
    }

    // MARK: Waits for outcomes

    private func endWaits(isTimed: Bool) {
        waits.step(
            isTimed: isTimed,
            ending: { id, isTimeout in
                do throws(QueueError) {
                    return try reader.ending(of: id, isKnown: true, isTimeout: isTimeout).map { .success($0) }
                } catch {
                    return .failure(error)
                }
            },
            end: end)
    }

    /// Ends the wait of a caller.
    func end(_ waiter: Waiter, _ ending: Result<Waiter.Ending, QueueError>) {
        waiter.ending = ending
        waiter.condition?.broadcast()
        if poll != nil { context.progressCondition.broadcast() }
        if let done = waiter.done { events.append { done(ending) } }
    }

    // MARK: Attempts

    /// Whether an attempt has begun whose call no thread makes yet.
    var hasBegun: Bool { calls.hasUntaken }

    /// Returns the next call of the transport, after the beginning of its attempt was committed; nil: none can begin now.
    func nextCall() -> CallQueue.Call? {
        outcomes.handleLeft()
        if let call = calls.take() { return call }
        guard context.phase == .open, context.hasStart, begin() else { return nil }
        return calls.take()
    }

    /// Makes the call and begins the next attempts in the commit that ends it.
    func make(_ call: CallQueue.Call) { outcomes.make(call) { _ = begin() } }

    /// Ends attempts that the transport left pending. If its calls return at once, this thread begins the next attempts in the same commit
    /// and makes their calls: no other thread has to be woken for them.
    func complete(_ answers: ArraySlice<(token: UInt64, outcome: Outcome)>) -> [QueueError?] {
        let begins = poll == nil && context.phase == .open && attempts.callsReturnAtOnce && !host.isInCallback
        let errors = outcomes.complete(answers, thenBegin: begins ? { _ = self.begin() } : nil)
        while begins, let call = calls.take() { make(call) }
        return errors
    }

    private func begin() -> Bool {
        // A person decides about interrupted attempts: there should be none whose call was not made.
        let isAlone = poll != nil || context.options.holdInterrupted
        search.begin(at: ports.mono())
        return attempts.begin(limit: isAlone ? 1 : calls.attemptsPerCommit, after: advance, inBatch: advanceInBatch)
    }

    // MARK: Callbacks

    /// Whether a callback other than that of an attempt may have to run next. Then no attempt begins before it has run.
    private var isCallbackNext: Bool { events.hasHandler || events.hasEvents || waits.hasWaiters }

    /// Delivers one event. Returns false if there is none or another thread is delivering one.
    func deliverOne() -> Bool {
        events.deliverOne(host) { .summary(writes.counts, context.core.scheduler.gate.network) }
    }

    /// Runs one callback of a polled queue: an event if there is one, otherwise an attempt; an attempt also after many events, which callers
    /// may cause faster than they are delivered. Returns false if there is neither.
    /// `continues`: this thread runs the next callback at once.
    private func runOne(continues: Bool) -> Bool {
        guard context.phase != .closed else { return false }
        runDueSteps(isTimed: true)
        // An attempt that has begun is called first: a process that ends meanwhile leaves its outcome unknown. If it must not be called any
        // more, it is put back.
        let hasBegun = hasBegun
        if !hasBegun, eventsInARow < Self.mostEventsInARow || !context.hasStart, deliverOne() {
            eventsInARow += 1
            runDueSteps()
            return true
        }
        eventsInARow = 0
        guard hasBegun || context.hasStart else { return false }
        guard let call = nextCall() else {
            runDueSteps()
            return deliverOne()
        }
        runDueSteps()
        outcomes.make(call) {
            let mayBegin = continues && !isCallbackNext && !context.core.scheduler.gate.isPausedOffline(ports.moment)
            if mayBegin { _ = begin() } else { writes.commit() }
        }
        runDueSteps()
        return true
    }
}
