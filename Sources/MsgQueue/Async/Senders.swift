/// The tasks that run an async transport, one for each message that is being sent.
final class Senders: @unchecked Sendable {
    /// The attempts that this task works for. A task that a transport starts and leaves behind goes on knowing them.
    @TaskLocal private static var current: [Attempting] = []

    private let lock = Mutex()
    private var tasks: [Name: (token: UInt64, task: Task<Void, Never>)] = [:]
    private var isEnded = false

    /// Begins an attempt. A task of an earlier attempt of the message, which timed out, is cancelled: only the latest counts.
    func begin(_ delivery: Delivery, _ body: @escaping @Sendable () async -> Void) {
        let key = Name(delivery.id)
        let token = delivery.token
        let before: Task<Void, Never>? = lock.withLock {
            let task = Task {
                let attempt = Attempting(for: self)
                await Self.$current.withValue(Self.current + [attempt]) { await body() }
                attempt.end()
                ended(key, token)
            }
            if isEnded { task.cancel() }
            return tasks.updateValue((token, task), forKey: key)?.task
        }
        before?.cancel()
    }

    /// Whether this task works for an attempt that is under way.
    var isCurrent: Bool { Self.current.contains { $0.isUnderWay(for: self) } }

    private func ended(_ key: Name, _ token: UInt64) {
        lock.withLock { if tasks[key]?.token == token { tasks[key] = nil } }
    }

    /// The queue is closed: no answer counts any more.
    func cancel() {
        let left = lock.withLock {
            isEnded = true
            return tasks.values.map(\.task)
        }
        for task in left { task.cancel() }
    }
}

/// One call of a transport, for the tasks that it starts.
private final class Attempting: @unchecked Sendable {
    private let lock = Mutex()
    private var senders: Senders?

    init(for senders: Senders) { self.senders = senders }

    func end() { lock.withLock { senders = nil } }
    func isUnderWay(for other: Senders) -> Bool { lock.withLock { senders === other } }
}
