/// Drains and the callers that wait for them. Under the engine's lock.
final class Drains {
    /// How long a caller waits after its timeout for the events of its drain to be delivered, in milliseconds.
    private static let deliveryTimeout: Int64 = 100

    private let context: EngineContext
    private let events: EventDelivery
    private let health: StoreHealth
    private var waiters: [DrainWaiter] = []

    init(_ context: EngineContext, _ events: EventDelivery, _ health: StoreHealth) {
        (self.context, self.events, self.health) = (context, events, health)
    }

    /// Requests a drain or joins one. Returns true if a new one begins.
    func request(_ waiter: DrainWaiter, batch: Int, timeout: Int64?, includesFailed: Bool, _ now: Moment) -> Bool {
        let (number, begins) = context.core.scheduler.drain(
            waiter.conversation, batch: batch, timeout: timeout, includesFailed: includesFailed, now)
        waiter.drain = number
        waiters.append(waiter)
        return begins
    }

    /// Ends the current drain and reports it. Returns true if another begins.
    func finish(_ stop: Report.Stop, _ now: Moment) -> Bool {
        guard let drain = context.core.scheduler.session?.number else { return false }
        var report = report()
        report.stop = stop
        let another = context.core.scheduler.finished(stop, through: context.store.state.lastSequence, now)
        events.emit(.drainFinished(report))
        let served = waiters.filter { $0.drain == drain }
        waiters.removeAll { $0.drain == drain }
        answer(served, report)
        return another
    }

    // MARK: Waiting

    /// When the next timeout of a waiter passes (monotonic).
    var deadline: Int64 { waiters.lazy.compactMap(\.deadline).min() ?? Int64.max }

    /// Ends the waits whose timeout has passed; the drain continues for the other callers.
    func endWaits(_ now: Int64) {
        guard deadline <= now else { return }
        let late = waiters.filter { $0.deadline.map { $0 <= now } ?? false }
        waiters.removeAll { waiter in late.contains { $0 === waiter } }
        for waiter in late {
            var report = report(for: waiter)
            report.stop = .timeout
            answer([waiter], report)
        }
    }

    /// The result that a thread waits for. Under the engine's lock.
    final class Answer: @unchecked Sendable {
        var result: Result<Report, QueueError>?
    }

    /// Waits for the answer, with the lock released. In a polled queue `runOne` runs one callback and returns false if there is none; it is
    /// told whether it will be called again at once, unless the drain ends. `hasBegun`: an attempt has begun, and must be called. `runDue`
    /// performs what is due at a time, if no thread does.
    func wait(
        for answer: Answer, _ waiter: DrainWaiter, _ poll: PollHost?, runDue: () -> Void, hasBegun: () -> Bool,
        runOne: (_ continues: Bool) -> Bool
    ) throws(QueueError) -> Report {
        let end = waiter.deadline?.addingClamped(Self.deliveryTimeout)
        while true {
            let isOver = answer.result != nil || end.map { context.ports.mono() >= $0 } ?? false
            // The next call may be made much later, and a process that ends before it leaves the outcome unknown.
            if isOver, let poll, !context.isForkedChild, !poll.isPolledElsewhere, hasBegun(), runOne(false) { continue }
            if let result = answer.result { return try result.get() }
            if context.isForkedChild { throw context.closedError }
            if let end, context.ports.mono() >= end { return stopWaiting(waiter) }
            if let poll {
                runDue()
                // If no other thread polls, this thread runs the callbacks.
                guard poll.isPolledElsewhere || !runOne(true) else { continue }
                guard answer.result == nil else { continue }
                let now = context.ports.mono()
                let soon = context.ports.simulated == nil ? min(now + 20, poll.deadline) : max(now + 1, poll.deadline)
                context.wait(context.progressCondition, until: min(end ?? soon, soon))
            } else {
                context.wait(context.progressCondition, until: end)
            }
        }
    }

    /// Stops waiting, because a handler does not return and the drain's events are not delivered in time.
    private func stopWaiting(_ waiter: DrainWaiter) -> Report {
        waiters.removeAll { $0 === waiter }
        var report = waiter.report ?? report(for: waiter)
        report.stop = .timeout
        return report
    }

    private func answer(_ waiters: [DrainWaiter], _ report: Report) {
        guard !waiters.isEmpty else { return }
        for waiter in waiters { waiter.report = report }
        events.append { for waiter in waiters { waiter.done(.success(report)) } }
    }

    /// Removes and returns the waiters when the queue is closed.
    func close() -> [DrainWaiter] {
        defer { waiters = [] }
        return waiters
    }

    // MARK: Reports

    /// Returns the report of the current drain. `remaining` includes messages in flight.
    func report() -> Report {
        guard let session = context.core.scheduler.session else { return Report(stop: .started) }
        var report = session.report
        report.stop = .started
        let left = left(of: session.conversation)
        (report.remaining, report.remainingFailed) = (left.queued, left.failed)
        return report
    }

    /// Returns the report for a waiter, whose drain may not have begun.
    private func report(for waiter: DrainWaiter) -> Report {
        if let session = context.core.scheduler.session, session.number == waiter.drain { return report() }
        let left = left(of: waiter.conversation)
        return Report(stop: .started, remaining: left.queued, remainingFailed: left.failed)
    }

    /// The number of queued messages of the conversation that is drained alone; nil: no such drain.
    var queuedAlone: Int64? { context.core.scheduler.session?.conversation.map { left(of: $0).queued } }

    /// Returns the counts of one conversation or of all; messages in flight count as queued.
    func left(of conversation: Name?) -> Counts {
        guard let conversation else { return context.store.counts.totals }
        do throws(QueueError) { return try context.store.counts.counts(of: conversation) } catch {
            health.report(error)
            return context.store.counts.totals
        }
    }
}
