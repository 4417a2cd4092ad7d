import Glibc

/// Somebody who waits for a drain. Under the engine's lock.
final class DrainWaiter: @unchecked Sendable {
    /// Monotonic; nil: waits without end.
    let deadline: Int64?
    /// Called once, where events are told.
    let done: @Sendable (Result<Report, QueueError>) -> Void
    /// What came of the drain, once that is known; `done` is told it after the events of it.
    var report: Report?

    init(deadline: Int64?, done: @escaping @Sendable (Result<Report, QueueError>) -> Void) {
        (self.deadline, self.done) = (deadline, done)
    }
}

/// Drains: asked for, joined, reported.
extension Engine {
    /// How long beyond its time a caller waits for the events of its drain to be told, in milliseconds.
    private static let tellingPatience: Int64 = 100

    /// Asks for a drain; `done` is called with its report after the events of it were told. A second request joins the first; when its own
    /// time runs out before the drain is over, `done` is called with what was done until then.
    package func drain(
        batch: Int, timeout: Int64?, done: @escaping @Sendable (Result<Report, QueueError>) -> Void
    ) throws(QueueError) {
        _ = try startDrain(batch: batch, timeout: timeout, done: done)
    }

    private func startDrain(
        batch: Int, timeout: Int64?, done: @escaping @Sendable (Result<Report, QueueError>) -> Void
    ) throws(QueueError) -> DrainWaiter {
        guard (0...Int(Int32.max)).contains(batch) else { throw QueueError(.invalid, "a batch has no \(batch) messages") }
        return try changing { () throws(QueueError) in
            guard transport != nil else { throw QueueError(.noTransport, "there is no transport to send with") }
            // A person who asks does not wait until the store is tried again.
            if storageTrouble != nil { scheduler.storageFailed(until: 0) }
            let now = ports.moment
            let waiter = DrainWaiter(deadline: timeout.map { now.mono.addingClamped(max($0, 0)) }, done: done)
            drainWaiters.append(waiter)
            if scheduler.drain(batch: batch, timeout: timeout, now) { emit(.drainStarted(counts)) }
            return waiter
        }
    }

    /// As `drain`, but waits for it, at most until the timeout. From inside a callback it only starts the drain.
    package func drainAndWait(batch: Int, timeout: Int64?) throws(QueueError) -> Report {
        if ThreadContext.current.isInCallback(of: self) {
            try drain(batch: batch, timeout: timeout) { _ in }
            return try startedReport()
        }
        let answer = DrainAnswer()
        let waiter = try startDrain(batch: batch, timeout: timeout) { [lock, quietCondition] result in
            lock.withLock { answer.result = result }
            quietCondition.broadcast()
        }
        let end = waiter.deadline?.addingClamped(Self.tellingPatience)
        lock.lock()
        drainers += 1
        defer {
            drainers -= 1
            lock.unlock()
        }
        while true {
            if let result = answer.result { return try result.get() }
            if isOrphan { throw ending }
            if let end, ports.mono() >= end { return giveUp(waiter) }
            if poll == nil {
                quietCondition.wait(lock, until: end)
            } else if isPolled || !runOne() {
                // Nobody may be polling any more the next moment: then this thread does.
                let soon = ports.mono() + 20
                quietCondition.wait(lock, until: min(end ?? soon, soon))
            }
        }
    }

    /// The events of the drain are not told in time: a handler does not come back.
    private func giveUp(_ waiter: DrainWaiter) -> Report {
        drainWaiters.removeAll { $0 === waiter }
        var report = waiter.report ?? reportSoFar()
        report.stop = .timeout
        return report
    }

    /// What the drain under way has done; what is left counts what is being sent, too.
    func reportSoFar() -> Report {
        var report = scheduler.session?.report ?? Report()
        report.stop = .started
        report.remaining = store.totals.queued
        return report
    }

    /// What is known of a drain that nobody waits for.
    package func startedReport() throws(QueueError) -> Report {
        let counts = try counts(nil)
        return Report(stop: .started, remaining: counts.queued + counts.sending)
    }

    /// Whether somebody else runs the callbacks: a thread is in `poll`, or was a moment ago and will be back.
    private var isPolled: Bool { pollers > 0 || (lastPoller != pthread_self() && ports.mono() - lastPolledAt < 200) }

    /// The scheduler says that the drain is over.
    func finishDrain(_ stop: Report.Stop, _ now: Moment) {
        commitFacts()
        var report = reportSoFar()
        report.stop = stop
        scheduler.finished(now)
        if stop == .waiting { checkIndexes(now) }
        emit(.drainFinished(report))
        tell(drainWaiters, report)
        drainWaiters = []
    }

    /// When the time of the next one who waits for a drain runs out (monotonic).
    var drainDeadline: Int64 { drainWaiters.lazy.compactMap(\.deadline).min() ?? Int64.max }

    /// Those whose own time ran out wait no longer; the drain, which another asked for, goes on.
    func endDrainWaits(_ now: Int64) {
        guard drainDeadline <= now else { return }
        var report = reportSoFar()
        report.stop = .timeout
        let late = drainWaiters.filter { $0.deadline.map { $0 <= now } ?? false }
        drainWaiters.removeAll { waiter in late.contains { $0 === waiter } }
        tell(late, report)
    }

    private func tell(_ waiters: [DrainWaiter], _ report: Report) {
        guard !waiters.isEmpty else { return }
        for waiter in waiters { waiter.report = report }
        events.append { for waiter in waiters { waiter.done(.success(report)) } }
    }

    /// Under the engine's lock.
    private final class DrainAnswer: @unchecked Sendable {
        var result: Result<Report, QueueError>?
    }
}
