/// Drains, and the callbacks of polled queues.
extension Engine {
    /// Requests a drain of one conversation or (nil) of all, with the failed messages if it includes them. `done` is called with its report
    /// after its events were delivered. A request joins a drain that includes it; otherwise its drain begins after the current one. If the
    /// timeout passes first, `done` is called with what was done until then.
    @discardableResult
    package func drain(
        _ conversation: String? = nil, batch: Int, timeout: Int64?, includesFailed: Bool = false,
        done: @escaping @Sendable (Result<Report, QueueError>) -> Void
    ) throws(QueueError) -> DrainWaiter {
        guard (0...Int(Int32.max)).contains(batch) else { throw QueueError(.invalid, "batch must be 0 to \(Int32.max), got \(batch)") }
        if let conversation { try DraftRule.check(conversation: conversation) }
        let name = conversation.map { Name($0) }
        return try changing { () throws(QueueError) in
            guard context.core.scheduler.gate.hasTransport else { throw QueueError(.noTransport, "no transport is set") }
            // A manual request tries the store at once instead of waiting for the next retry.
            if health.trouble != nil { context.core.scheduler.storageFailed(until: 0) }
            let now = context.ports.moment
            let waiter = DrainWaiter(deadline: timeout.map { now.mono.addingClamped(max($0, 0)) }, conversation: name, done: done)
            if drains.request(waiter, batch: batch, timeout: timeout, includesFailed: includesFailed, now) { driver.drainStarted() }
            return waiter
        }
    }

    /// Returns the report of a drain that was started and is not waited for.
    package func startedReport(_ conversation: String? = nil) throws(QueueError) -> Report {
        let counts = try counts(conversation)
        return Report(stop: .started, remaining: counts.queued + counts.sending, remainingFailed: counts.failed)
    }

    /// Requests a drain and waits for its report, at most until the timeout. Inside a callback it starts the drain and returns at once.
    package func drainAndWait(
        _ conversation: String? = nil, batch: Int, timeout: Int64?, includesFailed: Bool = false
    ) throws(QueueError) -> Report {
        if host.isInCallback {
            try drain(conversation, batch: batch, timeout: timeout, includesFailed: includesFailed) { _ in }
            return try startedReport(conversation)
        }
        let answer = Drains.Answer()
        let waiter = try drain(conversation, batch: batch, timeout: timeout, includesFailed: includesFailed) { [context] result in
            context.lock.withLock { answer.result = result }
            context.progressCondition.broadcast()
        }
        context.lock.lock()
        poll?.waitBegan()
        defer {
            poll?.waitEnded()
            context.lock.unlock()
        }
        return try drains.wait(
            for: answer, waiter, poll, runDue: driver.runDueHere, hasBegun: { driver.hasBegun }, runOne: driver.runCallback)
    }

    // MARK: Polling

    package func pollDescriptor() throws(QueueError) -> Int32 {
        try context.checkProcess()
        return context.lock.withLock { context.phase == .closed && poll?.awaitsCloseCallback != true ? -1 : poll?.descriptor ?? -1 }
    }

    /// Runs the pending callbacks on this thread, and waits for one if there is none. Returns how many ran.
    package func runCallbacks(timeout: Int64?) throws(QueueError) -> Int {
        try context.checkProcess()
        context.lock.lock()
        defer { context.lock.unlock() }
        return try driver.runCallbacks(timeout: timeout)
    }
}
