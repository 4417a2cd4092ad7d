extension MessageQueue {
    // MARK: Sending and waiting

    /// Stores one message as ``enqueue(_:)->String`` does, and waits for its outcome as ``wait(for:timeout:)`` does.
    ///
    /// Whatever ends the wait, also the cancellation of the task, a message that is stored will be sent like any other.
    ///
    /// - Parameters:
    ///   - draft: The message.
    ///   - timeout: After this time it returns the message as it is then; nil: no limit.
    /// - Returns: The message, which was sent, has failed, or is queued with an explanation.
    /// - Throws: As ``enqueue(_:)->String``, and `.conflict` (called by a transport): nothing was stored. `.closed`: the queue was closed while this
    ///   waited, or before.
    public func send(_ draft: Draft, timeout: Duration? = nil) async throws(Error) -> Message {
        try refuseWaitInTransport()
        return try await outcome(of: try enqueue(draft), timeout)
    }

    /// The same for a message whose body is a text, as UTF-8.
    public func send(
        _ text: String, conversation: String = "", metadata: [String: String] = [:], id: String? = nil, timeout: Duration? = nil
    ) async throws(Error) -> Message {
        try await send(Draft(text, conversation: conversation, metadata: metadata, id: id), timeout: timeout)
    }

    /// Waits for the first outcome of a message since it was enqueued, and returns the message as it is then.
    ///
    /// It returns at once when there was an outcome before, and when nothing will send the message now: it waits for the connection, for the
    /// end of a pause, for a time, for a transport, for a person, or behind a message that waits for one of these. While an attempt of the
    /// message is made, it waits for the outcome of that one. `sendNow`, `retry`, `retryAll` and a drain that includes
    /// failed messages begin a new wait for an outcome.
    ///
    /// The status says what happened: `.sent`, `.delivered` or `.read`; `.failed`, with ``Message/failure``; `.queued`, with
    /// ``Message/explanation`` and, if an attempt failed that will be repeated, its failure. A message that has left the store (discarded,
    /// replaced, deleted, or sent with ``Options/keepSent`` 0) has its outcome, too, if it was waited for at that time or is one of the last
    /// 4,096 messages that were sent or left the store in this process. Little else is known of it.
    ///
    /// - Parameters:
    ///   - id: The message.
    ///   - timeout: After this time, and when the task is cancelled, it returns the message as it is then: being sent, or about to be. nil: no
    ///     limit.
    /// - Throws: `.notFound` (also: it is gone and its outcome is not known), `.conflict` (called by a transport), `.corrupt`, `.closed`.
    public func wait(for id: String, timeout: Duration? = nil) async throws(Error) -> Message {
        try refuseWaitInTransport()
        return try await outcome(of: id, timeout)
    }

    private func refuseWaitInTransport() throws(Error) {
        if senders.isCurrent { throw Error(.conflict, "a transport cannot wait for the outcome of a message of its own queue") }
    }

    private func outcome(of id: String, _ timeout: Duration?) async throws(Error) -> Message {
        let wait = TaskWait<Result<Waiter.Ending, Error>>()
        let waiter = try OutcomeWait(engine).wait(id, timeout: timeout?.milliseconds) { wait.end($0) }
        guard let result = await wait.value() else {
            OutcomeWait(engine).stopWaiting(waiter)
            return Message(try OutcomeWait(engine).wait(id, timeout: 0).message)
        }
        return Message(try result.get().message)
    }
}
