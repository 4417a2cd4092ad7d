extension MessageQueue {
    // MARK: Enqueueing in tasks

    /// Stores one message as `enqueue(_:)` does. The task is suspended until the message is on the disk, and blocks no thread meanwhile.
    ///
    /// `enqueue` blocks the calling thread until the disk has confirmed the write. In a task that is one of the few threads on which all
    /// tasks run. Messages that several tasks store at the same time share one write.
    ///
    /// The name differs from `enqueue` for a reason: in an asynchronous function Swift prefers asynchronous overloads, so that each
    /// `try queue.enqueue(…)` there would have to become `try await queue.enqueue(…)`.
    ///
    /// The cancellation of the task changes nothing: the message is stored.
    ///
    /// - Throws: As `enqueue`, and `.storage` if no thread can be created; then nothing is stored.
    @discardableResult
    public func enqueueWithoutBlocking(_ draft: Draft) async throws(Error) -> String {
        guard let id = try await enqueueWithoutBlocking([draft]).first else { throw Error(.internal, "enqueue returned no id") }
        return id
    }

    /// The same for a message whose body is a text, as UTF-8.
    @discardableResult
    public func enqueueWithoutBlocking(
        _ text: String, conversation: String = "", metadata: [String: String] = [:], id: String? = nil
    ) async throws(Error) -> String {
        try await enqueueWithoutBlocking(Draft(text, conversation: conversation, metadata: metadata, id: id))
    }

    /// Stores messages in this order, all or none, as `enqueue(_:)` does with an array. The task is suspended until they are on the disk.
    @discardableResult
    public func enqueueWithoutBlocking(_ drafts: [Draft]) async throws(Error) -> [String] {
        try engine.context.checkProcess()
        let result: Result<[String], Error> = await withCheckedContinuation { continuation in
            let call = EnqueueCall(drafts: drafts, engine: engine) { continuation.resume(returning: $0) }
            guard enqueueing.add(call) else {
                return continuation.resume(returning: .failure(Error(.storage, "failed to create a thread")))
            }
        }
        return try result.get()
    }
}

/// A call of a task, which waits for `end`.
struct EnqueueCall: Sendable {
    /// How many calls share a write at most: their bodies are lent to the engine at the same time.
    private static let mostAtOnce = 64

    let drafts: [MessageQueue.Draft]
    let engine: Engine
    let end: @Sendable (Result<[String], QueueError>) -> Void

    /// Performs the calls, which belong to one queue, in their order.
    static func perform(_ calls: [EnqueueCall]) {
        var left = calls[...]
        while !left.isEmpty {
            let round = left.prefix(mostAtOnce)
            left = left.dropFirst(mostAtOnce)
            do throws(QueueError) { try lend(round, []) { store(Array(round), $0) } } catch {
                for call in round { call.end(.failure(error)) }
            }
        }
    }

    /// Calls `body` with the drafts of all these calls for the engine.
    private static func lend(
        _ calls: ArraySlice<EnqueueCall>, _ lent: [DraftBatch], _ body: ([DraftBatch]) -> Void
    ) throws(QueueError) {
        guard let first = calls.first else { return body(lent) }
        let rest = calls.dropFirst()
        guard let draft = first.drafts.first, first.drafts.count == 1 else {
            return try MessageQueue.Draft.withBorrowed(first.drafts) { drafts throws(QueueError) in try lend(rest, lent + [drafts], body) }
        }
        try draft.withBorrowed { draft throws(QueueError) in try lend(rest, lent + [DraftBatch(draft)], body) }
    }

    private static func store(_ calls: [EnqueueCall], _ drafts: [DraftBatch]) {
        guard let engine = calls.first?.engine else { return }
        for (call, result) in zip(calls, engine.enqueue(drafts)) {
            do throws(QueueError) { call.end(.success(try result.get().ids())) } catch { call.end(.failure(error)) }
        }
    }
}
