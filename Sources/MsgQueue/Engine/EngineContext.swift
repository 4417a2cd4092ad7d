import Glibc

/// What the parts of an engine share: the store (the truth), the core (what is decided), and the one lock that guards both, as well as the
/// private state of every part.
final class EngineContext: @unchecked Sendable {
    enum Phase { case open, closing, closed }

    let options: Options
    let ports: Ports
    let store: Store
    let lock = Mutex()
    /// An attempt ended, a callback returned, a drain was answered: for those that wait for more than work.
    let quietCondition = Condition()
    private let process = getpid()

    // Under the lock:
    /// What is decided; the parts perform it.
    var core: Core
    var phase = Phase.open
    /// The core has an attempt to start.
    var hasStart = false
    /// This process is a forked child, in which a callback came back.
    private(set) var isOrphan = false

    init(_ options: Options, _ ports: Ports, _ store: Store, _ core: Core) {
        self.options = options
        self.ports = ports
        self.store = store
        self.core = core
    }

    var isOwnProcess: Bool { getpid() == process }

    /// In a forked child nothing may be touched: not the lock, which the parent's threads may hold, and not the file.
    func checkProcess() throws(QueueError) {
        guard isOwnProcess else { throw forked }
    }

    func checkWritable() throws(QueueError) {
        guard !options.readOnly else { throw QueueError(.permission, "\(store.path) was opened for reading only") }
    }

    private var forked: QueueError { QueueError(.forked, "the queue belongs to process \(process)") }

    /// Why a queue that is not open any more is not.
    var ending: QueueError {
        isOrphan ? forked : QueueError(.closed, "the queue is closed")
    }

    /// In a forked child, which this thread alone reached: for this process the queue is closed. Whoever held the lock is not here to give
    /// it back.
    func orphan() {
        lock.reset()
        quietCondition.reset()
        lock.lock()
        phase = .closed
        isOrphan = true
    }

    /// Ids that were sent since then are still refused.
    var rememberedSince: Int64 { ports.wall().subtractingClamped(options.rememberIDs) }
}
