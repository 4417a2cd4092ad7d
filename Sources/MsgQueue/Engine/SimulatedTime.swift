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
        try run(engine, poll, clock) { end }
        return clock.now.wall
    }

    /// Runs what is due until `limit` (monotonic), which a callback may change. A queue over a store in memory may end before.
    fileprivate static func run(
        _ engine: Engine, _ poll: PollHost, _ clock: SimulatedClock, until limit: () -> Int64
    ) throws(QueueError) {
        let context = engine.context
        while true {
            while !context.store.isPoisoned, engine.driver.runCallback() {}
            guard context.phase == .open else { throw context.closedError }
            let end = limit()
            guard !context.store.isPoisoned, poll.deadline <= end || clock.now.mono < end else { return }
            engine.timer.attend(until: end)
        }
    }
}

/// A queue over a store in memory, as a simulated process runs it. Used by one thread.
package struct SimulatedProcess {
    package let engine: Engine
    private let poll: PollHost
    private let clock: SimulatedClock

    package init(_ given: Options, _ clock: SimulatedClock, _ disk: SimulatedDisk) throws(QueueError) {
        var (options, ports) = (given, clock.ports)
        options.callbacks = .poll
        ports.hasDescriptors = false
        engine = try Engine(path: "", options: options, ports: ports, disk: disk)
        guard let poll = engine.poll else { throw QueueError(.internal, "a simulated queue is not polled") }
        (self.poll, self.clock) = (poll, clock)
    }

    /// Runs what is due until `limit` (monotonic), which a callback may change, if nothing ends the process before.
    package func run(until limit: () -> Int64) throws(QueueError) {
        try engine.context.lock.withLock { () throws(QueueError) in try SimulatedTime.run(engine, poll, clock, until: limit) }
    }

    /// When a message or a drain has something due without a call (monotonic), apart from the care of the store; nil: never.
    package var nextDue: Int64? {
        engine.context.lock.withLock {
            let now = engine.context.ports.moment
            if poll.hasWork { return now.mono }
            let due = min(engine.driver.stepAt, engine.drains.deadline, engine.maintenance.expiryDeadline(now) ?? Int64.max)
            return due == Int64.max ? nil : due
        }
    }

    /// Passes every event to `observer` at once. It is called under the engine's lock: it must not call the engine.
    package func observe(_ observer: some EventObserver) { engine.context.lock.withLock { engine.events.observer = observer } }

    /// Ends the process now, as SIGKILL does: nothing more is written, and no caller gets an answer.
    package func kill() {
        engine.context.lock.withLock {
            engine.context.store.end()
            engine.context.phase = .closed
        }
    }

    /// Frees what a killed queue holds. None of its functions may be running.
    package func dispose() {
        kill()
        engine.context.lock.withLock {
            _ = (engine.outcomes.close(), engine.attempts.close(), engine.events.close(), engine.drains.close(), engine.waits.close())
            engine.network.stop()
            engine.backups.close()
            engine.context.store.close(clean: false)
            engine.timer.close()
            poll.close()
        }
    }
}
