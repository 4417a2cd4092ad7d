/// The tasks that run an async transport, one for each message that is being sent.
final class Senders: @unchecked Sendable {
    /// The queues whose transports this task works for.
    @TaskLocal private static var current: Set<ObjectIdentifier> = []

    private let lock = Mutex()
    private var tasks: [Name: (token: UInt64, task: Task<Void, Never>)] = [:]
    private var isEnded = false

    /// Begins an attempt. A task of an earlier attempt of the message, which timed out, is cancelled: only the latest counts.
    func begin(_ delivery: Delivery, _ body: @escaping @Sendable () async -> Void) {
        let key = Name(delivery.id)
        let token = delivery.token
        let before: Task<Void, Never>? = lock.withLock {
            let task = Task {
                await Self.$current.withValue(Self.current.union([ObjectIdentifier(self)])) { await body() }
                ended(key, token)
            }
            if isEnded { task.cancel() }
            return tasks.updateValue((token, task), forKey: key)?.task
        }
        before?.cancel()
    }

    /// Whether this is the task of an attempt.
    var isCurrent: Bool { Self.current.contains(ObjectIdentifier(self)) }

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
