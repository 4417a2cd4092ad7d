/// Flat combining: of all threads that want to write, one becomes the leader and runs every waiting command in one transaction with one
/// flush. Small commands that arrive while it writes join the transaction. A single thread runs its own commands without a handover.
final class WriteGate: @unchecked Sendable {
    /// One write, which succeeds or fails as a whole; run by the thread that submitted it or by a leader.
    final class Command {
        /// The memory of the caller is valid until the command has run, because its owner waits for that.
        let drafts: DraftBatch
        /// nil: its ids are not checked yet.
        let addition: StoredBatch.Addition?
        /// When the leader took it.
        var now = Moment(wall: 0, mono: 0)
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

        /// Whether its messages take so long that calls which wait for an earlier commit must not wait for them, too.
        var isLarge: Bool {
            commands.reduce(0) { $0 + $1.drafts.count } >= MessageInsertion.bulkThreshold
                || commands.reduce(0) { $0.addingClamped($1.drafts.needs.space) } > 256 << 10
        }
    }

    private let mutex = Mutex()
    /// Signalled when a command arrives for which the leader waits.
    private let arrived = Condition()
    private var isGathering = false
    private var waiting: [Submission] = []
    private var hasLeader = false
    /// The number of threads in the last round: about as many may come again at once.
    private var lastRound = 1
    private var lastDuration: UInt64 = 0

    /// The number of commands that wait for a round.
    var waitingCommands: Int { mutex.withLock { waiting.reduce(0) { $0 + $1.commands.count } } }

    /// Runs the commands. `run` takes the engine's lock and executes what `collect` returns, in one transaction, until it returns nothing.
    func submit(_ commands: [Command], _ run: (_ collect: () -> [Command]) -> Void) {
        let own = Submission(commands)
        mutex.lock()
        waiting.append(own)
        if hasLeader {
            let woken = Semaphore()
            own.woken = woken
            if isGathering { arrived.signal() }
            mutex.unlock()
            woken.wait()
            guard own.isLeader else { return }
            mutex.lock()
        }
        hasLeader = true
        mutex.unlock()

        var round = Round()
        let began = Ports.nanoseconds()
        run { collect(&round) }
        let duration = Ports.nanoseconds() &- began

        mutex.lock()
        (lastRound, lastDuration) = (round.submissions.count, duration)
        let next = waiting.first
        next?.isLeader = true
        hasLeader = next != nil
        mutex.unlock()
        next?.woken?.post()
        for served in round.submissions where served !== own { served.woken?.post() }
    }

    /// What one leader runs.
    private struct Round {
        var submissions: [Submission] = []
        /// Until when it waits for others.
        var deadline: UInt64?
    }

    /// Returns the commands that have arrived. The threads of the last round are likely to submit again at once: waits for them, in all for
    /// at most a quarter of a commit, so that they share this one.
    private func collect(_ round: inout Round) -> [Command] {
        mutex.withLock {
            if waiting.isEmpty, round.submissions.count < lastRound {
                let deadline = round.deadline ?? Ports.nanoseconds() &+ min(lastDuration / 4, 2_000_000)
                round.deadline = deadline
                isGathering = true
                defer { isGathering = false }
                while waiting.isEmpty {
                    let now = Ports.nanoseconds()
                    guard now < deadline, arrived.wait(mutex, nanoseconds: deadline &- now) else { break }
                }
            }
            guard !waiting.isEmpty else { return [] }
            let joining = round.submissions.isEmpty ? waiting[...] : waiting.prefix { !$0.isLarge }
            waiting.removeFirst(joining.count)
            round.submissions += joining
            return joining.flatMap(\.commands)
        }
    }
}
