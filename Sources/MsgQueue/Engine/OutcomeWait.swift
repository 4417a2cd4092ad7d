/// A caller's wait for the outcome of a message.
package struct OutcomeWait {
    private let engine: Engine

    package init(_ engine: Engine) { self.engine = engine }

    /// Waits until the message has an outcome, or nothing will send it now, or the time has run out. Throws inside a callback of the queue,
    /// where no call may wait: the outcome may need the thread, or come after the callback.
    package func wait(_ id: String, timeout: Int64?) throws(QueueError) -> Waiter.Ending {
        let waiter = Waiter(id, deadline: deadline(timeout))
        try begin(waiter)
        return try engine.waits.wait(for: waiter, engine.poll, engine.driver)
    }

    /// The same without a thread that waits. `done` is called once, after the events before the end were delivered.
    @discardableResult
    package func wait(
        _ id: String, timeout: Int64?, done: @escaping @Sendable (Result<Waiter.Ending, QueueError>) -> Void
    ) throws(QueueError) -> Waiter {
        let waiter = Waiter(id, deadline: deadline(timeout), done: done)
        try begin(waiter)
        return waiter
    }

    /// Ends a wait before its end; `done` is not called any more, unless that is on its way.
    package func stopWaiting(_ waiter: Waiter) { engine.context.lock.withLock { engine.waits.remove(waiter) } }

    private func deadline(_ timeout: Int64?) -> Int64? { timeout.map { engine.context.ports.mono().addingClamped(max($0, 0)) } }

    private func begin(_ waiter: Waiter) throws(QueueError) {
        try DraftRule.check(id: waiter.id)
        try engine.input { () throws(QueueError) in
            guard waiter.condition == nil || !engine.host.isInCallback else {
                throw QueueError(.conflict, "a callback cannot wait for the outcome of a message of its own queue")
            }
            if let message = try engine.reader.ending(of: waiter.id, isKnown: false, isTimeout: false) {
                return engine.driver.end(waiter, .success(Waiter.Ending(message: message)))
            }
            engine.waits.add(waiter)
        }
    }
}
