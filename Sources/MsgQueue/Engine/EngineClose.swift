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
            // Another call is closing the queue: wait until it has. Without a thread this one goes on with it.
            while context.phase != .closed, poll?.closing?.step() != true {
                context.wait(
                    context.progressCondition, until: poll?.closing.map { min($0.wait.deadline, context.ports.mono() + 20) })
            }
            context.lock.unlock()
            throw context.closedError
        }
        let closing = Closing(self, timeout)
        closing.begin()
        let isComplete = closing.wait.wait()
        guard !context.isForkedChild else {
            context.lock.unlock()
            throw context.closedError
        }
        let (result, callbacks) = closing.finish(isComplete: isComplete)
        callbacks.runReleases()
        return result
    }

    /// Closes on a separate thread, or in `poll` if the queue has no threads. `done` is called once: on that thread or, if the queue is
    /// polled, in `poll`. The queue accepts no more calls when this returns. Allowed inside a callback; the close waits for that callback
    /// like for any other.
    package func closeAsync(timeout: Int64?, done: @escaping @Sendable (CloseResult) -> Void) throws(QueueError) {
        try context.checkProcess()
        context.lock.lock()
        defer { context.lock.unlock() }
        guard context.phase == .open else { throw context.closedError }
        let closing = Closing(self, timeout, done)
        if context.options.callbacks != .poll {
            // The new thread waits for the lock first, so nothing has changed if it cannot be created.
            guard let thread = EngineThread("msgq-close", closing.run) else { throw QueueError(.storage, "failed to create a thread") }
            thread.detach()
        }
        poll?.expectCloseCallback(of: closing)
        closing.begin()
    }
}
