import Glibc

/// The engine of one queue, as callers see it. It owns the store, the core, which decides, and the parts, which perform the core's
/// decisions and call the host with no lock held.
///
/// One lock guards all of them. A call enters by one of three functions: `reading` only reads, `input` passes an input to the core,
/// `changing` also changes the store or sends.
package final class Engine: @unchecked Sendable {
    /// How long what is due is left to the threads that poll, before other calls perform it, in milliseconds.
    private static let catchUpInterval: Int64 = 100

    let context: EngineContext
    let events: EventDelivery
    let collection: CollectRequests
    let poll: PollHost?
    let host: HostCalls
    let workers: WorkerPool
    let timer: EngineTimer
    let network: NetworkWatch
    let health: StoreHealth
    let maintenance: Maintenance
    let drains: Drains
    let transactions: Transactions
    let writes: PendingWrites
    let attempts: AttemptRunner
    let outcomes: OutcomeHandler
    let waits: Waits
    let driver: Driver
    let backups: Backups
    let insertion: Insertion
    let handOvers: HandOvers
    let recording: Recording
    let receipts: Receipts
    let changes: Changes
    let removals: Removals
    let reader: QueueReader
    /// The timer thread and the event thread.
    private var services: [EngineThread] = []
    /// The control socket.
    let attachment = Attachment()

    /// `disk`: in place of the file at `path`.
    package init(path: String, options given: Options, ports: Ports = .system, disk: SimulatedDisk? = nil) throws(QueueError) {
        try given.validate()
        let options = RetentionRule.effective(MaintenanceRule.effective(given))
        Log.prepare()
        ThreadContext.prepare()
        let idBits = RandomBits(seed: ports.random())
        let core = Core(
            options, Opening(boot: ports.boot(), moment: ports.moment, earliest: ports.earliest),
            firstToken: (UInt64(truncatingIfNeeded: ports.random()) & 0x7fff_ffff) << 32 | 1, openedAt: ports.wall())
        let (descriptors, store) = try EngineDescriptors.before(options.callbacks, ports) { () throws(QueueError) in
            if let disk { try Store(disk: disk, options: options) } else { try Store(path: path, options: options) }
        }
        context = EngineContext(options, ports, store, core)
        let parts = context.lock.withLock { [context] in EngineParts(context, descriptors) }
        (events, poll, host, workers, timer) = (parts.events, parts.poll, parts.host, parts.workers, parts.timer)
        (network, health, maintenance, drains) = (parts.network, parts.health, parts.maintenance, parts.drains)
        (transactions, writes, waits) = (parts.transactions, parts.writes, parts.waits)
        (collection, attempts, outcomes) = (parts.collection, parts.attempts, parts.outcomes)
        (backups, insertion) = (Backups(context.store), Insertion(parts, idBits))
        handOvers = HandOvers(parts, insertion, firstToken: ports.random())
        (recording, receipts) = (Recording(parts, RandomBits(seed: ports.random())), Receipts(parts))
        (changes, removals, reader) = (Changes(parts), Removals(parts), QueueReader(parts))
        driver = Driver(parts, reader)
        var hasBegun = false
        do throws(QueueError) {
            try context.lock.withLock { () throws(QueueError) in try begin() }
            hasBegun = true
            try startServices()
        } catch {
            stopServices()
            _ = context.lock.withLock { context.store.close(clean: hasBegun) }
            throw error
        }
    }

    /// Opens a queue. A store that seems damaged is opened a second time, because SQLite reports some failed reads as damage.
    package static func open(path: String, options: Options, ports: Ports = .system) throws(QueueError) -> Engine {
        do throws(QueueError) { return try Engine(path: path, options: options, ports: ports) } catch {
            // An open changes nothing for the caller, so a failed flush is an error of the store and not an unknown result.
            guard error.code != .unknown else { throw QueueError(.storage, error.detail, error.cause) }
            guard error.code == .corrupt else { throw error }
            return try Engine(path: path, options: options, ports: ports)
        }
    }

    /// Restores the state that the previous process left: interrupted attempts, a hold of the queue, the next expiry, blocked
    /// conversations.
    private func begin() throws(QueueError) {
        let store = context.store
        store.state.earliest = context.ports.earliest
        store.feed?.wall = context.ports.wall
        _ = maintenance.clock.observe()
        for text in [store.loss?.text, store.repair].compactMap({ $0 }) {
            Log.warning("\(store.path): \(text)")
            events.emit(.storage(QueueError(.corrupt, text)))
        }
        try InterruptedAttempts(store: store, writes: writes, transactions: transactions, health: health).end()
        if store.counts.totals.queued > 0 { context.core.scheduler.openedWithBacklog(context.core.opening.moment) }
        if let hold = store.state.hold {
            context.core.scheduler.hold(until: hold.end(context.core.opening), context.core.opening.moment)
        }
        try maintenance.findExpiry()
        try maintenance.findFreeSpace()
        context.core.scheduler.opened(
            through: store.state.lastSequence, hasPriorities: try store.queue.hasPriorities(), context.core.opening.moment)
        guard context.options.finalFailure == .block else { return }
        for conversation in try store.queue.conversationsWithFailures() { writes.refreshBlock(conversation) }
    }

    // MARK: Threads

    private func startServices() throws(QueueError) {
        // From here on several threads share the engine.
        context.store.guarded(by: context.lock)
        // Without a thread the first call performs what the opening left.
        guard context.options.callbacks != .poll else { return timer.arm(context.ports.mono()) }
        try startService("msgq-timer") { [driver] in driver.runTimer() }
        if poll == nil { try startService("msgq-events") { [driver] in driver.runEvents() } }
    }

    private func startService(_ name: String, _ body: @escaping @Sendable () -> Void) throws(QueueError) {
        guard let thread = EngineThread(name, body) else { throw QueueError(.storage, "failed to create a thread") }
        services.append(thread)
    }

    /// Ends the timer and event threads of a queue that could not be opened.
    private func stopServices() {
        context.lock.withLock { context.phase = .closed }
        timer.wake()
        _ = events.close()
        for thread in services { thread.join() }
        services = []
        timer.close()
        poll?.close()
    }

    /// Returns all threads for the close, the timer thread first.
    func takeThreads() -> [EngineThread] {
        defer { services = [] }
        return services + workers.close()
    }

    // MARK: Entering the engine

    /// Runs a call that only reads: it performs no step of the core and writes nothing. A message whose recorded outcome is not committed
    /// yet is reported as `sending`.
    func reading<T>(_ body: () throws(QueueError) -> T) throws(QueueError) -> T {
        // A read may have found damage, which is an event to deliver.
        try entering(body) { driver.wake() }
    }

    /// Runs a call that changes the core's state, then performs the steps that are due.
    func input<T>(_ body: () throws(QueueError) -> T) throws(QueueError) -> T {
        try entering(body) { driver.runDueSteps() }
    }

    /// Runs a call that changes the store or sends.
    func changing<T>(_ body: () throws(QueueError) -> T) throws(QueueError) -> T {
        try input { () throws(QueueError) in
            try context.checkWritable()
            return try body()
        }
    }

    /// Runs `body` under the lock, then `afterwards`. Throws if the queue is closed.
    private func entering<T>(_ body: () throws(QueueError) -> T, afterwards: () -> Void) throws(QueueError) -> T {
        try context.checkProcess()
        context.lock.lock()
        defer { context.lock.unlock() }
        catchUp()
        guard context.phase == .open else { throw context.closedError }
        defer { afterwards() }
        // This is safe because each call changes the store in its last step.
        return try context.store.readingTwice(body)
    }

    /// Throws in a forked child.
    package func checkProcess() throws(QueueError) { try context.checkProcess() }

    /// In a queue without threads: performs a part of what is overdue, because the host may poll seldom. Under the lock.
    func catchUp() { driver.runTimedHere(interval: Self.catchUpInterval) }

    /// Returns the longest time for which one thread held the engine's lock since the last call, in nanoseconds. For benchmarks: it is measured
    /// from the first call on.
    package func takeLongestHold() -> HoldTime { context.lock.takeLongestHold() }

    // MARK: The host's functions

    package func setTransport(_ new: Registration<Transport>?) throws(QueueError) {
        try register(new) { () throws(QueueError) in
            try new?.function.limits?.validate()
            return try changing { () throws(QueueError) in attempts.setTransport(new) }
        }
    }

    package func setHandler(_ new: Registration<EventFunction>?) throws(QueueError) {
        try register(new) { () throws(QueueError) in try input { () throws(QueueError) in events.setHandler(new) } }
    }

    /// Registers a function of the host. `replace` returns the release of the previous one, if it is due now.
    private func register<Function>(
        _ new: Registration<Function>?, _ replace: () throws(QueueError) -> (@Sendable () -> Void)?
    ) throws(QueueError) {
        let release: (@Sendable () -> Void)?
        do throws(QueueError) { release = try replace() } catch {
            self.release(new?.retire())
            throw error
        }
        self.release(release)
    }

    /// Runs a release function of the host on a caller's thread. It is a callback like others: `close` is refused in it.
    package func release(_ context: (@Sendable () -> Void)?) {
        guard let context else { return }
        ThreadContext.current.inCallback(of: self.context, context)
    }

    // MARK: Stores without an open queue

    package static func check(_ path: String) throws(QueueError) -> CheckReport {
        Log.prepare()
        return try StoreCheck.run(path)
    }

    package static func salvage(from source: String, to target: String) throws(QueueError) -> CheckReport {
        Log.prepare()
        return try StoreSalvage.run(from: source, to: target)
    }
}
