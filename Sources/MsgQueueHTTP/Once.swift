import MsgQueue

/// A value that is set once, and a task that waits for it.
final class Once<Value: Sendable>: @unchecked Sendable {
    private let lock = Mutex()
    private var value: Value?
    private var waiter: CheckedContinuation<Value, Never>?

    /// Sets the value, if none is set.
    func set(_ value: Value) {
        let waiting: CheckedContinuation<Value, Never>? = lock.withLock {
            guard self.value == nil else { return nil }
            self.value = value
            defer { waiter = nil }
            return waiter
        }
        waiting?.resume(returning: value)
    }

    /// Waits for the value. Only one task may wait, once.
    func wait() async -> Value {
        await withCheckedContinuation { continuation in
            let known: Value? = lock.withLock {
                if value == nil { waiter = continuation }
                return value
            }
            if let known { continuation.resume(returning: known) }
        }
    }
}
