import Glibc

/// Drains: asked for, joined, reported.
extension Engine {
    /// Asks for a drain; `done` is called with its report after the events of it were told. A second request joins the first.
    package func drain(
        batch: Int, timeout: Int64?, done: @escaping @Sendable (Result<Report, QueueError>) -> Void
    ) throws(QueueError) {
        guard (0...Int(Int32.max)).contains(batch) else { throw QueueError(.invalid, "a batch has no \(batch) messages") }
        try changing { () throws(QueueError) in
            guard transport != nil else { throw QueueError(.noTransport, "there is no transport to send with") }
            // A person who asks does not wait until the store is tried again.
            if storageTrouble != nil { scheduler.storageFailed(until: 0) }
            drainWaiters.append(done)
            guard scheduler.drain(batch: batch, timeout: timeout, ports.moment) else { return }
            emit(.drainStarted(counts))
        }
    }

    /// As `drain`, but waits for it. From inside a callback it only starts the drain.
    package func drainAndWait(batch: Int, timeout: Int64?) throws(QueueError) -> Report {
        if ThreadContext.current.isInCallback(of: self) {
            try drain(batch: batch, timeout: timeout) { _ in }
            return try startedReport()
        }
        let waiter = DrainWaiter()
        try drain(batch: batch, timeout: timeout) { [lock, quietCondition] result in
            lock.withLock { waiter.result = result }
            quietCondition.broadcast()
        }
        lock.lock()
        drainers += 1
        defer {
            drainers -= 1
            lock.unlock()
        }
        while true {
            if let result = waiter.result { return try result.get() }
            if isOrphan { throw ending }
            if poll == nil {
                quietCondition.wait(lock)
            } else if isPolled || !runOne() {
                // Nobody may be polling any more the next moment: then this thread does.
                quietCondition.wait(lock, until: ports.mono() + 20)
            }
        }
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
        var report = scheduler.session?.report ?? Report()
        report.stop = stop
        report.remaining = store.totals.queued
        scheduler.finished(now)
        emit(.drainFinished(report))
        let waiters = drainWaiters
        drainWaiters = []
        let result = report
        events.append { for waiter in waiters { waiter(.success(result)) } }
    }

    /// Under the engine's lock.
    private final class DrainWaiter: @unchecked Sendable {
        var result: Result<Report, QueueError>?
    }
}
