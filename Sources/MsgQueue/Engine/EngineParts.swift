/// The parts of an engine. Each part uses only those before it.
struct EngineParts {
    let context: EngineContext
    let waits: Waits
    let events: EventDelivery
    let collection: CollectRequests
    let network: NetworkWatch
    let timer: EngineTimer
    let poll: PollHost?
    let health: StoreHealth
    let calls: CallQueue
    let workers: WorkerPool
    let host: HostCalls
    let drains: Drains
    let maintenance: Maintenance
    let transactions: Transactions
    let writes: PendingWrites
    let attempts: AttemptRunner

    init(_ context: EngineContext) throws(QueueError) {
        self.context = context
        waits = Waits(context)
        events = EventDelivery(context, waits)
        collection = CollectRequests(context, events)
        let alarm = try Alarm(context.ports)
        network = NetworkWatch(context, events, alarm)
        timer = EngineTimer(context, network, alarm)
        do throws(QueueError) { poll = context.options.callbacks == .threads ? nil : try PollHost(context, events, timer) } catch {
            timer.close()
            throw error
        }
        health = StoreHealth(context, events)
        calls = CallQueue(mono: context.ports.mono)
        workers = WorkerPool(context, health, calls)
        host = HostCalls(context, events, poll, workers)
        drains = Drains(context, events, health)
        maintenance = Maintenance(context, events, health)
        transactions = Transactions(context, health, maintenance)
        writes = PendingWrites(context, events, health, maintenance, drains, transactions, calls)
        attempts = AttemptRunner(context, health, calls, host, transactions, writes)
    }
}
