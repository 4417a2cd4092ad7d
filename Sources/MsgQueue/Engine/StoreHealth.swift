/// Whether the store accepts writes, and when writes are retried. Under the engine's lock.
final class StoreHealth {
    private let context: EngineContext
    private let events: EventDelivery
    /// The last error; nil: the store works.
    private(set) var trouble: QueueError?
    private var backoff = GrowingDelay(first: 250, longest: 60_000)

    init(_ context: EngineContext, _ events: EventDelivery) { (self.context, self.events) = (context, events) }

    /// Pauses sending after a failed write of the engine, with growing delays, so that retries never spin.
    func pause(_ error: QueueError) {
        context.core.scheduler.storageFailed(until: context.ports.mono() + backoff.next())
        report(error)
    }

    /// Reports a failure of the store, once per code. (A caller whose request failed also receives the error. Sending continues as long as
    /// it can.)
    func report(_ error: QueueError) {
        guard trouble?.code != error.code else { return }
        trouble = error
        guard !context.store.hasEnded else { return }
        Log.error("\(context.store.path): \(error)")
        events.emit(.storage(error))
    }

    /// Ends the trouble after a commit that wrote something.
    func committed() {
        guard trouble != nil, context.store.lastCommitWrote else { return }
        trouble = nil
        backoff.reset()
        context.core.scheduler.storageRecovered(context.ports.moment)
        Log.info("\(context.store.path): the store accepts writes again")
        events.emit(.storage(nil))
    }
}
