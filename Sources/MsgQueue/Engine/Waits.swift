/// The calls that wait for outcomes of messages, and the messages that are gone. Under the engine's lock.
///
/// The wait for a message is examined when an event names the message, and with those of all others after any other change, because that may
/// start or stop everything.
final class Waits {
    /// How long examinations occupy the engine's lock at a time, in milliseconds; they continue in the next millisecond.
    private static let longestStep: Int64 = 3
    /// The least time between two examinations of all waits, in milliseconds.
    private static let sweepPause: Int64 = 20
    /// How long a thread that runs callbacks while it waits sleeps at most, in milliseconds.
    private static let longestPause: Int64 = 20
    /// They take at most one part of so many of the time.
    private static let sweepShare: Int64 = 10

    private let context: EngineContext
    private var waiters: [Name: [Waiter]] = [:]
    private var ended = EndedMessages()
    /// The ids of messages that an event has named.
    private var due: Set<Name> = []
    /// The ids that are left of an examination of all, and when it began (monotonic).
    private var sweep: [Name] = []
    private var sweepBegan: Int64 = 0
    /// When the next one may begin (monotonic).
    private var sweepAt: Int64 = 0
    /// Something has changed since the last one began.
    private var isChanged = false
    /// No deadline of a waiter is before this time (monotonic).
    private var firstDeadline = Int64.max

    init(_ context: EngineContext) { self.context = context }

    /// Notes an event, which follows its commit.
    func note(_ event: Event) {
        ended.note(event)
        guard !waiters.isEmpty else { return }
        switch event {
        case .status(let change):
            noteChange(of: change.id)
            // Others may wait behind it.
            if change.from != nil { isChanged = true }
        default:
            if let id = event.goneID { noteChange(of: id) }
            isChanged = true
        }
    }

    /// Notes a message that was stored under an id that the host has given, and that an earlier one may have had.
    func noteStored(_ id: String) { ended.forget(id) }

    /// Notes messages that a call for many deleted: it has one event for all.
    func noteDeleted(_ ids: some Collection<(id: String, conversation: String)>) {
        for (id, conversation) in ids.suffix(EndedMessages.ceiling) { ended.note(.deleted(id: id, conversation: conversation)) }
    }

    private func noteChange(of id: String) {
        let name = Name(id)
        if waiters[name] != nil { due.insert(name) }
    }

    /// Returns what is known of a message that is gone; nil: it was not among the last ones.
    func message(gone id: String) -> Message? { ended.message(id) }

    // MARK: Waiters

    var hasWaiters: Bool { !waiters.isEmpty }

    func add(_ waiter: Waiter) {
        waiters[Name(waiter.id), default: []].append(waiter)
        firstDeadline = min(firstDeadline, waiter.deadline ?? Int64.max)
    }

    func remove(_ waiter: Waiter) {
        let name = Name(waiter.id)
        waiters[name]?.removeAll { $0 === waiter }
        if waiters[name]?.isEmpty == true { waiters[name] = nil }
    }

    /// Waits for the end of a wait, and takes the lock for that. In a polled queue this thread runs the callbacks unless another one does.
    func wait(for waiter: Waiter, _ poll: PollHost?, _ driver: Driver) throws(QueueError) -> Waiter.Ending {
        context.lock.lock()
        poll?.waitBegan()
        defer {
            remove(waiter)
            poll?.waitEnded()
            context.lock.unlock()
        }
        while true {
            if let ending = waiter.ending { return try ending.get() }
            guard context.phase != .closed, !context.isForkedChild else { throw context.closedError }
            guard let poll else {
                // The timer ends it at its deadline.
                if let condition = waiter.condition { context.lock.wait(condition) }
                continue
            }
            driver.runDueHere()
            guard poll.isPolledElsewhere || !driver.runCallback() else { continue }
            driver.runDueSteps(isTimed: true)
            guard waiter.ending == nil, context.phase != .closed else { continue }
            let now = context.ports.mono()
            let soon = context.ports.simulated == nil ? min(now + Self.longestPause, poll.deadline) : max(now + 1, poll.deadline)
            context.wait(context.progressCondition, until: min(waiter.deadline ?? soon, soon))
        }
    }

    /// Removes and returns all waiters when the queue is closed.
    func close() -> [Waiter] {
        defer { waiters = [:] }
        return waiters.values.flatMap { $0 }
    }

    // MARK: Examinations

    /// When `step` must be called (monotonic).
    func deadline(_ now: Int64) -> Int64 {
        guard !waiters.isEmpty else { return Int64.max }
        guard due.isEmpty, sweep.isEmpty else { return now }
        return min(firstDeadline, isChanged ? sweepAt : Int64.max)
    }

    /// Examines the waits that may have ended. `isTimed`: nothing has changed but the time, and what events have reported. `ending` returns the
    /// end of the wait for a message that was in the store, or nil; with `isTimeout` never nil. `end` ends the wait of a caller.
    func step(
        isTimed: Bool, ending: (_ id: String, _ isTimeout: Bool) -> Result<Message, QueueError>?,
        end: (Waiter, Result<Waiter.Ending, QueueError>) -> Void
    ) {
        guard !waiters.isEmpty else { return due = [] }
        let began = context.ports.mono()
        if sweep.isEmpty, began >= sweepAt {
            (sweep, sweepBegan, isChanged) = (Array(waiters.keys), began, false)
        } else if !isTimed {
            isChanged = true
        }
        while let id = due.popFirst() ?? sweep.popLast() {
            if let found = ending(id.text, false) {
                for waiter in waiters.removeValue(forKey: id) ?? [] { end(waiter, found.map { Waiter.Ending(message: $0) }) }
            }
            guard context.ports.mono() - began < Self.longestStep else { break }
        }
        let now = context.ports.mono()
        if sweep.isEmpty, sweepBegan >= sweepAt { sweepAt = now + max(Self.sweepPause, (now - sweepBegan) * Self.sweepShare) }
        endLate(now, ending, end)
    }

    /// Ends the waits whose time has run out.
    private func endLate(
        _ now: Int64, _ ending: (String, Bool) -> Result<Message, QueueError>?, _ end: (Waiter, Result<Waiter.Ending, QueueError>) -> Void
    ) {
        guard firstDeadline <= now else { return }
        let late = waiters.values.joined().filter { $0.deadline.map { $0 <= now } ?? false }
        for waiter in late {
            remove(waiter)
            let found = ending(waiter.id, true) ?? .failure(QueueError(.internal, "no end of the wait for message \(waiter.id)"))
            end(waiter, found.map { Waiter.Ending(message: $0, isTimeout: true) })
        }
        firstDeadline = waiters.values.joined().lazy.compactMap(\.deadline).min() ?? Int64.max
    }
}
