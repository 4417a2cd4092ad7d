/// Performs blocking work of tasks on a thread of its own, because the few threads of the task pool must not block. The thread exists while
/// there is work.
final class OnDemandThread<Work: Sendable>: @unchecked Sendable {
    private let name: String
    private let perform: @Sendable ([Work]) -> Void
    private let lock = Mutex()
    private var waiting: [Work] = []
    private var isRunning = false

    /// `perform` is called with all the work that waits, in order.
    init(_ name: String, _ perform: @escaping @Sendable ([Work]) -> Void) { (self.name, self.perform) = (name, perform) }

    /// Returns false if the system cannot create the thread; then the work is not performed.
    func add(_ work: Work) -> Bool {
        lock.withLock {
            if !isRunning {
                guard let thread = EngineThread(name, run) else { return false }
                thread.detach()
                isRunning = true
            }
            waiting.append(work)
            return true
        }
    }

    @Sendable private func run() {
        while let work = next() { perform(work) }
    }

    /// Returns nil when there is no work; then the thread ends.
    private func next() -> [Work]? {
        lock.withLock {
            guard !waiting.isEmpty else {
                isRunning = false
                return nil
            }
            defer { waiting = [] }
            return waiting
        }
    }
}

extension OnDemandThread where Work == @Sendable () -> Void {
    /// Makes the call on the thread. Returns or throws what it does.
    func run<T: Sendable>(_ call: @escaping @Sendable () throws(QueueError) -> T) async throws(QueueError) -> T {
        let result: Result<T, QueueError> = await withCheckedContinuation { continuation in
            let hasThread = add {
                do throws(QueueError) { continuation.resume(returning: .success(try call())) } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
            if !hasThread { continuation.resume(returning: .failure(QueueError(.storage, "failed to create a thread"))) }
        }
        return try result.get()
    }
}
