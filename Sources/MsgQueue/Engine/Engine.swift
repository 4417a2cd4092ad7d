import Glibc

/// A queue as callers see it. It owns the store, the core (who decides), and the parts that perform what the core says and call the host
/// with no lock held.
///
/// One lock guards all of them. Every function enters by one of three doors: `reading` sees, `input` tells the core something, `changing`
/// also changes the store, or sends.
package final class Engine: @unchecked Sendable {
    let context: EngineContext
    let events: EventDelivery
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
    let driver: Driver
    let backups: Backups
    let insertion: Insertion
    let changes: Changes
    let reader: QueueReader
    /// The threads of timer and events.
    private var services: [EngineThread] = []

    package init(path: String, options: Options, ports: Ports = .system) throws(QueueError) {
        try options.validate()
        Log.prepare()
        ThreadContext.prepare()
        let idBits = RandomBits(seed: ports.random())
        let core = Core(
            options, Opening(boot: ports.boot(), moment: ports.moment),
            firstToken: (UInt64(truncatingIfNeeded: ports.random()) & 0x7fff_ffff) << 32 | 1, openedAt: ports.wall())
        context = EngineContext(options, ports, try Store(path: path, options: options), core)
        let parts: EngineParts
        do throws(QueueError) { parts = try EngineParts(context) } catch {
            context.store.close(clean: false)
            throw error
        }
        (events, poll, host, workers, timer) = (parts.events, parts.poll, parts.host, parts.workers, parts.timer)
        (network, health, maintenance, drains) = (parts.network, parts.health, parts.maintenance, parts.drains)
        (transactions, writes, driver) = (parts.transactions, parts.writes, Driver(parts))
        (backups, insertion) = (Backups(context.store), Insertion(parts, idBits))
        (changes, reader) = (Changes(parts), QueueReader(parts))
        do throws(QueueError) {
            try begin()
            try startServices()
        } catch {
            stopServices()
            context.store.close(clean: false)
            throw error
        }
    }

    /// Opens the store. What looks like damage is looked at twice: SQLite answers some reads that failed as if they had shown damage.
    package static func open(path: String, options: Options) throws(QueueError) -> Engine {
        do throws(QueueError) { return try Engine(path: path, options: options) } catch {
            // Nothing was asked for but to open: what a flush that failed left open, the next opening finds.
            guard error.code != .unknown else { throw QueueError(.storage, error.detail, isFull: error.isFull) }
            guard error.code == .corrupt else { throw error }
            return try Engine(path: path, options: options)
        }
    }

    /// Takes over what the last owner left.
    private func begin() throws(QueueError) {
        let store = context.store
        for text in [store.loss?.text, store.repair].compactMap({ $0 }) {
            Log.warning("\(store.path): \(text)")
            events.emit(.storage(QueueError(.corrupt, text)))
        }
        try writes.recover()
        if let hold = store.hold {
            let due = Due(at: hold.until, delay: hold.delay, boot: hold.boot, uptime: hold.uptime)
            context.core.scheduler.limit(until: due.end(context.core.opening), context.core.opening.moment)
        }
        try maintenance.findExpiry()
        guard context.options.finalFailure == .block else { return }
        for conversation in try store.conversationsWithFailures() { writes.refreshBlock(conversation) }
    }

    // MARK: Threads

    private func startServices() throws(QueueError) {
        try startService("msgq-timer") { [driver] in driver.runTimer() }
        if poll == nil { try startService("msgq-events") { [driver] in driver.runEvents() } }
    }

    private func startService(_ name: String, _ body: @escaping @Sendable () -> Void) throws(QueueError) {
        guard let thread = EngineThread(name, body) else { throw QueueError(.storage, "the system has no thread left") }
        services.append(thread)
    }

    /// Ends timer and event threads of a queue that could not be opened.
    private func stopServices() {
        context.lock.withLock { context.phase = .closed }
        timer.wake()
        _ = events.close()
        for thread in services { thread.join() }
        services = []
        timer.close()
        poll?.close()
    }

    /// At the end of the queue: all threads, the timer's first.
    func takeThreads() -> [EngineThread] {
        defer { services = [] }
        return services + workers.close()
    }

    // MARK: Doors

    /// For what only looks: no step of the core is performed, and nothing is written or committed. What was recorded and is not committed
    /// yet shows as being sent.
    func reading<T>(_ body: () throws(QueueError) -> T) throws(QueueError) -> T {
        // Damage that was found is told.
        try entering(body) { driver.wake() }
    }

    /// For what happens: the core goes on from there.
    func input<T>(_ body: () throws(QueueError) -> T) throws(QueueError) -> T {
        try entering(body) { driver.settle() }
    }

    /// For what changes the store, or sends.
    func changing<T>(_ body: () throws(QueueError) -> T) throws(QueueError) -> T {
        try input { () throws(QueueError) in
            try context.checkWritable()
            return try body()
        }
    }

    /// Runs `body` under the lock, unless the queue is closed, and `leave` after it.
    private func entering<T>(_ body: () throws(QueueError) -> T, leave: () -> Void) throws(QueueError) -> T {
        try context.checkProcess()
        context.lock.lock()
        defer { context.lock.unlock() }
        guard context.phase == .open else { throw context.ending }
        defer { leave() }
        do throws(QueueError) { return try body() } catch {
            // A page that could not be read once is no damage. (What a call changes, it changes last.)
            guard error.code == .corrupt else { throw error }
            context.store.dropPageCache()
            return try body()
        }
    }

    // MARK: The host's functions

    package func setTransport(_ new: Registration<TransportFunction>?) throws(QueueError) {
        try register(new) { () throws(QueueError) in try changing { () throws(QueueError) in driver.setTransport(new) } }
    }

    package func setHandler(_ new: Registration<EventFunction>?) throws(QueueError) {
        try register(new) { () throws(QueueError) in try input { () throws(QueueError) in events.setHandler(new) } }
    }

    /// `replace` gives the release of the one before, when it is due now.
    private func register<Function>(
        _ new: Registration<Function>?, _ replace: () throws(QueueError) -> (@Sendable () -> Void)?
    ) throws(QueueError) {
        let release: (@Sendable () -> Void)?
        do throws(QueueError) { release = try replace() } catch {
            new?.retire()?()
            throw error
        }
        release?()
    }

    // MARK: Stores that no queue has open

    package static func check(_ path: String) throws(QueueError) -> CheckReport {
        Log.prepare()
        return try StoreCheck.run(path)
    }

    package static func salvage(from source: String, to target: String) throws(QueueError) -> CheckReport {
        Log.prepare()
        return try StoreSalvage.run(from: source, to: target)
    }
}
