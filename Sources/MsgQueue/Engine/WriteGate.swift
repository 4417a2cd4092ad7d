/// Flat combining: of all threads that want to write, one becomes the leader and runs every waiting command in one transaction with one
/// flush. A single thread runs its own command without a handover.
final class WriteGate: @unchecked Sendable {
    /// The write of one thread; run by that thread or by a leader.
    final class Command {
        /// The memory of the caller is valid until the command has run, because its owner waits for that.
        let drafts: DraftBatch
        var result: Result<StoredBatch, QueueError> = .failure(QueueError(.internal, "the command was not run"))
        fileprivate var isLeader = false
        /// Posted once: when the command has run, or when its owner becomes the next leader.
        fileprivate let woken = Semaphore()

        init(_ drafts: DraftBatch) { self.drafts = drafts }
    }

    private let mutex = Mutex()
    /// Signalled when as many commands wait as the last round had.
    private let gathered = Condition()
    private var isGathering = false
    private var waiting: [Command] = []
    private var hasLeader = false
    /// The number of commands in the last round: about as many may come again at once.
    private var lastRound = 1
    private var lastDuration: UInt64 = 0

    /// The number of commands that wait for a round.
    var waitingCommands: Int { mutex.withLock { waiting.count } }

    /// Runs the command. `run` takes the engine's lock, calls `collect` for the commands that have arrived, and executes them.
    func submit(_ command: Command, _ run: (_ collect: () -> [Command]) -> Void) {
        mutex.lock()
        waiting.append(command)
        if hasLeader {
            if isGathering, waiting.count >= lastRound { gathered.signal() }
            mutex.unlock()
            command.woken.wait()
            guard command.isLeader else { return }
            mutex.lock()
        }
        hasLeader = true
        gather()
        mutex.unlock()

        var round: [Command] = []
        let began = Ports.nanoseconds()
        run {
            mutex.withLock {
                round = waiting
                waiting = []
            }
            return round
        }
        let duration = Ports.nanoseconds() &- began

        mutex.lock()
        (lastRound, lastDuration) = (round.count, duration)
        let next = waiting.first
        next?.isLeader = true
        hasLeader = next != nil
        mutex.unlock()
        next?.woken.post()
        for served in round where served !== command { served.woken.post() }
    }

    /// The threads of the last round are likely to submit again at once. Waiting for them, for at most a quarter of a commit, lets them
    /// share this one.
    private func gather() {
        guard lastRound > 1, waiting.count < lastRound else { return }
        isGathering = true
        defer { isGathering = false }
        let deadline = Ports.nanoseconds() &+ min(lastDuration / 4, 2_000_000)
        while waiting.count < lastRound {
            let now = Ports.nanoseconds()
            guard now < deadline, gathered.wait(mutex, nanoseconds: deadline &- now) else { return }
        }
    }
}
