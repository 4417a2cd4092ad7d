import CPlatform
import Glibc

/// A polled queue: a file descriptor for the host's event loop, and the host's threads that run the callbacks. Under the engine's lock.
final class PollHost {
    /// Callbacks that one `poll` runs at most before it lets the host's loop go on.
    private static let batch = 64
    private static let quietTime: Int64 = 50

    /// An eventfd: readable while there is work.
    let descriptor: Int32
    private let context: EngineContext
    private let events: EventDelivery
    private var isReadable = false
    /// Not readable before this time (monotonic): a loop inside a callback looks at it, and can run nothing.
    private var quietUntil: Int64 = 0
    /// Threads inside `poll`.
    private var pollers = 0
    /// Threads that wait for a drain, and run the callbacks when nobody polls.
    private var drainers = 0
    private var lastPolledAt = Int64.min / 2
    private var lastPoller: pthread_t?
    private let condition = Condition()
    private(set) var isLastCallAwaited = false
    private var lastCall: (@Sendable () -> Void)?
    private var isLastCallMade = false

    init(_ context: EngineContext, _ events: EventDelivery) throws(QueueError) {
        (self.context, self.events) = (context, events)
        descriptor = platform_eventfd()
        guard descriptor >= 0 else { throw QueueError(.storage, "no file descriptor left: \(Posix.lastError())") }
    }

    var hasWork: Bool { context.phase != .closed && (context.hasStart || events.hasWork) }
    var isPolled: Bool { pollers > 0 }

    /// Whether another thread runs the callbacks: it is in `poll`, or was a moment ago and will be back.
    var isPolledElsewhere: Bool { pollers > 0 || (lastPoller != pthread_self() && context.ports.mono() - lastPolledAt < 200) }

    /// When the descriptor may be readable again; nil: now.
    var quietDeadline: Int64? { quietUntil > context.ports.mono() ? quietUntil : nil }

    // MARK: The descriptor

    /// Level-triggered: readable as long as there is work.
    func update() { update(hasWork: hasWork, context.ports.mono()) }

    private func update(hasWork: Bool, _ now: Int64) {
        let isWanted = hasWork && now >= quietUntil
        guard isWanted != isReadable else { return }
        isReadable = isWanted
        var value: UInt64 = 1
        // Neither can fail for want of room: the counter is 0 or 1.
        _ = isWanted ? write(descriptor, &value, 8) : read(descriptor, &value, 8)
    }

    func endQuiet() { quietUntil = 0 }

    /// Updates the descriptor, and wakes who waits for work.
    func wake() {
        update()
        guard hasWork else { return }
        if pollers > 0 { condition.broadcast() }
        if drainers > 0 { context.quietCondition.broadcast() }
    }

    // MARK: Callbacks on the host's threads

    /// Runs what waits, on this thread; with nothing, waits for it. How many callbacks ran. `runOne` runs one; false: there is none.
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
                if isLastCallMade { break }
                continue
            }
            guard context.phase != .closed || isLastCallAwaited else { throw context.ending }
            if ran > 0 { break }
            if let deadline, context.ports.mono() >= deadline { break }
            condition.wait(context.lock, until: deadline)
        }
        return ran
    }

    /// A loop inside a callback can run nothing, and would spin for as long as the descriptor is readable. It is one for all threads, so
    /// that it is quiet for short times only: the others are woken between them. True: it is quiet from now on.
    func restInsideCallback() -> Bool {
        guard hasWork, context.ports.mono() >= quietUntil else { return false }
        // A thread that waits for the descriptor, and was woken by it just now, must still find it readable.
        context.lock.unlock()
        usleep(1_000)
        context.lock.lock()
        guard hasWork else { return false }
        let now = context.ports.mono()
        quietUntil = now + Self.quietTime
        update(hasWork: false, now)
        return true
    }

    func drainerCame() { drainers += 1 }
    func drainerLeft() { drainers -= 1 }

    // MARK: The end

    /// An asynchronous close: the host is called for the last time in `poll`, once the store is closed. Until then the descriptor lives.
    func awaitLastCall() { isLastCallAwaited = true }

    func makeLastCall(_ call: @escaping @Sendable () -> Void) {
        lastCall = call
        endQuiet()
        update(hasWork: true, context.ports.mono())
        condition.broadcast()
        context.quietCondition.broadcast()
    }

    /// Makes the last call. False: it is not there.
    func runLast(_ host: HostCalls) -> Bool {
        guard let call = lastCall else { return false }
        lastCall = nil
        isLastCallMade = true
        host.call(call)
        guard !context.isOrphan else { return true }
        isLastCallAwaited = false
        close()
        context.quietCondition.broadcast()
        return true
    }

    func close() {
        Glibc.close(descriptor)
        condition.broadcast()
    }

    /// In a forked child.
    func orphan() { condition.reset() }
}
