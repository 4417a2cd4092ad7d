/// The tasks that run an async transport, one for each message or batch that is being sent.
final class Senders: @unchecked Sendable {
    /// The attempts for which the current task works. A task that the transport started keeps this value even after the attempt ended.
    @TaskLocal private static var current: [TaskAttempt] = []

    private let lock = Mutex()
    private var tasks: [Name: (token: UInt64, task: Task<Void, Never>)] = [:]
    private var isEnded = false

    /// Starts the task of an attempt, or of the attempts of a batch. Cancels the tasks of earlier attempts of the messages, which timed out.
    /// `transport` is what the host supplied. The task passes what it returned to `complete`, no longer as a part of the transport: a task
    /// that sees the outcome may close the queue.
    func begin<T: Sendable>(
        _ deliveries: [Delivery], _ transport: @escaping @Sendable () async -> T, complete: @escaping @Sendable (T) -> Void
    ) {
        let keys = deliveries.map { (Name($0.id), $0.token) }
        let before: [Task<Void, Never>] = lock.withLock {
            // It inherits nothing of the task that passed an outcome, on whose thread the engine may begin the next attempt.
            let task = Task.detached { [self] in
                let attempt = TaskAttempt(for: self)
                let result = await Self.$current.withValue(Self.current + [attempt]) { await transport() }
                attempt.end()
                complete(result)
                for (key, token) in keys { ended(key, token) }
            }
            if isEnded { task.cancel() }
            return keys.compactMap { key, token in tasks.updateValue((token, task), forKey: key)?.task }
        }
        for task in before { task.cancel() }
    }

    /// Whether the current task works for an attempt that has not ended.
    var isCurrent: Bool { Self.current.contains { $0.isRunning(for: self) } }

    private func ended(_ key: Name, _ token: UInt64) {
        lock.withLock { if tasks[key]?.token == token { tasks[key] = nil } }
    }

    /// Cancels all tasks, because the queue is closed and ignores their outcomes.
    func cancel() {
        let left = lock.withLock {
            isEnded = true
            return tasks.values.map(\.task)
        }
        for task in left { task.cancel() }
    }
}

/// One call of the transport, shared with the tasks that it starts.
private final class TaskAttempt: @unchecked Sendable {
    private let lock = Mutex()
    private var senders: Senders?

    init(for senders: Senders) { self.senders = senders }

    func end() { lock.withLock { senders = nil } }
    func isRunning(for other: Senders) -> Bool { lock.withLock { senders === other } }
}
