import Glibc

/// Calling the host: transports and event handlers, on the engine's threads or in `poll`.
extension Engine {
    /// Runs the host's code, with the lock given up meanwhile.
    func callingOut<T>(_ body: () -> T) -> T {
        // What this thread is about to do is no work for another any more.
        if let poll, phase != .closed { poll.update(hasWork: hasPollWork, ports.mono()) }
        lock.unlock()
        let value = ThreadContext.current.inCallback(of: self, body)
        guard getpid() == process else {
            orphaned()
            return value
        }
        lock.lock()
        poll?.endQuiet()
        return value
    }

    /// The host's code forked, and this is the child, where only this thread goes on. Whoever held the lock is not here to give it back,
    /// and the file is the parent's: for this process the queue is closed, and nothing is written.
    private func orphaned() {
        Log.warning("\(store.path): a callback returned in a forked child; the queue is not the child's")
        lock.reset()
        for condition in [workCondition, eventCondition, quietCondition] { condition.reset() }
        lock.lock()
        phase = .closed
        isOrphan = true
    }

    /// Why a queue that is not open any more is not.
    var ending: QueueError {
        isOrphan ? forked : QueueError(.closed, "the queue is closed")
    }

    // MARK: Transports

    /// Makes one attempt, with the lock given up meanwhile, and starts the next one in the same commit as its end.
    func call(_ work: Work, thenNext: Bool = true) -> Work? {
        callsRunning += 1
        let outcome = callingOut { work.transport.function(work.delivery) }
        work.transport.blocks = outcome.verdict != .pending
        returned(work.start.flight, outcome)
        let release = work.transport.leave()
        let next = thenNext ? startNext() : nil
        if next == nil { commitFacts() }
        if let release { callingOut(release) }
        callsRunning -= 1
        quietCondition.broadcast()
        return next
    }

    /// The transport's call came back.
    private func returned(_ flight: Flight, _ outcome: Outcome) {
        guard phase != .closed else { return }
        let isAnswered = core.open(flight.token) == nil
        core.scheduler.callReturned(flight.token, ports.moment)
        guard outcome.verdict != .pending else { return }
        if !isAnswered {
            end(flight, outcome)
        } else if core.lateFlight(flight.token) != nil {
            // It hung beyond its time; a success still counts, when nothing came after it.
            do throws(QueueError) { try answerLate(flight.token, outcome) } catch {
                Log.warning("\(store.path): ignored a late outcome for message \(flight.sequence): \(error.detail)")
            }
        }
    }

    /// The answer to an attempt that the transport left pending.
    package func complete(_ token: UInt64, _ outcome: Outcome) throws(QueueError) {
        guard outcome.verdict != .pending else { throw QueueError(.invalid, "an answer is not pending") }
        try checkProcess()
        lock.lock()
        defer { lock.unlock() }
        // While closing, answers are what is waited for.
        guard phase != .closed else { throw ending }
        defer { settle() }
        guard core.hasMade(token) else { throw QueueError(.notFound, "there is no attempt \(token)") }
        if let flight = core.open(token) {
            end(flight, outcome)
            commitFacts()
        } else {
            try answerLate(token, outcome)
        }
    }

    /// An answer after the time-out.
    private func answerLate(_ token: UInt64, _ outcome: Outcome) throws(QueueError) {
        let now = ports.moment
        guard let flight = core.lateFlight(token) else { throw QueueError(.conflict, "attempt \(token) was answered already") }
        guard let row = try store.row(at: flight.sequence, .whole), let progress = core.lateSuccess(token, outcome, row, now) else {
            throw QueueError(.conflict, "the attempt had timed out, and its message has gone on")
        }
        if store.isInTransaction { commitFacts() }
        try committing(1) { () throws(QueueError) in
            try transaction(durable: options.durableOutcomes) { () throws(QueueError) in try store.update(row, to: progress) }
        }
        perform(core.answeredLate(token, row, now))
    }

    // MARK: Events

    func runEvents() {
        lock.lock()
        while phase != .closed {
            if !deliverOne() { eventCondition.wait(lock) }
        }
        lock.unlock()
    }

    /// Tells one event, with the lock given up meanwhile; false: there is none, or another thread is telling one.
    func deliverOne() -> Bool {
        guard !isDelivering else { return false }
        var item = events.popFirst()
        if item == nil, events.summaryIsDue, handler != nil {
            events.summaryIsDue = false
            item = .event(.summary(counts, core.scheduler.network), at: ports.wall())
        }
        guard let item else { return false }
        isDelivering = true
        switch item {
        case .barrier(let action): callingOut(action)
        case .event(let event, let at):
            guard let handler else { break }
            handler.enter()
            callingOut { handler.function(event, at) }
            if let release = handler.leave() { callingOut(release) }
        }
        isDelivering = false
        quietCondition.broadcast()
        return true
    }

    // MARK: Registering

    package func setTransport(_ new: Registration<TransportFunction>?) throws(QueueError) {
        var release: (@Sendable () -> Void)?
        do throws(QueueError) {
            try changing { () throws(QueueError) in
                release = transport?.retire()
                transport = new
                core.scheduler.transportChanged(present: new != nil, ports.moment)
            }
        } catch {
            new?.retire()?()
            throw error
        }
        release?()
    }

    package func setHandler(_ new: Registration<EventFunction>?) throws(QueueError) {
        var release: (@Sendable () -> Void)?
        do throws(QueueError) {
            try locked { () throws(QueueError) in
                release = handler?.retire()
                handler = new
                guard new != nil else { return }
                for notice in notices { emit(notice) }
                notices = []
            }
        } catch {
            new?.retire()?()
            throw error
        }
        release?()
    }
}
