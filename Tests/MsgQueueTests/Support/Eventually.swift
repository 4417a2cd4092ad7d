@testable import MsgQueue

/// Waits until it is so; false when that takes too long.
func eventually(within seconds: Int = 30, _ condition: () throws -> Bool) async rethrows -> Bool {
    let deadline = ContinuousClock.now + .seconds(seconds)
    while true {
        if try condition() { return true }
        guard ContinuousClock.now < deadline else { return false }
        // How long between two looks does not matter: the outcome is the same.
        try? await Task.sleep(for: .milliseconds(2))
    }
}

/// Runs what blocks on a thread of its own, so that tasks are not starved of theirs.
func onThread<T: Sendable>(_ body: @escaping @Sendable () throws -> T) async throws -> T {
    try await withCheckedThrowingContinuation { continuation in
        guard let thread = EngineThread("test", { continuation.resume(with: Result { try body() }) }) else {
            continuation.resume(throwing: QueueError(.storage, "no thread for a test"))
            return
        }
        thread.detach()
    }
}
