@testable import MsgQueue

/// Waits until the condition is true; returns false when that takes too long.
func eventually(within seconds: Int = 30, _ condition: () throws -> Bool) async rethrows -> Bool {
    let deadline = ContinuousClock.now + .seconds(seconds)
    while true {
        if try condition() { return true }
        guard ContinuousClock.now < deadline else { return false }
        // The interval does not change the outcome.
        try? await Task.sleep(for: .milliseconds(2))
    }
}

/// Runs a blocking call on a new thread, so that it does not occupy a thread of the task pool.
func onThread<T: Sendable>(_ body: @escaping @Sendable () throws -> T) async throws -> T {
    try await withCheckedThrowingContinuation { continuation in
        guard let thread = EngineThread("test", { continuation.resume(with: Result { try body() }) }) else {
            continuation.resume(throwing: QueueError(.storage, "no thread for a test"))
            return
        }
        thread.detach()
    }
}
