/// The worker threads, which call the transport. Under the engine's lock.
final class WorkerPool: @unchecked Sendable {
    /// How long an attempt waits for a thread to return from its call before another thread is created, in milliseconds.
    private static let handoverTime: Int64 = 2
    /// How long an idle thread is kept, in milliseconds. One is always kept.
    private static let idleTime: Int64 = 10_000
    private static let ceiling = 256

    private let context: EngineContext
    private let health: StoreHealth
    /// Keyed by number.
    private var threads: [Int: EngineThread] = [:]
    private var threadsStarted = 0
    private var idle = 0
    private var calling = 0
    /// Since when attempts have waited for a thread (monotonic); nil: none waits.
    private var startWaitsSince: Int64?
    private let condition = Condition()

    init(_ context: EngineContext, _ health: StoreHealth) { (self.context, self.health) = (context, health) }

    /// Called when an attempt began or none can begin.
    func clearStartWait() { startWaitsSince = nil }

    /// Wakes or creates a thread for an attempt that can begin. Returns when to call again (monotonic). `blocks`: a call of the transport
    /// keeps its thread until the outcome is known.
    func provideThread(_ driver: Driver, blocks: Bool) -> Int64 {
        let now = context.ports.mono()
        let since = startWaitsSince ?? now
        startWaitsSince = since
        if idle > 0 {
            condition.signal()
            return Int64.max
        }
        guard calling < context.options.maxInFlight + Scheduler.hungCeiling, threads.count < Self.ceiling else { return Int64.max }
        // A transport that leaves attempts pending returns at once, so the existing thread will do.
        guard threads.isEmpty || blocks || now - since >= Self.handoverTime else { return since + Self.handoverTime }
        threadsStarted += 1
        let number = threadsStarted
        guard let thread = EngineThread("msgq-worker", { [self] in run(number, driver) }) else {
            health.report(QueueError(.storage, "failed to create a thread"))
            return now + 1_000
        }
        threads[number] = thread
        idle += 1
        startWaitsSince = now
        return now + Self.handoverTime
    }

    private func run(_ number: Int, _ driver: Driver) {
        context.lock.lockForEngine()
        idle -= 1
        while context.phase != .closed {
            guard context.phase == .open, context.hasStart else {
                guard awaitWork() else { break }
                continue
            }
            guard var work = driver.startNext() else {
                // The step was not a start (the end of a drain, an expiry, a pause); others may follow from it.
                driver.runDueSteps()
                continue
            }
            calling += 1
            while true {
                // Other attempts may begin in parallel.
                driver.runDueSteps()
                guard let next = driver.callThenStartNext(work) else { break }
                work = next
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
        defer { idle -= 1 }
        guard threads.count > 1 else {
            context.lock.wait(condition)
            return true
        }
        let isInTime = context.lock.wait(condition, until: context.ports.mono().addingClamped(Self.idleTime))
        return isInTime || context.hasStart || context.phase != .open || threads.count == 1
    }

    /// Returns the threads when the queue is closed, to be joined or detached.
    func close() -> [EngineThread] {
        defer { threads = [:] }
        condition.broadcast()
        return Array(threads.values)
    }

    /// Resets the condition in a forked child.
    func detachForkedChild() { condition.reset() }
}
