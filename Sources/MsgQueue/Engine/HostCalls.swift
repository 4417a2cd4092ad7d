/// Calls the host's functions, with the engine's lock given up meanwhile.
final class HostCalls {
    private let context: EngineContext
    private let events: EventDelivery
    private let poll: PollHost?
    private let workers: WorkerPool
    /// Calls of the transport that have not returned.
    private(set) var transportCalls = 0

    init(_ context: EngineContext, _ events: EventDelivery, _ poll: PollHost?, _ workers: WorkerPool) {
        (self.context, self.events, self.poll, self.workers) = (context, events, poll, workers)
    }

    /// This thread is inside a function of the host that the engine called.
    var isInCallback: Bool { ThreadContext.current.isInCallback(of: context) }

    /// Runs the host's code.
    func call<T>(_ body: () -> T) -> T {
        // What this thread is about to do is no work for another any more.
        if let poll, context.phase != .closed { poll.update() }
        context.lock.unlock()
        let value = ThreadContext.current.inCallback(of: context, body)
        guard context.isOwnProcess else {
            orphaned()
            return value
        }
        context.lock.lock()
        poll?.endQuiet()
        return value
    }

    /// A call of the transport begins; it includes what follows at once from its answer.
    func beginTransportCall() { transportCalls += 1 }

    func endTransportCall() {
        transportCalls -= 1
        context.quietCondition.broadcast()
    }

    /// The host's code forked, and this is the child, where only this thread goes on. The file is the parent's, and nothing is written.
    private func orphaned() {
        Log.warning("\(context.store.path): a callback returned in a forked child; the queue is not the child's")
        context.orphan()
        events.orphan()
        poll?.orphan()
        workers.orphan()
    }
}
