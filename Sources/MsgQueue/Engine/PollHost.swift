import Glibc

/// A polled queue: a file descriptor for the host's event loop, and the host's threads that run callbacks in `poll`. Under the engine's
/// lock.
///
/// Threads in `poll` search for work, run a callback, or wait. While there is work, whenever the lock is released,
/// - a thread searches, was woken for that, or does so within a millisecond, or
/// - none waits: each that is inside a callback searches after it, and the descriptor is readable.
///
/// So a thread that stops to search, because it runs a callback, waits or returns, wakes another one for the work that it leaves.
final class PollHost {
    /// The maximum number of callbacks in one `poll`, so that the host's loop can do other work.
    private static let batch = 64
    private static let suppressionTime: Int64 = 50
    /// How long a thread waits that has found no callback although there is work, in milliseconds.
    private static let retryTime: Int64 = 1

    private let descriptors: PollDescriptor
    /// What the host waits for.
    var descriptor: Int32 { descriptors.shown }
    private let context: EngineContext
    private let events: EventDelivery
    private let calls: CallQueue
    /// The timer of a queue without threads; nil: it has a thread.
    private let timer: EngineTimer?
    private var isReadable = false
    /// Not readable before this time (monotonic), because a loop inside a callback waits on it and cannot run callbacks.
    private var suppressedUntil: Int64 = 0
    /// The number of threads inside `poll`.
    private var pollers = 0
    /// The number of those that search for work before they wait or return. The others wait, or are inside a callback. A callback on a thread
    /// that is not inside `poll`, such as one that waits for a drain, subtracts one meanwhile: then one thread too many may be woken.
    private var searching = 0
    /// The number of those that wait for the condition.
    private var followers = 0
    /// The number of followers that were woken and do not have the lock yet.
    private var waking = 0
    /// The number of threads that wait for a drain or an outcome; they run callbacks if no other thread polls.
    private var waiters = 0
    private var lastPolledAt = Int64.min / 2
    private var lastPoller: pthread_t?
    private let condition = Condition()
    private(set) var awaitsCloseCallback = false
    /// The asynchronous close, while its store is open.
    private(set) var closing: Closing?
    private var closeCallback: (@Sendable () -> Void)?
    private var didRunCloseCallback = false

    init(_ context: EngineContext, _ events: EventDelivery, _ calls: CallQueue, _ timer: EngineTimer, _ descriptors: PollDescriptor) {
        (self.context, self.events, self.calls, self.descriptors) = (context, events, calls, descriptors)
        self.timer = context.options.callbacks == .poll ? timer : nil
    }

    var hasWork: Bool { context.phase != .closed && (context.hasStart || events.hasWork || calls.hasUntaken || isCloseDue) }
    /// Whether `poll` can go on with the close of a queue without threads.
    private var isCloseDue: Bool { timer != nil && closing?.wait.isDue == true }
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
        descriptors.show(isWanted)
    }

    func endSuppression() { suppressedUntil = 0 }

    /// Updates the descriptor, and wakes one thread for the work unless one searches for it.
    func wake() {
        update()
        guard hasWork, searching <= 0, waking == 0 else { return }
        if followers > 0 {
            wakeFollower()
        } else if pollers > 0 {
            timer?.wake()
        } else if waiters > 0 {
            context.progressCondition.broadcast()
        }
    }

    private func wakeFollower() {
        waking += 1
        condition.signal()
    }

    /// A thread runs a callback, with the lock released: what is left is work for another one.
    func callbackBegan() {
        searching -= 1
        wake()
    }

    func callbackEnded() {
        searching += 1
        endSuppression()
    }

    // MARK: Callbacks on the host's threads

    /// Runs pending callbacks on this thread, and waits for one if there is none. Returns how many ran. `runOne` performs what is due, runs
    /// one callback, and returns false if there is none. It is told whether it will be called again after that callback, at once.
    func run(timeout: Int64?, _ runOne: (_ continues: Bool) -> Bool) throws(QueueError) -> Int {
        (pollers, searching) = (pollers + 1, searching + 1)
        defer {
            (pollers, searching) = (pollers - 1, searching - 1)
            (lastPolledAt, lastPoller) = (context.ports.mono(), pthread_self())
            if context.phase != .closed { wake() }
        }
        let deadline = timeout.map { context.ports.mono().addingClamped($0) }
        var (ran, hasWaited) = (0, false)
        while ran < Self.batch {
            if runOne(ran + 1 < Self.batch) {
                ran += 1
                if didRunCloseCallback { break }
                continue
            }
            guard context.phase != .closed || awaitsCloseCallback else { throw context.closedError }
            if ran > 0 { break }
            // Without a wait there may be news of the timer that nothing has read.
            if let deadline, context.ports.mono() >= deadline, hasWaited || timer == nil { break }
            // What was due at this moment may be found only by another search.
            let end = hasWork ? min(deadline ?? Int64.max, context.ports.mono().addingClamped(Self.retryTime)) : deadline
            wait(until: end)
            hasWaited = true
        }
        return ran
    }

    /// Waits for work. In a queue without threads the first thread that waits also waits for the timer.
    private func wait(until deadline: Int64?) {
        searching -= 1
        defer { searching += 1 }
        if let timer, !timer.isAsleep, context.phase != .closed { return attend(until: deadline) }
        followers += 1
        context.wait(condition, until: deadline)
        // A signal wakes any of the followers, and one of them may have reached its time at the same moment: it searches as well.
        if waking > 0 { waking -= 1 }
        followers -= 1
    }

    /// In a queue without threads: reads what the timer reports, unless another thread waits for it, or one did within `interval`
    /// milliseconds. Returns whether something is due at this time.
    func readTimer(unlessWithin interval: Int64) -> Bool {
        guard let timer, context.phase != .closed, !timer.isAsleep else { return false }
        let now = context.ports.mono()
        if timer.deadline > now, now - timer.attendedAt >= interval { attend(until: now) }
        return context.phase != .closed && timer.deadline <= context.ports.mono()
    }

    private func attend(until deadline: Int64?) {
        timer?.attend(until: deadline)
        // This thread may be busy from now on.
        if followers > waking { wakeFollower() }
    }

    /// When a queue without threads has something due at a time (monotonic).
    var deadline: Int64 { timer?.deadline ?? Int64.max }

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

    func waitBegan() { waiters += 1 }
    func waitEnded() { waiters -= 1 }

    // MARK: Closing

    /// Announces the callback of an asynchronous close, which runs in `poll` after the store is closed. The descriptor stays open until
    /// then.
    func expectCloseCallback(of closing: Closing) { (awaitsCloseCallback, self.closing) = (true, closing) }

    /// The store is about to be closed.
    func closingEnded() { closing = nil }

    /// When `poll` must go on with the close of a queue without threads (monotonic).
    var closeDeadline: Int64 { timer == nil ? Int64.max : closing?.wait.deadline ?? Int64.max }

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
        descriptors.close()
        condition.broadcast()
    }

    /// Resets the condition in a forked child.
    func detachForkedChild() {
        condition.reset()
        (searching, followers, waking) = (0, 0, 0)
    }
}
