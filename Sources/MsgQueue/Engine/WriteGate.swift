/// Flat combining: of all threads that want to write, one runs what all of them wait for, in one transaction with one flush. A thread
/// alone pays no hand-over.
final class WriteGate: @unchecked Sendable {
    /// What one thread wants to write; run by that thread or by another.
    final class Command {
        /// Valid while the owner waits, which it does until the command was run.
        let drafts: UnsafeBufferPointer<BorrowedDraft>
        var result: Result<[String], QueueError> = .failure(QueueError(.internal, "the command was not run"))
        fileprivate var leads = false
        /// Posted once: when the command was run, or when its owner is to run the next round.
        fileprivate let woken = Semaphore()

        init(_ drafts: UnsafeBufferPointer<BorrowedDraft>) { self.drafts = drafts }
    }

    private let mutex = Mutex()
    /// As many are waiting as the leader lingers for.
    private let gathered = Condition()
    private var isGathering = false
    private var waiting: [Command] = []
    private var hasLeader = false
    /// How many the last round served: so many may come back at once.
    private var lastRound = 1
    private var lastDuration: UInt64 = 0

    /// Runs the command. `run` executes several with the engine's lock held; `collect` gives it those that came in the meantime.
    func submit(_ command: Command, _ run: (_ collect: () -> [Command]) -> Void) {
        mutex.lock()
        waiting.append(command)
        if hasLeader {
            if isGathering, waiting.count >= lastRound { gathered.signal() }
            mutex.unlock()
            command.woken.wait()
            guard command.leads else { return }
            mutex.lock()
        }
        hasLeader = true
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
        (lastRound, lastDuration) = (round.count, duration)
        let next = waiting.first
        next?.leads = true
        hasLeader = next != nil
        mutex.unlock()
        next?.woken.post()
        for served in round where served !== command { served.woken.post() }
    }

    /// Those whom the last round released come back in a moment: waiting for them, a quarter of a commit at most, lets them share this one.
    private func linger() {
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
