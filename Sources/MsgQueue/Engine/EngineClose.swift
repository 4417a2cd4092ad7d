/// The end of a queue.
extension Engine {
    /// How long a handler that does not come back is waited for, when events are left to tell.
    private static let eventPatience: Int64 = 1_000
    /// How long outcomes that the store does not take are tried again when the caller gave no deadline.
    private static let storePatience: Int64 = 5_000

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
        context.phase = .closing
        context.core.scheduler.closing()
        let now = context.ports.mono()
        let deadline = timeout.map { now.addingClamped($0) }
        driver.settle()
        let isQuiet = awaitQuiet(deadline, storeDeadline: deadline ?? now.addingClamped(Self.storePatience))
        guard !context.isOrphan else {
            context.lock.unlock()
            throw context.ending
        }
        let unsaved = finish()
        return unsaved > 0 ? .unsaved(unsaved) : isQuiet ? .quiet : .timedOut
    }

    private var isSending: Bool { context.core.scheduler.inFlight > 0 || host.transportCalls > 0 }

    /// Waits until no attempt is under way and no call runs, at most until the deadline; then until every event is told.
    /// False: something had not ended.
    private func awaitQuiet(_ deadline: Int64?, storeDeadline: Int64) -> Bool {
        while !context.isOrphan, isSending || hasUnsavedHope(deadline, storeDeadline) {
            driver.settle()
            if let deadline, context.ports.mono() >= deadline { break }
            serveEvents()
            let soon = context.ports.mono() + 20
            context.quietCondition.wait(context.lock, until: min(deadline ?? soon, soon))
        }
        let isQuiet = !isSending
        return awaitEvents() && isQuiet
    }

    /// Outcomes that the store did not take are tried again until the deadline, and without one for a moment.
    private func hasUnsavedHope(_ deadline: Int64?, _ storeDeadline: Int64) -> Bool {
        guard writes.hasUnsaved, !context.store.isPoisoned else { return false }
        return deadline != nil || context.ports.mono() < storeDeadline
    }

    /// Tells what is left; false: a handler did not come back.
    private func awaitEvents() -> Bool {
        var patience = context.ports.mono() + Self.eventPatience
        var left = Int.max
        while !context.isOrphan, events.isDelivering || events.hasEvents {
            driver.settle()
            if events.waiting < left {
                left = events.waiting
                patience = context.ports.mono() + Self.eventPatience
            } else if context.ports.mono() >= patience {
                return false
            }
            serveEvents()
            if events.isDelivering || events.hasEvents {
                context.quietCondition.wait(context.lock, until: context.ports.mono() + 5)
            }
        }
        return true
    }

    /// In a polled queue nobody else may be there to tell events.
    private func serveEvents() {
        guard let poll, !poll.isPolled else { return }
        while driver.deliverOne() {}
    }

    /// Closes the store and ends the threads; the lock is held on entry, not on exit. How many outcomes could not be written.
    private func finish() -> Int {
        let store = context.store
        context.phase = .closed
        writes.commit()
        if writes.hasUnsaved, !store.isPoisoned { writes.saveUnsaved() }
        let waiters = drains.close()
        let stuck = host.transportCalls > 0 || events.isDelivering
        let (barriers, handlerRelease) = events.close()
        var releases = [driver.close(), handlerRelease]
        network.stop()
        backups.close()
        store.close(clean: true)
        let left = writes.unsavedOutcomes + transactions.undurableOutcomes
        if left > 0 { Log.error("\(store.path): \(left) outcomes could not be made durable before the close") }
        let threads = takeThreads()
        let report = Report(stop: .closed, remaining: store.totals.queued, remainingFailed: store.totals.failed)
        poll?.close()
        timer.wake()
        context.quietCondition.broadcast()
        context.lock.unlock()
        for barrier in barriers { barrier() }
        for waiter in waiters { waiter.done(.success(report)) }
        // A thread that a callback keeps is not waited for; it ends when that returns.
        for (index, thread) in threads.enumerated() { stuck && index > 0 ? thread.detach() : thread.join() }
        // The first of them, the timer's, which is in no callback, slept on these.
        timer.close()
        for index in releases.indices {
            releases[index]?()
            releases[index] = nil
        }
        return left
    }
}
