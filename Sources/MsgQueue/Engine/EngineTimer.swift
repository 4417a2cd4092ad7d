/// The wait for what is due at a time, and for the kernel's messages about clock and network: on the timer thread, or in a queue without
/// threads on those of its host. Under the engine's lock.
final class EngineTimer {
    private let context: EngineContext
    private let network: NetworkWatch
    private let alarm: Alarm
    /// When the alarm rings (monotonic); nil: it has rung and was not armed again.
    private var armed: Int64? = Int64.max
    /// A thread waits for the alarm.
    private(set) var isAsleep = false
    private var isSignalled = false
    /// When the last wait ended (monotonic).
    private(set) var attendedAt = Int64.min / 2

    init(_ context: EngineContext, _ network: NetworkWatch, _ alarm: Alarm) {
        (self.context, self.network, self.alarm) = (context, network, alarm)
    }

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

    /// When something is due (monotonic).
    var deadline: Int64 { armed ?? Int64.min }

    /// Ends the wait of the thread that waits for the alarm.
    func wake() {
        guard isAsleep, !isSignalled else { return }
        isSignalled = true
        alarm.signal()
    }

    /// The body of the timer thread. `step` performs what is due.
    func run(_ step: () -> Void) {
        context.lock.lockForEngine()
        while context.phase != .closed {
            step()
            attend(until: nil)
        }
        context.lock.unlock()
    }

    /// Waits for the alarm with the lock released, at most until `end` (monotonic; nil: without end). One thread at a time.
    func attend(until end: Int64?) {
        let monitor = network.monitor
        let longest = end.map { $0.subtractingClamped(context.ports.mono()) }
        isAsleep = true
        context.lock.unlock()
        let reason = alarm.sleep(network: monitor?.descriptor, longest: longest)
        let news = reason.contains(.network) || network.isDue(monitor) ? monitor?.readChange() : nil
        context.lock.lockForEngine()
        (isAsleep, isSignalled, attendedAt) = (false, false, context.ports.mono())
        network.planRetry()
        if reason.contains(.clockSet) { context.core.scheduler.clockSet(context.ports.moment) }
        if let news { network.monitorReported(news, from: monitor) }
        // What was reported makes a step due.
        if !reason.isEmpty || news != nil { armed = nil }
        if context.phase != .open { context.progressCondition.broadcast() }
    }

    /// Closes the alarm. No thread may wait for it.
    func close() { alarm.close() }
}
