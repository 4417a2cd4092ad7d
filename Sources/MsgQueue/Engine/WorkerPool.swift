/// The worker threads, which call the transport. Under the engine's lock.
final class WorkerPool: @unchecked Sendable {
    /// After this time it is checked whether a thread has taken the work, in milliseconds.
    private static let handoverTime: Int64 = 2
    /// How long work waits for a thread that is busy in the engine, in milliseconds.
    private static let busyTime: Int64 = 100
    /// How long an idle thread is kept, in milliseconds. One is always kept.
    private static let idleTime: Int64 = 10_000
    private static let ceiling = 256

    private let context: EngineContext
    private let health: StoreHealth
    private let calls: CallQueue
    /// Keyed by number.
    private var threads: [Int: EngineThread] = [:]
    private var threadsStarted = 0
    /// Threads that wait for work.
    private var idle = 0
    /// Threads that were woken or created and do not have the lock yet.
    private var waking = 0
    private var calling = 0
    /// Since when work has waited for a thread (monotonic), and how many calls had been taken then; nil: none waits.
    private var workWaits: (since: Int64, taken: Int)?
    private let condition = Condition()

    init(_ context: EngineContext, _ health: StoreHealth, _ calls: CallQueue) {
        (self.context, self.health, self.calls) = (context, health, calls)
    }

    /// Wakes or creates a thread if there is work for one: an attempt that can begin, a call, or an outcome. Returns when to call again
    /// (monotonic).
    func provideThread(_ driver: Driver) -> Int64 {
        context.lock.assertHeld()
        let state = calls.state
        guard context.hasStart || state.hasWork else {
            workWaits = nil
            return Int64.max
        }
        let now = context.ports.mono()
        if workWaits?.taken != state.taken { workWaits = (now, state.taken) }
        let waited = now - (workWaits?.since ?? now)
        let busy = threads.count - idle - state.underWay
        // A thread that is in the engine, or returns from its call soon, takes the work.
        if busy > 0, waited < Self.busyTime { return now + Self.handoverTime }
        if state.underWay > 0, waited < state.patience { return now + state.patience - waited }
        workWaits?.since = now
        if idle > 0 {
            (idle, waking) = (idle - 1, waking + 1)
            condition.signal()
            return now + Self.handoverTime
        }
        guard calling < context.core.scheduler.flights.mostSlots + Flights.hungCeiling, threads.count < Self.ceiling else {
            return Int64.max
        }
        threadsStarted += 1
        let number = threadsStarted
        guard let thread = EngineThread("msgq-worker", { [self] in run(number, driver) }) else {
            let error = QueueError(.storage, "failed to create a thread")
            guard context.hasStart, threads.isEmpty else {
                health.report(error)
                return now + 1_000
            }
            // Nothing can be sent: the next step ends the drains and says so.
            health.pause(error)
            return now
        }
        threads[number] = thread
        waking += 1
        return now + Self.handoverTime
    }

    private func run(_ number: Int, _ driver: Driver) {
        context.lock.lockForEngine()
        waking -= 1
        while context.phase != .closed {
            guard context.phase == .open && context.hasStart || calls.state.hasWork else {
                guard awaitWork() else { break }
                continue
            }
            calling += 1
            while let call = driver.nextCall() {
                // Others may begin or be made in parallel.
                driver.runDueSteps()
                driver.make(call)
            }
            calling -= 1
            driver.runDueSteps()
        }
        // While the queue closes, the closing thread joins this thread.
        if context.phase == .open { threads.removeValue(forKey: number)?.detach() }
        context.lock.unlock()
    }

    /// Returns false if the thread was idle for so long that it can end.
    private func awaitWork() -> Bool {
        idle += 1
        // A signal wakes any of the idle threads, and one of them may have reached its time at the same moment.
        defer { if waking > 0 { waking -= 1 } else { idle -= 1 } }
        guard threads.count > 1 else {
            context.lock.wait(condition)
            return true
        }
        let isInTime = context.lock.wait(condition, until: context.ports.mono().addingClamped(Self.idleTime))
        return isInTime || context.hasStart || calls.state.hasWork || context.phase != .open || threads.count == 1
    }

    /// Returns the threads when the queue is closed, to be joined or detached.
    func close() -> [EngineThread] {
        defer { threads = [:] }
        condition.broadcast()
        return Array(threads.values)
    }

    /// Resets condition and mutex in a forked child.
    func detachForkedChild() {
        condition.reset()
        calls.detachForkedChild()
    }
}
