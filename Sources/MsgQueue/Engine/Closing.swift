/// The close of a queue, under the engine's lock. An asynchronous one goes on in a thread of its own, or in a queue without threads in
/// `poll`.
final class Closing: @unchecked Sendable {
    private let engine: Engine
    private let context: EngineContext
    let wait: CloseWait
    /// Called at the end of an asynchronous close.
    private let done: @Sendable (CloseResult) -> Void

    init(_ engine: Engine, _ timeout: Int64?, _ done: @escaping @Sendable (CloseResult) -> Void = { _ in }) {
        (self.engine, context, wait, self.done) = (engine, engine.context, CloseWait(engine, timeout), done)
    }

    /// From now on calls are rejected and no attempt starts.
    func begin() {
        context.phase = .closing
        context.core.scheduler.closing()
        // Rejected outcomes are retried at once, not after the pause of the last failure.
        if engine.health.trouble != nil { context.core.scheduler.storageFailed(until: 0) }
        engine.driver.runDueSteps()
    }

    // MARK: Asynchronous

    /// The body of the thread. Takes the lock.
    @Sendable func run() {
        context.lock.lock()
        let isComplete = wait.wait()
        engine.poll?.closingEnded()
        let (result, callbacks) = finish(isComplete: isComplete)
        Log.flushWhileExiting()
        guard let poll = engine.poll else {
            callbacks.runReleases()
            return done(result)
        }
        context.lock.withLock { expectPoll(poll, result, callbacks) }
    }

    /// Goes on with the close of a queue without threads. The lock may be released meanwhile. Returns true when this call has closed the
    /// store.
    func step() -> Bool {
        guard let poll = engine.poll, context.options.callbacks == .poll, let isComplete = wait.step() else { return false }
        poll.closingEnded()
        let (result, callbacks) = finish(isComplete: isComplete)
        Log.flushWhileExiting()
        context.lock.lock()
        expectPoll(poll, result, callbacks)
        return true
    }

    /// Lets `poll` run the last callbacks.
    private func expectPoll(_ poll: PollHost, _ result: CloseResult, _ callbacks: CloseCallbacks) {
        poll.setCloseCallback { [done] in
            callbacks.runDrains()
            callbacks.runReleases()
            done(result)
        }
    }

    // MARK: The end

    /// Ends the waits for outcomes. Returns the calls of those without a thread.
    private func endWaits() -> [@Sendable () -> Void] {
        let error = context.closedError
        var calls: [@Sendable () -> Void] = []
        for waiter in engine.waits.close() {
            waiter.ending = .failure(error)
            waiter.condition?.broadcast()
            if let done = waiter.done { calls.append { done(.failure(error)) } }
        }
        return calls
    }

    /// Closes the store and ends the threads. The lock is held on entry and released on return. Returns the result and the callbacks that
    /// the caller must run.
    func finish(isComplete: Bool) -> (CloseResult, CloseCallbacks) {
        let store = context.store
        engine.outcomes.prepareClose()
        context.phase = .closed
        if engine.writes.hasUnsaved, !store.isPoisoned { engine.writes.saveUnsaved() }
        engine.events.watches.close(engine.reader)
        let waiters = engine.drains.close()
        let ends = endWaits()
        let stuck = engine.host.transportCalls > 0 || engine.events.isDelivering
        let (barriers, handlerRelease) = engine.events.close()
        let releases = engine.outcomes.close() + [engine.attempts.close(), handlerRelease]
        engine.network.stop()
        engine.backups.close()
        let lost = store.close(clean: true)
        let left = engine.writes.unsavedOutcomes + engine.transactions.undurableOutcomes
        if left > 0 { Log.error("\(store.path): \(left) outcomes could not be made durable before the close") }
        let threads = engine.takeThreads()
        let report = Report(stop: .closed, remaining: store.counts.totals.queued, remainingFailed: store.counts.totals.failed)
        engine.timer.wake()
        context.progressCondition.broadcast()
        let hasThreads = context.options.callbacks != .poll
        if !hasThreads {
            // A thread that polls may be waiting for the alarm.
            while engine.timer.isAsleep { context.lock.wait(context.progressCondition) }
            engine.timer.close()
        }
        let isClosedByPoll = engine.poll?.awaitsCloseCallback ?? false
        if !isClosedByPoll { engine.poll?.close() }
        context.lock.unlock()
        let callbacks = CloseCallbacks(
            context, drains: barriers + waiters.map { waiter in { waiter.done(.success(report)) } } + ends, releases: releases)
        if !isClosedByPoll { callbacks.runDrains() }
        engine.attachment.close()
        // A thread inside a callback is not joined; it ends when the callback returns.
        for (index, thread) in threads.enumerated() { stuck && index > 0 ? thread.detach() : thread.join() }
        // The timer thread, the first, is never inside a callback: it was joined and no longer uses the alarm.
        if hasThreads { engine.timer.close() }
        let unsaved: CloseResult? = left > 0 ? .unsaved(left) : nil
        return (lost.map { .lost($0) } ?? unsaved ?? (isComplete ? .complete : .timedOut), callbacks)
    }
}
