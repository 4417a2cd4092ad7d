import Glibc

/// Somebody who waits for a drain. Under the engine's lock.
final class DrainWaiter: @unchecked Sendable {
    /// Monotonic; nil: waits without end.
    let deadline: Int64?
    /// What it asked for: the messages of one conversation, or (nil) all.
    let conversation: Name?
    /// The drain that it waits for.
    var drain = 0
    /// Called once, where events are told.
    let done: @Sendable (Result<Report, QueueError>) -> Void
    /// What came of the drain, once that is known; `done` is told it after the events of it.
    var report: Report?

    init(deadline: Int64?, conversation: Name?, done: @escaping @Sendable (Result<Report, QueueError>) -> Void) {
        (self.deadline, self.conversation, self.done) = (deadline, conversation, done)
    }
}

/// Drains: asked for, joined, reported.
extension Engine {
    /// How long beyond its time a caller waits for the events of its drain to be told, in milliseconds.
    private static let tellingPatience: Int64 = 100

    /// Asks for a drain of one conversation or (nil) of all; `done` is called with its report after the events of it were told. A request
    /// joins a drain that does the same already; one of another scope waits for its end. When its own time runs out before its drain is
    /// over, `done` is called with what was done until then.
    package func drain(
        _ conversation: String? = nil, batch: Int, timeout: Int64?, done: @escaping @Sendable (Result<Report, QueueError>) -> Void
    ) throws(QueueError) {
        _ = try startDrain(conversation, batch: batch, timeout: timeout, done: done)
    }

    private func startDrain(
        _ conversation: String?, batch: Int, timeout: Int64?, done: @escaping @Sendable (Result<Report, QueueError>) -> Void
    ) throws(QueueError) -> DrainWaiter {
        guard (0...Int(Int32.max)).contains(batch) else { throw QueueError(.invalid, "a batch has no \(batch) messages") }
        if let conversation { try DraftRule.check(conversation: conversation) }
        let name = conversation.map { Name($0) }
        return try changing { () throws(QueueError) in
            guard transport != nil else { throw QueueError(.noTransport, "there is no transport to send with") }
            // A person who asks does not wait until the store is tried again.
            if storageTrouble != nil { core.scheduler.storageFailed(until: 0) }
            let now = ports.moment
            let waiter = DrainWaiter(deadline: timeout.map { now.mono.addingClamped(max($0, 0)) }, conversation: name, done: done)
            let (number, begins) = core.scheduler.drain(name, batch: batch, timeout: timeout, now)
            waiter.drain = number
            drainWaiters.append(waiter)
            if begins { drainStarted() }
            return waiter
        }
    }

    /// As `drain`, but waits for it, at most until the timeout. From inside a callback it only starts the drain.
    package func drainAndWait(_ conversation: String? = nil, batch: Int, timeout: Int64?) throws(QueueError) -> Report {
        if ThreadContext.current.isInCallback(of: self) {
            try drain(conversation, batch: batch, timeout: timeout) { _ in }
            return try startedReport(conversation)
        }
        let answer = DrainAnswer()
        let waiter = try startDrain(conversation, batch: batch, timeout: timeout) { [lock, quietCondition] result in
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
            } else if isPolled || !(runLast() || runOne()) {
                // Nobody may be polling any more the next moment: then this thread does.
                let soon = ports.mono() + 20
                quietCondition.wait(lock, until: min(end ?? soon, soon))
            }
        }
    }

    /// The events of the drain are not told in time: a handler does not come back.
    private func giveUp(_ waiter: DrainWaiter) -> Report {
        drainWaiters.removeAll { $0 === waiter }
        var report = waiter.report ?? reportSoFar(for: waiter)
        report.stop = .timeout
        return report
    }

    private func drainStarted() {
        guard let session = core.scheduler.session else { return }
        emit(.drainStarted(left(in: session, sendingApart: true)))
    }

    /// What the drain under way has done; what is left counts what is being sent, too.
    func reportSoFar() -> Report {
        guard let session = core.scheduler.session else { return Report(stop: .started) }
        var report = session.report
        report.stop = .started
        let left = left(in: session)
        (report.remaining, report.remainingFailed) = (left.queued, left.failed)
        return report
    }

    /// The same for one who waits, whose drain may not have begun.
    private func reportSoFar(for waiter: DrainWaiter) -> Report {
        if let session = core.scheduler.session, session.number == waiter.drain { return reportSoFar() }
        let left = left(of: waiter.conversation)
        return Report(stop: .started, remaining: left.queued, remainingFailed: left.failed)
    }

    /// How many messages there are in a drain's scope; those being sent count as queued.
    func left(in session: Scheduler.Session, sendingApart: Bool = false) -> Counts {
        let counts = left(of: session.conversation)
        guard sendingApart else { return counts }
        return session.conversation.map { withSending(counts, $0) } ?? self.counts
    }

    private func left(of conversation: Name?) -> Counts {
        guard let conversation else { return store.totals }
        do throws(QueueError) { return try store.counts(of: conversation) } catch {
            storageTrouble(error)
            return store.totals
        }
    }

    /// What is known of a drain that nobody waits for.
    package func startedReport(_ conversation: String? = nil) throws(QueueError) -> Report {
        let counts = try counts(conversation)
        return Report(stop: .started, remaining: counts.queued + counts.sending, remainingFailed: counts.failed)
    }

    /// Whether somebody else runs the callbacks: a thread is in `poll`, or was a moment ago and will be back.
    private var isPolled: Bool { pollers > 0 || (lastPoller != pthread_self() && ports.mono() - lastPolledAt < 200) }

    /// The scheduler says that the drain is over.
    func finishDrain(_ stop: Report.Stop, _ now: Moment) {
        commitFacts()
        guard let drain = core.scheduler.session?.number else { return }
        var report = reportSoFar()
        report.stop = stop
        let another = core.scheduler.finished(stop, through: store.lastSequence, now)
        emit(.drainFinished(report))
        let waiters = drainWaiters.filter { $0.drain == drain }
        drainWaiters.removeAll { $0.drain == drain }
        tell(waiters, report)
        if another { drainStarted() }
    }

    /// When the time of the next one who waits for a drain runs out (monotonic).
    var drainDeadline: Int64 { drainWaiters.lazy.compactMap(\.deadline).min() ?? Int64.max }

    /// Those whose own time ran out wait no longer; the drain, which another asked for, goes on.
    func endDrainWaits(_ now: Int64) {
        guard drainDeadline <= now else { return }
        let late = drainWaiters.filter { $0.deadline.map { $0 <= now } ?? false }
        drainWaiters.removeAll { waiter in late.contains { $0 === waiter } }
        for waiter in late {
            var report = reportSoFar(for: waiter)
            report.stop = .timeout
            tell([waiter], report)
        }
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
