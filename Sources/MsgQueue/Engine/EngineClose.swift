/// The end of a queue.
extension Engine {
    /// Starts nothing more, waits for what is under way, tells what is left, and closes the store.
    package func close(timeout: Int64?) throws(QueueError) -> Closing {
        try context.checkProcess()
        guard !host.isInCallback else {
            throw QueueError(.conflict, "a queue cannot be closed from inside its own callback")
        }
        context.lock.lock()
        guard context.phase == .open else {
            // Another thread closes it already: that is closed enough to say so, once it is.
            while context.phase != .closed { context.quietCondition.wait(context.lock) }
            context.lock.unlock()
            throw context.ending
        }
        let quiet = QuietWait(self, timeout)
        beginClosing()
        let isQuiet = quiet.wait()
        guard !context.isOrphan else {
            context.lock.unlock()
            throw context.ending
        }
        let (closing, last) = finish(isQuiet: isQuiet)
        last.runReleases()
        return closing
    }

    /// Closes on a thread of its own. `done` is called once: on that thread, or, when the queue is polled, in `poll`. The queue takes no more
    /// calls when this returns. Allowed inside a callback, which is waited for like any other.
    package func closeAsync(timeout: Int64?, done: @escaping @Sendable (Closing) -> Void) throws(QueueError) {
        try context.checkProcess()
        context.lock.lock()
        defer { context.lock.unlock() }
        guard context.phase == .open else { throw context.ending }
        let quiet = QuietWait(self, timeout)
        // The thread begins by waiting for the lock, so that nothing was changed when there is no thread.
        guard let thread = EngineThread("msgq-close", { [self] in closeHere(quiet, done) }) else {
            throw QueueError(.storage, "the system has no thread left")
        }
        thread.detach()
        poll?.awaitLastCall()
        beginClosing()
    }

    private func closeHere(_ quiet: QuietWait, _ done: @escaping @Sendable (Closing) -> Void) {
        context.lock.lock()
        let isQuiet = quiet.wait()
        let (closing, last) = finish(isQuiet: isQuiet)
        Log.flushWhileExiting()
        guard let poll else {
            last.runReleases()
            return done(closing)
        }
        context.lock.withLock {
            poll.makeLastCall {
                last.runDrains()
                last.runReleases()
                done(closing)
            }
        }
    }

    /// Under the lock: no call begins any more.
    private func beginClosing() {
        context.phase = .closing
        context.core.scheduler.closing()
        driver.settle()
    }

    /// Closes the store and ends the threads; the lock is held on entry, not on exit. With how it ended, and what is left for the caller to
    /// run.
    private func finish(isQuiet: Bool) -> (Closing, LastCallbacks) {
        let store = context.store
        context.phase = .closed
        writes.commit()
        if writes.hasUnsaved, !store.isPoisoned { writes.saveUnsaved() }
        let waiters = drains.close()
        let stuck = host.transportCalls > 0 || events.isDelivering
        let (barriers, handlerRelease) = events.close()
        let releases = [driver.close(), handlerRelease]
        network.stop()
        backups.close()
        store.close(clean: true)
        let left = writes.unsavedOutcomes + transactions.undurableOutcomes
        if left > 0 { Log.error("\(store.path): \(left) outcomes could not be made durable before the close") }
        let threads = takeThreads()
        let report = Report(stop: .closed, remaining: store.totals.queued, remainingFailed: store.totals.failed)
        let isClosedByPoll = poll?.isLastCallAwaited ?? false
        if !isClosedByPoll { poll?.close() }
        timer.wake()
        context.quietCondition.broadcast()
        context.lock.unlock()
        let last = LastCallbacks(drains: barriers + waiters.map { waiter in { waiter.done(.success(report)) } }, releases: releases)
        if !isClosedByPoll { last.runDrains() }
        // A thread that a callback keeps is not waited for; it ends when that returns.
        for (index, thread) in threads.enumerated() { stuck && index > 0 ? thread.detach() : thread.join() }
        // The first of them, the timer's, which is in no callback, slept on these.
        timer.close()
        return (left > 0 ? .unsaved(left) : isQuiet ? .quiet : .timedOut, last)
    }
}
