/// Flat combining: of all threads that want to write, one becomes the leader and runs every waiting command in one transaction with one
/// flush. A single thread runs its own commands without a handover.
final class WriteGate: @unchecked Sendable {
    /// One write, which succeeds or fails as a whole; run by the thread that submitted it or by a leader.
    final class Command {
        /// The memory of the caller is valid until the command has run, because its owner waits for that.
        let drafts: DraftBatch
        /// nil: its ids are not checked yet.
        let addition: StoredBatch.Addition?
        var result: Result<StoredBatch, QueueError> = .failure(QueueError(.internal, "the command was not run"))

        init(_ drafts: DraftBatch, _ addition: StoredBatch.Addition? = nil) { (self.drafts, self.addition) = (drafts, addition) }
    }

    /// The commands of one thread.
    private final class Submission {
        let commands: [Command]
        var isLeader = false
        /// Posted once: when the commands have run, or when their owner becomes the next leader. nil: the owner does not wait.
        var woken: Semaphore?

        init(_ commands: [Command]) { self.commands = commands }
    }

    private let mutex = Mutex()
    /// Signalled when as many threads wait as the last round had.
    private let gathered = Condition()
    private var isGathering = false
    private var waiting: [Submission] = []
    private var hasLeader = false
    /// The number of threads in the last round: about as many may come again at once.
    private var lastRound = 1
    private var lastDuration: UInt64 = 0

    /// The number of commands that wait for a round.
    var waitingCommands: Int { mutex.withLock { waiting.reduce(0) { $0 + $1.commands.count } } }

    /// Runs the commands. `run` takes the engine's lock, calls `collect` for the commands that have arrived, and executes them.
    func submit(_ commands: [Command], _ run: (_ collect: () -> [Command]) -> Void) {
        let own = Submission(commands)
        mutex.lock()
        waiting.append(own)
        if hasLeader {
            let woken = Semaphore()
            own.woken = woken
            if isGathering, waiting.count >= lastRound { gathered.signal() }
            mutex.unlock()
            woken.wait()
            guard own.isLeader else { return }
            mutex.lock()
        }
        hasLeader = true
        gather()
        mutex.unlock()

        var round: [Submission] = []
        let began = Ports.nanoseconds()
        run {
            mutex.withLock {
                round = waiting
                waiting = []
            }
            return round.count == 1 ? round[0].commands : round.flatMap(\.commands)
        }
        let duration = Ports.nanoseconds() &- began

        mutex.lock()
        (lastRound, lastDuration) = (round.count, duration)
        let next = waiting.first
        next?.isLeader = true
        hasLeader = next != nil
        mutex.unlock()
        next?.woken?.post()
        for served in round where served !== own { served.woken?.post() }
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
