/// Drains under way and those that wait for them. Under the engine's lock.
final class Drains {
    /// How long beyond its time a caller waits for the events of its drain to be told, in milliseconds.
    private static let tellingPatience: Int64 = 100

    private let context: EngineContext
    private let events: EventDelivery
    private let health: StoreHealth
    private var waiters: [DrainWaiter] = []

    init(_ context: EngineContext, _ events: EventDelivery, _ health: StoreHealth) {
        (self.context, self.events, self.health) = (context, events, health)
    }

    /// Asks for a drain, or joins one. True: a new one begins.
    func request(_ waiter: DrainWaiter, batch: Int, timeout: Int64?, _ now: Moment) -> Bool {
        let (number, begins) = context.core.scheduler.drain(waiter.conversation, batch: batch, timeout: timeout, now)
        waiter.drain = number
        waiters.append(waiter)
        return begins
    }

    /// The drain is over. True: another begins.
    func finish(_ stop: Report.Stop, _ now: Moment) -> Bool {
        guard let drain = context.core.scheduler.session?.number else { return false }
        var report = report()
        report.stop = stop
        let another = context.core.scheduler.finished(stop, through: context.store.lastSequence, now)
        events.emit(.drainFinished(report))
        let served = waiters.filter { $0.drain == drain }
        waiters.removeAll { $0.drain == drain }
        answer(served, report)
        return another
    }

    // MARK: Waiting

    /// When the time of the next one who waits for a drain runs out (monotonic).
    var deadline: Int64 { waiters.lazy.compactMap(\.deadline).min() ?? Int64.max }

    /// Those whose own time ran out wait no longer; the drain, which another asked for, goes on.
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

    /// What a thread waits for. Under the engine's lock.
    final class Answer: @unchecked Sendable {
        var result: Result<Report, QueueError>?
    }

    /// Waits for the answer, with the lock given up meanwhile. `runOne` runs one callback of a polled queue; false: there is none.
    func wait(for answer: Answer, _ waiter: DrainWaiter, _ poll: PollHost?, runOne: () -> Bool) throws(QueueError) -> Report {
        let end = waiter.deadline?.addingClamped(Self.tellingPatience)
        while true {
            if let result = answer.result { return try result.get() }
            if context.isOrphan { throw context.ending }
            if let end, context.ports.mono() >= end { return giveUp(waiter) }
            if let poll {
                // Nobody may be polling any more the next moment: then this thread does.
                guard poll.isPolledElsewhere || !runOne() else { continue }
                let soon = context.ports.mono() + 20
                context.quietCondition.wait(context.lock, until: min(end ?? soon, soon))
            } else {
                context.quietCondition.wait(context.lock, until: end)
            }
        }
    }

    /// The events of the drain are not told in time: a handler does not come back.
    private func giveUp(_ waiter: DrainWaiter) -> Report {
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

    /// The end of the queue: who still waits.
    func close() -> [DrainWaiter] {
        defer { waiters = [] }
        return waiters
    }

    // MARK: Reports

    /// What the drain under way has done; what is left counts what is being sent, too.
    func report() -> Report {
        guard let session = context.core.scheduler.session else { return Report(stop: .started) }
        var report = session.report
        report.stop = .started
        let left = left(of: session.conversation)
        (report.remaining, report.remainingFailed) = (left.queued, left.failed)
        return report
    }

    /// The same for one who waits, whose drain may not have begun.
    private func report(for waiter: DrainWaiter) -> Report {
        if let session = context.core.scheduler.session, session.number == waiter.drain { return report() }
        let left = left(of: waiter.conversation)
        return Report(stop: .started, remaining: left.queued, remainingFailed: left.failed)
    }

    /// How many messages there are of one conversation or of all; those being sent count as queued.
    func left(of conversation: Name?) -> Counts {
        guard let conversation else { return context.store.totals }
        do throws(QueueError) { return try context.store.counts(of: conversation) } catch {
            health.report(error)
            return context.store.totals
        }
    }
}
