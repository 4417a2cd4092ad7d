/// The source of connectivity: the host or the kernel. Under the engine's lock.
final class NetworkWatch {
    private let context: EngineContext
    private let events: EventDelivery
    private let alarm: Alarm
    private(set) var monitor: NetworkMonitor?
    /// When the kernel is queried again after a failed query (monotonic).
    private var queryAt = Int64.max
    private var firstReport: FirstReport
    private var backoff = GrowingDelay(first: 250, longest: 8_000)

    init(_ context: EngineContext, _ events: EventDelivery, _ alarm: Alarm) {
        (self.context, self.events, self.alarm) = (context, events, alarm)
        firstReport = FirstReport(context.options, openedAt: context.core.opening.moment.mono)
    }

    /// When something is due (monotonic).
    var deadline: Int64 { min(queryAt, firstReport.deadline) }

    /// Warns that the first report of connectivity is overdue.
    func warnIfUnreported() {
        guard firstReport.isOverdue(at: context.ports.mono()) else { return }
        Log.warning("\(context.store.path): \(FirstReport.warning)")
    }

    /// Takes connectivity from the kernel; `network` is its present state.
    func start(_ new: NetworkMonitor, _ network: Network) throws(QueueError) {
        try alarm.watch(new.descriptor)
        monitor = new
        apply(network)
    }

    /// Stops the monitor; the last known state stays. A thread may be sleeping on the monitor's descriptor and keeps it until it wakes.
    func stop() {
        if let monitor { alarm.unwatch(monitor.descriptor) }
        monitor = nil
    }

    /// Sets the state that the host reports.
    func set(_ network: Network) throws(QueueError) {
        guard monitor == nil else { throw QueueError(.conflict, "the network monitor is running; stop it before setting connectivity") }
        var network = network
        network.offlineReason = network.isOnline ? "" : OfflineReason.text(network.offlineReason)
        apply(network)
    }

    /// Applies a state that the kernel reported. `source` may have been stopped meanwhile.
    func monitorReported(_ network: Network, from source: NetworkMonitor?) {
        guard let monitor, monitor === source else { return }
        apply(network)
    }

    /// Whether a failed query is due again. Called without the lock, on the thread that waits for the alarm, the only one that queries.
    func isDue(_ monitor: NetworkMonitor?) -> Bool {
        guard let monitor, monitor.isStale else { return false }
        return context.lock.withLock { context.ports.mono() >= queryAt }
    }

    /// Plans the next query after a failed one, at growing intervals.
    func planRetry() {
        guard let monitor, monitor.isStale else {
            queryAt = Int64.max
            backoff.reset()
            return
        }
        let now = context.ports.mono()
        guard queryAt == Int64.max || now >= queryAt else { return }
        queryAt = now + backoff.next()
    }

    private func apply(_ network: Network) {
        firstReport.reported()
        guard network != context.core.scheduler.gate.network else { return }
        let before = context.core.scheduler.gate.offlineReason
        context.core.scheduler.networkChanged(network, context.ports.moment)
        if let line = context.core.reasonChanged(from: before) { Log.write(line.level, "\(context.store.path): \(line.text)") }
        events.emit(.connectivity(network))
        events.countsChanged()
    }
}
