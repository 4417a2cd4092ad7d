/// The end of a queue, and what the last end left behind.
extension Engine {
    /// How a queue was closed.
    package enum Closing: Equatable, Sendable {
        case quiet
        /// An attempt had not ended in time; it is closed all the same.
        case timedOut
        /// So many outcomes were not written; it is closed all the same.
        case unsaved(Int)

        /// What a caller is told of it.
        package var error: QueueError? {
            switch self {
            case .quiet: nil
            case .timedOut: QueueError(.timeout, "closed, but an attempt or a callback had not ended")
            case .unsaved(let count):
                QueueError(
                    .storage,
                    "closed, but the store took no more writes: the outcomes of \(count) attempts are not saved. After the next open they may "
                        + "be unknown, and their messages may be sent again")
            }
        }
    }

    /// Starts nothing more, waits for what is under way, tells what is left, and closes the store.
    package func close(timeout: Int64?) throws(QueueError) -> Closing {
        try checkProcess()
        guard !ThreadContext.current.isInCallback(of: self) else {
            throw QueueError(.conflict, "a queue cannot be closed from inside its own callback")
        }
        lock.lock()
        guard phase == .open else {
            // Another thread closes it already: that is closed enough to say so, once it is.
            while phase != .closed { quietCondition.wait(lock) }
            lock.unlock()
            throw ending
        }
        phase = .closing
        core.scheduler.closing()
        closingSince = ports.mono()
        let deadline = timeout.map { ports.mono().addingClamped($0) }
        settle()
        let isQuiet = awaitQuiet(deadline)
        guard !isOrphan else {
            lock.unlock()
            throw ending
        }
        let unsaved = finish()
        return unsaved > 0 ? .unsaved(unsaved) : isQuiet ? .quiet : .timedOut
    }

    /// How long a handler that does not come back is waited for, when events are left to tell.
    private static let eventPatience: Int64 = 1_000

    /// Waits until no attempt is under way and no call runs, at most until the deadline; then until every event is told.
    /// False: something had not ended.
    private func awaitQuiet(_ deadline: Int64?) -> Bool {
        while !isOrphan, core.scheduler.inFlight > 0 || callsRunning > 0 || hasUnsavedHope(deadline) {
            settle()
            if let deadline, ports.mono() >= deadline { break }
            serveEvents()
            let soon = ports.mono() + 20
            quietCondition.wait(lock, until: min(deadline ?? soon, soon))
        }
        let isQuiet = core.scheduler.inFlight == 0 && callsRunning == 0
        return awaitEvents() && isQuiet
    }

    /// Tells what is left; false: a handler did not come back.
    private func awaitEvents() -> Bool {
        var patience = ports.mono() + Self.eventPatience
        var left = Int.max
        while !isOrphan, isDelivering || hasEvents {
            settle()
            if events.count < left {
                left = events.count
                patience = ports.mono() + Self.eventPatience
            } else if ports.mono() >= patience {
                return false
            }
            serveEvents()
            if isDelivering || hasEvents { quietCondition.wait(lock, until: ports.mono() + 5) }
        }
        return true
    }

    private var hasEvents: Bool { !events.isEmpty || (events.summaryIsDue && handler != nil) }

    /// In a polled queue nobody else may be there to tell events.
    private func serveEvents() {
        guard poll != nil, pollers == 0 else { return }
        while deliverOne() {}
    }

    /// Outcomes that the store did not take are tried again until the deadline, and without one for a moment.
    private func hasUnsavedHope(_ deadline: Int64?) -> Bool {
        guard !unsaved.isEmpty, !store.isPoisoned else { return false }
        return deadline != nil || ports.mono() < closingSince + 5_000
    }

    /// Closes the store and ends the threads; the lock is held on entry, not on exit. How many outcomes could not be written.
    private func finish() -> Int {
        phase = .closed
        commitFacts()
        if !unsaved.isEmpty, !store.isPoisoned { saveUnsaved() }
        let waiters = drainWaiters
        drainWaiters = []
        let barriers = events.takeBarriers()
        var releases = [transport?.retire(), handler?.retire()]
        (transport, handler, monitor) = (nil, nil, nil)
        for copy in copies { copy.abandon() }
        copies = []
        store.close(clean: true)
        let left = unsaved.count(where: \.isOutcome) + undurableOutcomes
        if left > 0 { Log.error("\(store.path): \(left) outcomes could not be made durable before the close") }
        let stuck = callsRunning > 0 || isDelivering
        let threads = services + workers.values
        (workers, services) = ([:], [])
        let report = Report(stop: .closed, remaining: store.totals.queued, remainingFailed: store.totals.failed)
        poll?.close()
        workCondition.broadcast()
        eventCondition.broadcast()
        alarm.ring()
        quietCondition.broadcast()
        lock.unlock()
        for barrier in barriers { barrier() }
        for waiter in waiters { waiter.done(.success(report)) }
        // A thread that a callback keeps is not waited for; it ends when that returns.
        for (index, thread) in threads.enumerated() { stuck && index > 0 ? thread.detach() : thread.join() }
        // The first of them, the timer's, which is in no callback, slept on these.
        alarm.close()
        for index in releases.indices {
            releases[index]?()
            releases[index] = nil
        }
        return left
    }

    // MARK: After a crash

    /// Attempts that the last owner did not end: their outcome is unknown, their messages go back to their places.
    func recover() throws(QueueError) {
        let interrupted = try store.interrupted()
        guard !interrupted.isEmpty else { return }
        do throws(QueueError) {
            try transaction(durable: true) { () throws(QueueError) in
                for attempt in interrupted { try recover(attempt) }
            }
        } catch {
            // On a full disk the messages can be read; nothing is sent before this is written.
            guard error.isFull else { throw error }
            for attempt in interrupted {
                unsaved.append(
                    Fact(
                        sequence: attempt.sequence, isOutcome: true,
                        changes: [.recover(sequence: attempt.sequence, number: attempt.number, startedAt: attempt.startedAt)], notices: []))
            }
            storagePause(error)
        }
    }

    func recover(_ attempt: (sequence: Int64, number: UInt32, startedAt: Int64)) throws(QueueError) {
        let row: Row
        do throws(QueueError) {
            // The mark of an attempt carries no checksum: what was sent already was not being sent.
            guard let found = try store.row(at: attempt.sequence, .whole), StatusRule.allows(found.progress.status, .sending) else {
                return try store.forgetInterrupted(attempt.sequence)
            }
            row = found
        } catch {
            // One damaged message does not keep the others from being sent.
            guard error.code == .corrupt else { throw error }
            Log.error("\(store.path): \(error.detail)")
            try store.markDamaged(attempt.sequence)
            return try store.forgetInterrupted(attempt.sequence)
        }
        let resolution = OutcomeRule.recover(
            // The message carries a checksum, the mark of its attempt none.
            number: row.progress.attempts &+ 1, startedAt: max(attempt.startedAt, 0), of: row.progress,
            holdInterrupted: options.holdInterrupted,
            maxRetries: options.maxRetries)
        try store.end(row, resolution)
    }
}
