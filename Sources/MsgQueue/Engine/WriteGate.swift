/// Flat combining: of all threads that want to write, one runs what all of them wait for, in one transaction with one flush. A thread
/// alone pays no hand-over.
final class WriteGate: @unchecked Sendable {
    /// One thread's wish, run by itself or by another.
    final class Command {
        /// Valid while the owner waits, which it does until `isDone`.
        let drafts: UnsafeBufferPointer<BorrowedDraft>
        var result: Result<[String], QueueError> = .failure(QueueError(.internal, "the command was not run"))
        fileprivate var isDone = false
        fileprivate var leads = false

        init(_ drafts: UnsafeBufferPointer<BorrowedDraft>) { self.drafts = drafts }
    }

    private let mutex = Mutex()
    private let changed = Condition()
    private var waiting: [Command] = []
    private var hasLeader = false
    /// How many the last round served: so many may come back at once.
    private var lastRound = 1
    private var lastDuration: UInt64 = 0

    /// Runs the command. `run` executes several with the engine's lock held, and answers how long that took in nanoseconds;
    /// `collect` gives it
    /// those that came in the meantime.
    func submit(_ command: Command, _ run: (_ collect: () -> [Command]) -> Void) {
        mutex.lock()
        if hasLeader {
            waiting.append(command)
            changed.broadcast()
            while !command.isDone, !command.leads { changed.wait(mutex) }
            guard !command.isDone else {
                mutex.unlock()
                return
            }
        } else {
            hasLeader = true
            waiting.append(command)
        }
        linger()
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
        for command in round { command.isDone = true }
        (lastRound, lastDuration) = (round.count, duration)
        if let next = waiting.first {
            next.leads = true
        } else {
            hasLeader = false
        }
        // A thread that was alone has nobody to wake.
        if round.count > 1 || !waiting.isEmpty { changed.broadcast() }
        mutex.unlock()
    }

    /// Those whom the last round released come back in a moment: waiting for them, a quarter of a commit at most, lets them share this one.
    private func linger() {
        guard lastRound > 1, waiting.count < lastRound else { return }
        let deadline = Ports.nanoseconds() &+ min(lastDuration / 4, 2_000_000)
        while waiting.count < lastRound {
            let now = Ports.nanoseconds()
            guard now < deadline, changed.wait(mutex, nanoseconds: deadline &- now) else { return }
        }
    }
}
