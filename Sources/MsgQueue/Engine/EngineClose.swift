/// The end of a queue, and what the last end left behind.
extension Engine {
    /// Starts nothing more, waits for what is under way, tells what is left, and closes the store. False: an attempt had not ended in time;
    /// it is closed all the same.
    package func close(timeout: Int64?) throws(QueueError) -> Bool {
        try checkProcess()
        guard !ThreadContext.current.isInCallback(of: self) else {
            throw QueueError(.conflict, "a queue cannot be closed from inside its own callback")
        }
        lock.lock()
        guard phase == .open else {
            // Another thread closes it already: that is closed enough to say so, once it is.
            while phase != .closed { quietCondition.wait(lock) }
            lock.unlock()
            throw QueueError(.closed, "the queue is closed")
        }
        phase = .closing
        scheduler.closing()
        let deadline = timeout.map { time in
            let (sum, overflow) = ports.mono().addingReportingOverflow(time)
            return overflow ? Int64.max : sum
        }
        settle()
        let isQuiet = awaitQuiet(deadline)
        finish()
        return isQuiet
    }

    /// Waits until no attempt is under way, no call runs and every event is told.
    private func awaitQuiet(_ deadline: Int64?) -> Bool {
        while true {
            settle()
            let isBusy = scheduler.inFlight > 0 || callsRunning > 0 || isDelivering || !unsavedIsHopeless
            let hasEvents = !events.isEmpty || (events.summaryIsDue && handler != nil)
            if !isBusy, !hasEvents { return true }
            // In a polled queue nobody else may be there to tell them.
            if hasEvents, !isDelivering, poll != nil, pollers == 0, deliverOne() { continue }
            if let deadline, ports.mono() >= deadline {
                // What can be told without waiting for anybody still is.
                if poll != nil { while deliverOne() {} }
                return scheduler.inFlight == 0 && callsRunning == 0 && !isDelivering
            }
            let soon = ports.mono() + 20
            quietCondition.wait(lock, until: min(deadline ?? soon, soon))
        }
    }

    /// Facts that the store does not take are tried again until the deadline.
    private var unsavedIsHopeless: Bool { unsaved.isEmpty || store.isPoisoned }

    /// Closes the store and ends the threads; the lock is held on entry, not on exit.
    private func finish() {
        phase = .closed
        commitFacts()
        if !unsaved.isEmpty { Log.warning("\(store.path): \(unsaved.count) outcomes could not be written before the close") }
        let waiters = drainWaiters
        drainWaiters = []
        var releases = [transport?.retire(), handler?.retire()]
        (transport, handler) = (nil, nil)
        store.close(clean: true)
        let stuck = callsRunning > 0 || isDelivering
        let threads = (workers, services)
        (workers, services) = ([], [])
        let report = Report(stop: .closed, remaining: store.totals.queued)
        poll?.close()
        workCondition.broadcast()
        eventCondition.broadcast()
        timerCondition.broadcast()
        quietCondition.broadcast()
        lock.unlock()
        for waiter in waiters { waiter(.success(report)) }
        // A thread that a callback keeps is not waited for; it ends when that returns.
        for thread in threads.0 + threads.1 { stuck ? thread.detach() : thread.join() }
        for index in releases.indices {
            releases[index]?()
            releases[index] = nil
        }
    }

    // MARK: After a crash

    /// Attempts that the last owner did not end: their outcome is unknown, their messages go back to their places.
    func recover() throws(QueueError) {
        let interrupted = try store.interrupted()
        guard !interrupted.isEmpty else { return }
        try transaction(durable: true) { () throws(QueueError) in
            for attempt in interrupted {
                guard let row = try store.row(at: attempt.sequence, .none) else {
                    try store.forgetInterrupted(attempt.sequence)
                    continue
                }
                let resolution = OutcomeRule.recover(
                    number: attempt.number, startedAt: attempt.startedAt, of: row.progress, holdUnknown: options.holdUnknown,
                    maxRetries: options.maxRetries)
                try store.end(row, resolution)
            }
        }
    }
}
