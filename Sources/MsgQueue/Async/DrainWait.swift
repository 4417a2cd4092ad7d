/// One task's wait for a drain: ended by the drain, or by the task's cancellation, whichever comes first.
final class DrainWait: @unchecked Sendable {
    enum Ending {
        case drained(Result<Report, QueueError>)
        /// The task was cancelled, or must not wait: the drain goes on.
        case abandoned
    }

    private let lock = Mutex()
    private var continuation: CheckedContinuation<Ending, Never>?
    private var ending: Ending?

    func begin(_ continuation: CheckedContinuation<Ending, Never>) {
        let early = lock.withLock {
            self.continuation = continuation
            return ending
        }
        if let early { continuation.resume(returning: early) }
    }

    func end(_ ending: Ending) {
        let waiting: CheckedContinuation<Ending, Never>? = lock.withLock {
            guard self.ending == nil else { return nil }
            self.ending = ending
            return continuation
        }
        waiting?.resume(returning: ending)
    }
}
