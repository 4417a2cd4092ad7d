/// The threads that call the transport. Under the engine's lock.
final class WorkerPool: @unchecked Sendable {
    /// How long an attempt waits for a thread that comes back from its call, before it gets a new one.
    private static let patience: Int64 = 2
    /// How long a thread that has nothing to call stays, in milliseconds. One stays for ever.
    private static let idleTime: Int64 = 10_000
    private static let ceiling = 256

    private let context: EngineContext
    private let health: StoreHealth
    /// By number.
    private var threads: [Int: EngineThread] = [:]
    private var begun = 0
    private var idle = 0
    private var calling = 0
    /// Since when (monotonic) attempts wait to be started, and none was.
    private var startWaitsSince: Int64?
    private let condition = Condition()

    init(_ context: EngineContext, _ health: StoreHealth) { (self.context, self.health) = (context, health) }

    /// An attempt began, or none can.
    func noStartWaits() { startWaitsSince = nil }

    /// Finds a thread for the attempt that can start; until when to look again. `blocks`: a call of the transport keeps its thread until
    /// the answer is there.
    func findThread(_ driver: Driver, blocks: Bool) -> Int64 {
        let now = context.ports.mono()
        let since = startWaitsSince ?? now
        startWaitsSince = since
        if idle > 0 {
            condition.signal()
            return Int64.max
        }
        guard calling < context.options.maxInFlight + Scheduler.hungCeiling, threads.count < Self.ceiling else { return Int64.max }
        // A transport that answers later gives its thread back at once: no need of another.
        guard threads.isEmpty || blocks || now - since >= Self.patience else { return since + Self.patience }
        begun += 1
        let number = begun
        guard let thread = EngineThread("msgq-worker", { [self] in run(number, driver) }) else {
            health.report(QueueError(.storage, "the system has no thread left"))
            return now + 1_000
        }
        threads[number] = thread
        idle += 1
        startWaitsSince = now
        return now + Self.patience
    }

    private func run(_ number: Int, _ driver: Driver) {
        context.lock.lock()
        idle -= 1
        while context.phase != .closed {
            guard context.phase == .open, context.hasStart else {
                guard awaitWork() else { break }
                continue
            }
            guard var work = driver.startNext() else {
                // What came instead of a start (a drain's end, an expiry, a pause) has consequences, too.
                driver.settle()
                continue
            }
            calling += 1
            while true {
                // There may be more to start side by side.
                driver.settle()
                guard let next = driver.call(work) else { break }
                work = next
            }
            calling -= 1
            driver.settle()
        }
        // At the end of a queue the one who closes it waits for this thread.
        if context.phase == .open { threads.removeValue(forKey: number)?.detach() }
        context.lock.unlock()
    }

    /// False: nothing came for so long that this thread is not needed.
    private func awaitWork() -> Bool {
        idle += 1
        defer { idle -= 1 }
        guard threads.count > 1 else {
            condition.wait(context.lock)
            return true
        }
        let isInTime = condition.wait(context.lock, until: context.ports.mono().addingClamped(Self.idleTime))
        return isInTime || context.hasStart || context.phase != .open || threads.count == 1
    }

    /// The end of the queue: the threads, to be joined or detached.
    func close() -> [EngineThread] {
        defer { threads = [:] }
        condition.broadcast()
        return Array(threads.values)
    }

    /// In a forked child.
    func orphan() { condition.reset() }
}
