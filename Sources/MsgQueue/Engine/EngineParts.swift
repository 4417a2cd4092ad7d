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

    init(_ context: EngineContext, _ descriptors: EngineDescriptors) {
        self.context = context
        waits = Waits(context)
        events = EventDelivery(context, waits)
        collection = CollectRequests(context, events)
        let network = NetworkWatch(context, events, descriptors.alarm)
        let timer = EngineTimer(context, network, descriptors.alarm)
        // The host decides how many callbacks run: each call of the transport is one.
        let calls = CallQueue(mono: context.ports.mono, chains: descriptors.poll == nil)
        poll = descriptors.poll.map { [events] in PollHost(context, events, calls, timer, $0) }
        (self.network, self.timer, self.calls) = (network, timer, calls)
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
