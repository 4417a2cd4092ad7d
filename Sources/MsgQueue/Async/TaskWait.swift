/// The wait of one task for an answer of the engine. The answer or the cancellation of the task ends it, whichever comes first.
final class TaskWait<Answer: Sendable>: @unchecked Sendable {
    private let lock = Mutex()
    private var continuation: CheckedContinuation<Answer?, Never>?
    private var ending: Answer??

    /// Returns the answer; nil: the task was cancelled, or `abandon` was called.
    func value() async -> Answer? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { begin($0) }
        } onCancel: {
            abandon()
        }
    }

    func end(_ answer: Answer) { end(with: answer) }

    /// Ends the wait without an answer.
    func abandon() { end(with: nil) }

    private func begin(_ continuation: CheckedContinuation<Answer?, Never>) {
        let early: Answer?? = lock.withLock {
            self.continuation = continuation
            return ending
        }
        if let early { continuation.resume(returning: early) }
    }

    private func end(with ending: Answer?) {
        let waiting: CheckedContinuation<Answer?, Never>? = lock.withLock {
            guard self.ending == nil else { return nil }
            self.ending = .some(ending)
            return continuation
        }
        waiting?.resume(returning: ending)
    }
}
