/// Asks the host to take over what waits in its own places: when somebody requests it, and at intervals. Under the engine's lock.
final class CollectRequests {
    private let context: EngineContext
    private let events: EventDelivery
    private var timer: CollectTimer

    init(_ context: EngineContext, _ events: EventDelivery) {
        (self.context, self.events, timer) = (context, events, CollectTimer(context.options))
    }

    /// When the host is asked next (monotonic).
    var deadline: Int64 { timer.deadline }

    /// The host has looked at what was handed over.
    func looked() { timer.looked(at: context.ports.mono()) }

    func request() { events.emit(.collect) }

    /// Asks at the interval.
    func requestIfDue() {
        guard context.phase == .open, timer.isDue(at: context.ports.mono()) else { return }
        request()
    }
}
