/// Whether the store takes writes, and when it is tried again. Under the engine's lock.
final class StoreHealth {
    private let context: EngineContext
    private let events: EventDelivery
    /// What the store did not do; nil: it is well.
    private(set) var trouble: QueueError?
    private var backoff = GrowingDelay(first: 250, longest: 60_000)

    init(_ context: EngineContext, _ events: EventDelivery) { (self.context, self.events) = (context, events) }

    /// The store did not take what the engine must write: nothing starts for a while, at growing distances, so that it never spins.
    func pause(_ error: QueueError) {
        context.core.scheduler.storageFailed(until: context.ports.mono() + backoff.next())
        report(error)
    }

    /// The store failed: reported once. (A caller whose request it refused is told by the error; sending goes on as long as it can.)
    func report(_ error: QueueError) {
        guard trouble?.code != error.code else { return }
        trouble = error
        Log.error("\(context.store.path): \(error)")
        events.emit(.storage(error))
    }

    /// A commit went well; if there was anything in it, the store is well.
    func committed() {
        guard trouble != nil, context.store.lastCommitWrote else { return }
        trouble = nil
        backoff.reset()
        context.core.scheduler.storageRecovered(context.ports.moment)
        Log.info("\(context.store.path): the store is well again")
        events.emit(.storage(nil))
    }
}
