/// The parts of an engine. Each part uses only those before it.
struct EngineParts {
    let context: EngineContext
    let waits: Waits
    let events: EventDelivery
    let collection: CollectRequests
    let network: NetworkWatch
    let timer: EngineTimer
    let calls: CallQueue
    let poll: PollHost?
    let health: StoreHealth
    let workers: WorkerPool
    let host: HostCalls
    let drains: Drains
    let maintenance: Maintenance
    let transactions: Transactions
    let writes: PendingWrites
    let attempts: AttemptRunner
    let outcomes: OutcomeHandler

    init(_ context: EngineContext) throws(QueueError) {
        self.context = context
        waits = Waits(context)
        events = EventDelivery(context, waits)
        collection = CollectRequests(context, events)
        let alarm = try Alarm(context.ports)
        network = NetworkWatch(context, events, alarm)
        timer = EngineTimer(context, network, alarm)
        let isPolled = context.options.callbacks != .threads
        // The host decides how many callbacks run: each call of the transport is one.
        calls = CallQueue(mono: context.ports.mono, chains: !isPolled)
        do throws(QueueError) { poll = isPolled ? try PollHost(context, events, calls, timer) : nil } catch {
            timer.close()
            throw error
        }
        health = StoreHealth(context, events)
        workers = WorkerPool(context, health, calls)
        host = HostCalls(context, events, poll, workers)
        drains = Drains(context, events, health)
        maintenance = Maintenance(context, events, health)
        transactions = Transactions(context, health, maintenance)
        writes = PendingWrites(context, events, health, maintenance, drains, transactions, calls)
        attempts = AttemptRunner(context, health, calls, writes)
        outcomes = OutcomeHandler(context, calls, host, transactions, writes)
    }
}
