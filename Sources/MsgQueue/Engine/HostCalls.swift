/// Calls the host's functions with the engine's lock released.
final class HostCalls {
    private let context: EngineContext
    private let events: EventDelivery
    private let poll: PollHost?
    private let workers: WorkerPool
    /// The number of calls of the transport that have not returned.
    private(set) var transportCalls = 0

    init(_ context: EngineContext, _ events: EventDelivery, _ poll: PollHost?, _ workers: WorkerPool) {
        (self.context, self.events, self.poll, self.workers) = (context, events, poll, workers)
    }

    /// Whether this thread is inside a function of the host that the engine called.
    var isInCallback: Bool { ThreadContext.current.isInCallback(of: context) }

    /// Runs the host's code with the lock released.
    func call<T>(_ body: () -> T) -> T {
        let poll = context.phase == .closed ? nil : poll
        poll?.callbackBegan()
        context.lock.unlock()
        let value = ThreadContext.current.inCallback(of: context, body)
        guard context.isOwnProcess else {
            detachForkedChild()
            return value
        }
        context.lock.lockForEngine()
        poll?.callbackEnded()
        return value
    }

    /// Counts a call of the transport, including the handling of its outcome.
    func beginTransportCall() { transportCalls += 1 }

    func endTransportCall() {
        transportCalls -= 1
        if context.phase != .open { context.progressCondition.broadcast() }
    }

    /// Closes the queue in a forked child: the host's callback forked, and only this thread exists here. The file belongs to the parent;
    /// nothing is written.
    private func detachForkedChild() {
        Log.warning("\(context.store.path): a callback returned in a forked child; the queue cannot be used there")
        context.detachForkedChild()
        events.detachForkedChild()
        poll?.detachForkedChild()
        workers.detachForkedChild()
    }
}
