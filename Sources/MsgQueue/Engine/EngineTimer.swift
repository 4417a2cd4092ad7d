/// The timer thread: it performs what is due at a time, and receives the kernel's messages about clock and network. Under the engine's
/// lock.
final class EngineTimer {
    private let context: EngineContext
    private let alarm: Alarm
    /// When the alarm rings (monotonic); nil: it has rung and was not armed again.
    private var armed: Int64? = Int64.max
    /// The thread waits for the alarm.
    private(set) var isAsleep = false

    init(_ context: EngineContext, _ alarm: Alarm) { (self.context, self.alarm) = (context, alarm) }

    /// Arms the alarm for `deadline` (monotonic).
    func arm(_ deadline: Int64) {
        var deadline = deadline
        let soon = context.ports.mono().addingClamped(1)
        if deadline < soon {
            // A deadline in the past still lets the thread sleep for 1 ms, so that it never spins; repeated calls do not postpone it.
            if let armed, armed <= soon { return }
            deadline = soon
        }
        guard deadline != armed else { return }
        armed = deadline
        alarm.arm(deadline)
    }

    /// Ends the thread's current or next sleep.
    func wake() { alarm.signal() }

    /// The body of the thread. `step` performs what is due.
    func run(_ network: NetworkWatch, _ step: () -> Void) {
        context.lock.lockForEngine()
        while context.phase != .closed {
            step()
            let monitor = network.monitor
            isAsleep = true
            context.lock.unlock()
            let reason = alarm.sleep(network: monitor?.descriptor)
            let news = reason.contains(.network) || network.isDue(monitor) ? monitor?.readChange() : nil
            context.lock.lockForEngine()
            isAsleep = false
            if reason.contains(.deadline) { armed = nil }
            network.planRetry()
            if reason.contains(.clockSet) { context.core.scheduler.clockSet(context.ports.moment) }
            if let news { network.monitorReported(news, from: monitor) }
        }
        context.lock.unlock()
    }

    /// Closes the alarm. Call only after the thread has ended.
    func close() { alarm.close() }
}
