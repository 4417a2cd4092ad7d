import Glibc

/// Is told of decisions before they are performed, in tests. Called under the engine's lock: it must not call the engine.
protocol DecisionObserver: AnyObject {
    /// An attempt is about to be put in flight, after which its beginning is committed.
    func begins(_ start: Core.Start)
    /// A fact is about to be written.
    func records(_ fact: Fact)
}

/// The state that the parts of an engine share: the store, the core, and the one lock that guards both and the private state of every part.
final class EngineContext: @unchecked Sendable {
    enum Phase { case open, closing, closed }

    let options: Options
    let ports: Ports
    let store: Store
    let lock = TurnLock()
    /// Signalled when a drain has ended, and while the queue closes when an attempt or a callback has ended.
    let progressCondition = Condition()
    private let process = getpid()

    /// The number of calls of `assertInvariants` since the last check.
    private var unchecked = 0

    // Under the lock:
    var observer: (any DecisionObserver)?
    /// The state and the decisions; the parts perform them.
    var core: Core
    var phase = Phase.open
    /// The core's next step is to start an attempt.
    var hasStart = false
    /// This process is a forked child in which a callback returned.
    private(set) var isForkedChild = false

    init(_ options: Options, _ ports: Ports, _ store: Store, _ core: Core) {
        self.options = options
        self.ports = ports
        self.store = store
        self.core = core
    }

    /// In debug builds asserts that the caller holds the lock, and that the invariants hold. The invariants are checked at every fourth call,
    /// with many conversations less often; with the compilation condition `CHECK_EACH_INPUT`, which `Tests/run --soak` sets, at each.
    func assertInvariants() {
        lock.assertHeld()
        assert(!isCheckDue || core.brokenInvariant == nil, core.brokenInvariant ?? "")
    }

    private var isCheckDue: Bool {
        #if CHECK_EACH_INPUT
            return true
        #else
            unchecked += 1
            guard unchecked * 4 >= core.scheduler.lanes.count + 16 else { return false }
            unchecked = 0
            return true
        #endif
    }

    /// Reads the core, which a call of one of its functions would copy.
    func reading<T>(_ body: (inout Core) -> T) -> T { body(&core) }

    /// Waits for the condition until `deadline` (monotonic; nil: without end), with the lock released. By a simulated clock nothing waits:
    /// the clock moves to the deadline.
    func wait(_ condition: Condition, until deadline: Int64?) {
        guard let clock = ports.simulated, let deadline, deadline < Int64.max else {
            lock.wait(condition, until: deadline)
            return
        }
        lock.unlock()
        clock.move(to: deadline)
        lock.lockForEngine()
    }

    var isOwnProcess: Bool { getpid() == process }

    /// Throws in a forked child, which must use neither the lock, which a thread of the parent may hold, nor the file.
    func checkProcess() throws(QueueError) {
        guard isOwnProcess else { throw forked }
    }

    func checkWritable() throws(QueueError) {
        guard !options.readOnly else { throw QueueError(.permission, "\(store.path) was opened for reading only") }
    }

    /// Made in the process that opens the queue.
    private let forked = QueueError(.forked, "the queue was opened by process \(getpid()) and cannot be used in a forked child")

    /// The error for calls to a queue that is not open.
    var closedError: QueueError {
        isForkedChild ? forked : QueueError(.closed, "the queue is closed")
    }

    /// Closes the queue in a forked child, which has only this thread. The lock is reset, because its holder may not exist in this process.
    func detachForkedChild() {
        lock.reset()
        progressCondition.reset()
        lock.lock()
        phase = .closed
        isForkedChild = true
    }

    /// The ids of messages removed at this wall time or later are still rejected as duplicates. Without a memory of ids this is never: not
    /// for a message removed in this millisecond, and not for one removed before the clock was set back.
    var rememberedSince: Int64 { options.rememberIDs == 0 ? .max : ports.wall().subtractingClamped(options.rememberIDs) }
}
