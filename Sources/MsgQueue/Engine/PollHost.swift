import CPlatform
import Glibc

/// A polled queue: a file descriptor for the host's event loop, and the host's threads that run callbacks in `poll`. Under the engine's
/// lock.
final class PollHost {
    /// The maximum number of callbacks in one `poll`, so that the host's loop can do other work.
    private static let batch = 64
    private static let suppressionTime: Int64 = 50

    /// An eventfd: readable while there is work.
    let descriptor: Int32
    private let context: EngineContext
    private let events: EventDelivery
    private var isReadable = false
    /// Not readable before this time (monotonic), because a loop inside a callback waits on it and cannot run callbacks.
    private var suppressedUntil: Int64 = 0
    /// The number of threads inside `poll`.
    private var pollers = 0
    /// The number of threads that wait for a drain; they run callbacks if no other thread polls.
    private var drainWaiters = 0
    private var lastPolledAt = Int64.min / 2
    private var lastPoller: pthread_t?
    private let condition = Condition()
    private(set) var awaitsCloseCallback = false
    private var closeCallback: (@Sendable () -> Void)?
    private var didRunCloseCallback = false

    init(_ context: EngineContext, _ events: EventDelivery) throws(QueueError) {
        (self.context, self.events) = (context, events)
        descriptor = platform_eventfd()
        guard descriptor >= 0 else { throw QueueError(.storage, "failed to create an eventfd: \(Posix.lastError())") }
    }

    var hasWork: Bool { context.phase != .closed && (context.hasStart || events.hasWork) }
    var isPolled: Bool { pollers > 0 }

    /// Whether another thread runs the callbacks: it is in `poll`, or was within the last 200 ms.
    var isPolledElsewhere: Bool { pollers > 0 || (lastPoller != pthread_self() && context.ports.mono() - lastPolledAt < 200) }

    /// When the descriptor may become readable again (monotonic); nil: now.
    var suppressionEnd: Int64? { suppressedUntil > context.ports.mono() ? suppressedUntil : nil }

    // MARK: The descriptor

    /// Makes the descriptor readable while there is work (level-triggered).
    func update() { update(hasWork: hasWork, context.ports.mono()) }

    private func update(hasWork: Bool, _ now: Int64) {
        let isWanted = hasWork && now >= suppressedUntil
        guard isWanted != isReadable else { return }
        isReadable = isWanted
        var value: UInt64 = 1
        // The counter is 0 or 1, so neither call can block or overflow.
        _ = isWanted ? write(descriptor, &value, 8) : read(descriptor, &value, 8)
    }

    func endSuppression() { suppressedUntil = 0 }

    /// Updates the descriptor and wakes threads that wait for work.
    func wake() {
        update()
        guard hasWork else { return }
        if pollers > 0 { condition.broadcast() }
        if drainWaiters > 0 { context.progressCondition.broadcast() }
    }

    // MARK: Callbacks on the host's threads

    /// Runs pending callbacks on this thread, and waits for one if there is none. Returns how many ran. `runOne` runs one callback and
    /// returns false if there is none.
    func run(timeout: Int64?, _ runOne: () -> Bool) throws(QueueError) -> Int {
        pollers += 1
        defer {
            pollers -= 1
            (lastPolledAt, lastPoller) = (context.ports.mono(), pthread_self())
        }
        let deadline = timeout.map { context.ports.mono().addingClamped($0) }
        var ran = 0
        while ran < Self.batch {
            if runOne() {
                ran += 1
                if didRunCloseCallback { break }
                continue
            }
            guard context.phase != .closed || awaitsCloseCallback else { throw context.closedError }
            if ran > 0 { break }
            if let deadline, context.ports.mono() >= deadline { break }
            context.lock.wait(condition, until: deadline)
        }
        return ran
    }

    /// Makes the descriptor unreadable for a short time, because an event loop inside a callback can run no callbacks and would spin on it.
    /// The time is short because other threads wait on the same descriptor. Returns true if the descriptor is suppressed from now on.
    func suppressInsideCallback() -> Bool {
        guard hasWork, context.ports.mono() >= suppressedUntil else { return false }
        // Another thread that the descriptor has just woken must still find it readable.
        context.lock.unlock()
        usleep(1_000)
        context.lock.lock()
        guard hasWork else { return false }
        let now = context.ports.mono()
        suppressedUntil = now + Self.suppressionTime
        update(hasWork: false, now)
        return true
    }

    func drainWaitBegan() { drainWaiters += 1 }
    func drainWaitEnded() { drainWaiters -= 1 }

    // MARK: Closing

    /// Announces the callback of an asynchronous close, which runs in `poll` after the store is closed. The descriptor stays open until
    /// then.
    func expectCloseCallback() { awaitsCloseCallback = true }

    func setCloseCallback(_ call: @escaping @Sendable () -> Void) {
        closeCallback = call
        endSuppression()
        update(hasWork: true, context.ports.mono())
        condition.broadcast()
        context.progressCondition.broadcast()
    }

    /// Runs the callback of the asynchronous close. Returns false if there is none yet.
    func runCloseCallback(_ host: HostCalls) -> Bool {
        guard let call = closeCallback else { return false }
        closeCallback = nil
        didRunCloseCallback = true
        host.call(call)
        guard !context.isForkedChild else { return true }
        awaitsCloseCallback = false
        close()
        context.progressCondition.broadcast()
        return true
    }

    func close() {
        Glibc.close(descriptor)
        condition.broadcast()
    }

    /// Resets the condition in a forked child.
    func detachForkedChild() { condition.reset() }
}
