import Glibc

/// Drains, and the host's threads that wait for them or run the callbacks.
extension Engine {
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
            guard context.core.scheduler.hasTransport else { throw QueueError(.noTransport, "no transport is set") }
            // A person who asks does not wait until the store is tried again.
            if health.trouble != nil { context.core.scheduler.storageFailed(until: 0) }
            let now = context.ports.moment
            let waiter = DrainWaiter(deadline: timeout.map { now.mono.addingClamped(max($0, 0)) }, conversation: name, done: done)
            if drains.request(waiter, batch: batch, timeout: timeout, now) { driver.drainStarted() }
            return waiter
        }
    }

    /// What is known of a drain that nobody waits for.
    package func startedReport(_ conversation: String? = nil) throws(QueueError) -> Report {
        let counts = try counts(conversation)
        return Report(stop: .started, remaining: counts.queued + counts.sending, remainingFailed: counts.failed)
    }

    /// As `drain`, but waits for it, at most until the timeout. From inside a callback it only starts the drain.
    package func drainAndWait(_ conversation: String? = nil, batch: Int, timeout: Int64?) throws(QueueError) -> Report {
        if host.isInCallback {
            try drain(conversation, batch: batch, timeout: timeout) { _ in }
            return try startedReport(conversation)
        }
        let answer = Drains.Answer()
        let waiter = try startDrain(conversation, batch: batch, timeout: timeout) { [context] result in
            context.lock.withLock { answer.result = result }
            context.quietCondition.broadcast()
        }
        context.lock.lock()
        poll?.drainerCame()
        defer {
            poll?.drainerLeft()
            context.lock.unlock()
        }
        return try drains.wait(for: answer, waiter, poll, runOne: runCallback)
    }

    // MARK: Polling

    /// One callback of a polled queue; false: there is none.
    private func runCallback() -> Bool { poll?.runLast(host) == true || driver.runOne() }

    package func pollDescriptor() throws(QueueError) -> Int32 {
        try context.checkProcess()
        return context.lock.withLock { context.phase == .closed && poll?.isLastCallAwaited != true ? -1 : poll?.descriptor ?? -1 }
    }

    /// Runs what waits, on this thread; with nothing, waits for it. How many callbacks ran.
    package func runCallbacks(timeout: Int64?) throws(QueueError) -> Int {
        try context.checkProcess()
        context.lock.lock()
        defer { context.lock.unlock() }
        if host.isInCallback {
            if let poll, poll.restInsideCallback() { driver.settle() }
            return 0
        }
        guard context.phase != .closed || poll?.isLastCallAwaited == true else { throw context.ending }
        guard let poll else { throw QueueError(.conflict, "the callbacks of this queue run on its own threads") }
        return try poll.run(timeout: timeout, runCallback)
    }
}
