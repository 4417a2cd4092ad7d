import CPlatform
import Glibc

/// What a polled queue has beside: a file descriptor for event loops.
final class PollState {
    /// An eventfd: readable while there is work.
    let descriptor: Int32
    private var isReadable = false
    /// Not readable before this time (monotonic): a loop inside a callback looks at it, and can run nothing.
    private(set) var quietUntil: Int64 = 0
    private static let quietTime: Int64 = 50

    init() throws(QueueError) {
        descriptor = platform_eventfd()
        guard descriptor >= 0 else { throw QueueError(.storage, "no file descriptor left: \(Posix.lastError())") }
    }

    func beQuiet(_ now: Int64) {
        quietUntil = now + Self.quietTime
        update(hasWork: false, now)
    }

    func endQuiet() { quietUntil = 0 }

    /// Level-triggered: readable as long as there is work.
    func update(hasWork: Bool, _ now: Int64) {
        let isWanted = hasWork && now >= quietUntil
        guard isWanted != isReadable else { return }
        isReadable = isWanted
        var value: UInt64 = 1
        // Neither can fail for want of room: the counter is 0 or 1.
        _ = isWanted ? write(descriptor, &value, 8) : read(descriptor, &value, 8)
    }

    func close() { Glibc.close(descriptor) }
}

extension Engine {
    /// Callbacks that one `poll` runs at most before it lets the host's loop go on.
    private static let pollBatch = 64

    var hasPollWork: Bool {
        phase != .closed && (hasStart || (!isDelivering && (!events.isEmpty || (events.summaryIsDue && handler != nil))))
    }

    package func pollDescriptor() throws(QueueError) -> Int32 {
        try checkProcess()
        return lock.withLock { phase == .closed && !isClosedByPoll ? -1 : poll?.descriptor ?? -1 }
    }

    /// Runs what waits, on this thread; with nothing, waits for it. How many callbacks ran.
    package func runCallbacks(timeout: Int64?) throws(QueueError) -> Int {
        try checkProcess()
        if ThreadContext.current.isInCallback(of: self) {
            restInsideCallback()
            return 0
        }
        lock.lock()
        defer { lock.unlock() }
        guard phase != .closed || isClosedByPoll else { throw ending }
        guard poll != nil else { throw QueueError(.conflict, "the callbacks of this queue run on its own threads") }
        pollers += 1
        defer {
            pollers -= 1
            (lastPolledAt, lastPoller) = (ports.mono(), pthread_self())
        }
        let deadline = timeout.map { ports.mono().addingClamped($0) }
        var ran = 0
        while ran < Self.pollBatch {
            if runLast() { return ran + 1 }
            if runOne() {
                ran += 1
                continue
            }
            guard phase != .closed || isClosedByPoll else { throw ending }
            if ran > 0 { break }
            if let deadline, ports.mono() >= deadline { break }
            workCondition.wait(lock, until: deadline)
        }
        return ran
    }

    /// A loop inside a callback can run nothing, and would spin for as long as the descriptor is readable. It is one for all threads, so
    /// that it is quiet for short times only: the others are woken between them.
    private func restInsideCallback() {
        lock.lock()
        defer { lock.unlock() }
        guard let poll, hasPollWork, ports.mono() >= poll.quietUntil else { return }
        // A thread that waits for the descriptor, and was woken by it just now, must still find it readable.
        lock.unlock()
        usleep(1_000)
        lock.lock()
        guard phase != .closed, hasPollWork else { return }
        poll.beQuiet(ports.mono())
        settle()
    }

    /// Tells the host that `closeAsync` is done, and ends the descriptor. Under the lock, which is given up meanwhile.
    func runLast() -> Bool {
        guard let last = lastCallback else { return false }
        lastCallback = nil
        callingOut(last)
        guard !isOrphan else { return true }
        isClosedByPoll = false
        poll?.close()
        workCondition.broadcast()
        quietCondition.broadcast()
        return true
    }

    /// Runs one callback: an event if there is one, else an attempt. Under the lock, which is given up meanwhile.
    func runOne() -> Bool {
        guard phase != .closed else { return false }
        settle()
        if deliverOne() {
            settle()
            return true
        }
        guard hasStart else { return false }
        guard let work = startNext() else {
            settle()
            return deliverOne()
        }
        settle()
        _ = call(work, thenNext: false)
        settle()
        return true
    }
}
