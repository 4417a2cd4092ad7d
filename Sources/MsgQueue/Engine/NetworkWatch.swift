/// Who says how the network is: the host, or the kernel. Under the engine's lock.
final class NetworkWatch {
    private let context: EngineContext
    private let events: EventDelivery
    private(set) var monitor: NetworkMonitor?
    /// When the kernel is asked again after it did not answer (monotonic).
    private(set) var deadline = Int64.max
    private var backoff = GrowingDelay(first: 250, longest: 8_000)

    init(_ context: EngineContext, _ events: EventDelivery) { (self.context, self.events) = (context, events) }

    /// From now on the kernel says it; `network` is how things are.
    func start(_ new: NetworkMonitor, _ network: Network) {
        monitor = new
        learned(network)
    }

    /// What was said last stays true. The timer thread may sleep on the monitor's descriptor, and keeps it until then.
    func stop() { monitor = nil }

    /// The host says it.
    func set(_ network: Network) throws(QueueError) {
        guard monitor == nil else { throw QueueError(.conflict, "the kernel is asked already: stop the monitor first") }
        learned(network)
    }

    /// The kernel answered; `source` may have been stopped meanwhile.
    func heard(_ network: Network, from source: NetworkMonitor?) {
        guard let monitor, monitor === source else { return }
        learned(network)
    }

    /// The kernel did not answer the last time, and has had its time. On the timer's thread, which alone asks, without the lock.
    func isDue(_ monitor: NetworkMonitor?) -> Bool {
        guard let monitor, monitor.isStale else { return false }
        return context.lock.withLock { context.ports.mono() >= deadline }
    }

    /// When to ask again, if the last question was not answered: at growing distances.
    func plan() {
        guard let monitor, monitor.isStale else {
            deadline = Int64.max
            backoff.reset()
            return
        }
        let now = context.ports.mono()
        guard deadline == Int64.max || now >= deadline else { return }
        deadline = now + backoff.next()
    }

    private func learned(_ network: Network) {
        guard network != context.core.scheduler.network else { return }
        context.core.scheduler.networkChanged(network, context.ports.moment)
        events.emit(.connectivity(network))
        events.countsChanged()
    }
}
