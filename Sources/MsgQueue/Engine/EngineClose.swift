/// Closing a queue.
extension Engine {
    /// Starts no more attempts, waits for those in flight and for callbacks, delivers the remaining events, and closes the store.
    package func close(timeout: Int64?) throws(QueueError) -> CloseResult {
        try context.checkProcess()
        guard !host.isInCallback else {
            throw QueueError(.conflict, "a queue cannot be closed from inside its own callback")
        }
        context.lock.lock()
        guard context.phase == .open else {
            // Another thread is closing the queue: wait until it has.
            while context.phase != .closed { context.lock.wait(context.progressCondition) }
            context.lock.unlock()
            throw context.closedError
        }
        let closeWait = CloseWait(self, timeout)
        beginClosing()
        let isComplete = closeWait.wait()
        guard !context.isForkedChild else {
            context.lock.unlock()
            throw context.closedError
        }
        let (closing, callbacks) = finish(isComplete: isComplete)
        callbacks.runReleases()
        return closing
    }

    /// Closes on a separate thread. `done` is called once: on that thread or, if the queue is polled, in `poll`. The queue accepts no more
    /// calls when this returns. Allowed inside a callback; the close waits for that callback like for any other.
    package func closeAsync(timeout: Int64?, done: @escaping @Sendable (CloseResult) -> Void) throws(QueueError) {
        try context.checkProcess()
        context.lock.lock()
        defer { context.lock.unlock() }
        guard context.phase == .open else { throw context.closedError }
        let closeWait = CloseWait(self, timeout)
        // The new thread waits for the lock first, so nothing has changed if it cannot be created.
        guard let thread = EngineThread("msgq-close", { [self] in closeAndCallBack(closeWait, done) }) else {
            throw QueueError(.storage, "failed to create a thread")
        }
        thread.detach()
        poll?.expectCloseCallback()
        beginClosing()
    }

    private func closeAndCallBack(_ closeWait: CloseWait, _ done: @escaping @Sendable (CloseResult) -> Void) {
        context.lock.lock()
        let isComplete = closeWait.wait()
        let (closing, callbacks) = finish(isComplete: isComplete)
        Log.flushWhileExiting()
        guard let poll else {
            callbacks.runReleases()
            return done(closing)
        }
        context.lock.withLock {
            poll.setCloseCallback {
                callbacks.runDrains()
                callbacks.runReleases()
                done(closing)
            }
        }
    }

    /// From now on calls are rejected and no attempt starts. Under the lock.
    private func beginClosing() {
        context.phase = .closing
        context.core.scheduler.closing()
        driver.runDueSteps()
    }

    /// Closes the store and ends the threads. The lock is held on entry and released on return. Returns the result and the callbacks that
    /// the caller must run.
    private func finish(isComplete: Bool) -> (CloseResult, CloseCallbacks) {
        let store = context.store
        attempts.prepareClose()
        context.phase = .closed
        if writes.hasUnsaved, !store.isPoisoned { writes.saveUnsaved() }
        let waiters = drains.close()
        let stuck = host.transportCalls > 0 || events.isDelivering
        let (barriers, handlerRelease) = events.close()
        let releases = attempts.close() + [handlerRelease]
        network.stop()
        backups.close()
        store.close(clean: true)
        let left = writes.unsavedOutcomes + transactions.undurableOutcomes
        if left > 0 { Log.error("\(store.path): \(left) outcomes could not be made durable before the close") }
        let threads = takeThreads()
        let report = Report(stop: .closed, remaining: store.totals.queued, remainingFailed: store.totals.failed)
        let isClosedByPoll = poll?.awaitsCloseCallback ?? false
        if !isClosedByPoll { poll?.close() }
        timer.wake()
        context.progressCondition.broadcast()
        context.lock.unlock()
        let callbacks = CloseCallbacks(drains: barriers + waiters.map { waiter in { waiter.done(.success(report)) } }, releases: releases)
        if !isClosedByPoll { callbacks.runDrains() }
        attachment.close()
        // A thread inside a callback is not joined; it ends when the callback returns.
        for (index, thread) in threads.enumerated() { stuck && index > 0 ? thread.detach() : thread.join() }
        // The timer thread, the first, is never inside a callback: it was joined and no longer uses the alarm.
        timer.close()
        return (left > 0 ? .unsaved(left) : isComplete ? .complete : .timedOut, callbacks)
    }
}
