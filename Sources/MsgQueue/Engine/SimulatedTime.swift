/// Queues for tests, whose clock moves only with calls. They have no threads.
package enum SimulatedTime {
    /// The longest time in one call: 10 years.
    private static let longestAdvance: Int64 = 3_650 * Options.day

    /// Opens a queue whose clock begins at `start` (milliseconds since 1970; nil: now) and stands still until a call waits or advances it.
    /// All that is random in the queue follows from `seed`.
    package static func open(path: String, options given: Options, start: Int64?, seed: UInt64) throws(QueueError) -> Engine {
        if let start, !(1...DraftRule.lastTime).contains(start) {
            throw QueueError(
                .invalid, "start_ms must be 0 (now) or 1 to \(DraftRule.lastTime) (the end of the year 9999), got \(start)")
        }
        guard given.callbacks != .pollWithTimer else {
            throw QueueError(.invalid, "a queue with a simulated clock has no timer thread: callbacks must be POLL")
        }
        var options = given
        options.callbacks = .poll
        return try Engine.open(path: path, options: options, ports: SimulatedClock(start: start ?? Ports.system.wall(), seed: seed).ports)
    }

    /// Lets `time` milliseconds pass: stops at each moment at which something is due, performs it and runs the callbacks. Inside a callback
    /// only the clock moves, as it does during a call that takes long; with 0 nothing runs. Returns the wall clock's time at the end.
    package static func advance(_ engine: Engine, by time: Int64) throws(QueueError) -> Int64 {
        let context = engine.context
        try context.checkProcess()
        context.lock.lock()
        defer { context.lock.unlock() }
        guard context.phase == .open else { throw context.closedError }
        guard let clock = context.ports.simulated, let poll = engine.poll else {
            throw QueueError(.conflict, "the queue was not opened with a simulated clock")
        }
        guard (0...Self.longestAdvance).contains(time) else {
            throw QueueError(.invalid, "the time must be 0 to \(Self.longestAdvance) ms, got \(time)")
        }
        let end = clock.now.mono.addingClamped(time)
        guard time > 0, !engine.host.isInCallback else {
            clock.move(to: end)
            return clock.now.wall
        }
        while true {
            while engine.driver.runCallback() {}
            guard context.phase == .open else { throw context.closedError }
            guard poll.deadline <= end || clock.now.mono < end else { break }
            engine.timer.attend(until: end)
        }
        return clock.now.wall
    }
}
