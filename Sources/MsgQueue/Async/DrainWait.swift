/// The wait of one task for a drain. The end of the drain or the cancellation of the task ends it, whichever comes first.
final class DrainWait: @unchecked Sendable {
    enum Ending {
        case drained(Result<Report, QueueError>)
        /// The task was cancelled, or must not wait. The drain continues.
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
