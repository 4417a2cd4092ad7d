/// One task's wait for a drain: ended by the drain, or by the task's cancellation, whichever comes first.
final class DrainWait: @unchecked Sendable {
    /// nil: the task was cancelled.
    typealias Ending = Result<Report, QueueError>?

    private let lock = Mutex()
    private var continuation: CheckedContinuation<Ending, Never>?
    private var early: Ending?
    private var isOver = false

    func begin(_ continuation: CheckedContinuation<Ending, Never>) {
        let ending: Ending? = lock.withLock {
            if isOver { return .some(early ?? nil) }
            self.continuation = continuation
            return nil
        }
        if let ending { continuation.resume(returning: ending) }
    }

    func end(_ ending: Ending) {
        let waiting = lock.withLock {
            guard !isOver else { return nil as CheckedContinuation<Ending, Never>? }
            isOver = true
            early = ending
            return continuation
        }
        waiting?.resume(returning: ending)
    }
}
