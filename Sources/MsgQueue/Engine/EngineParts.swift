/// The parts of an engine. Each part uses only those before it.
struct EngineParts {
    let context: EngineContext
    let events: EventDelivery
    let poll: PollHost?
    let timer: EngineTimer
    let network: NetworkWatch
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
        events = EventDelivery(context)
        let alarm = try Alarm()
        do throws(QueueError) { poll = context.options.polled ? try PollHost(context, events) : nil } catch {
            alarm.close()
            throw error
        }
        timer = EngineTimer(context, alarm)
        network = NetworkWatch(context, events)
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
