/// The thread that performs what is due by time, and hears what the kernel says of clock and network. Under the engine's lock.
final class EngineTimer {
    private let context: EngineContext
    private let alarm: Alarm
    /// nil: it rang, and was not armed since.
    private var armed: Int64? = Int64.max

    init(_ context: EngineContext, _ alarm: Alarm) { (self.context, self.alarm) = (context, alarm) }

    /// Something is due at `deadline` (monotonic).
    func arm(_ deadline: Int64) {
        var deadline = deadline
        let soon = context.ports.mono().addingClamped(1)
        if deadline < soon {
            // The timer has its turn, but never in a busy loop; and it is not put off while it is about to have it.
            if let armed, armed <= soon { return }
            deadline = soon
        }
        guard deadline != armed else { return }
        armed = deadline
        alarm.arm(deadline)
    }

    /// Ends the thread's sleep, or its next one.
    func wake() { alarm.signal() }

    /// The thread: `step` does what is due.
    func run(_ network: NetworkWatch, _ step: () -> Void) {
        context.lock.lock()
        while context.phase != .closed {
            step()
            let monitor = network.monitor
            context.lock.unlock()
            let reason = alarm.sleep(network: monitor?.descriptor)
            let news = reason.contains(.network) || network.isDue(monitor) ? monitor?.readChange() : nil
            context.lock.lock()
            if reason.contains(.deadline) { armed = nil }
            network.plan()
            if reason.contains(.clockSet) { context.core.scheduler.clockSet(context.ports.moment) }
            if let news { network.heard(news, from: monitor) }
        }
        context.lock.unlock()
    }

    /// Only when the thread has ended.
    func close() { alarm.close() }
}
