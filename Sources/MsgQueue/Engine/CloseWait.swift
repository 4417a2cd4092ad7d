/// The wait of a close for attempts, callbacks and events. Under the engine's lock, which is released while waiting.
final class CloseWait: @unchecked Sendable {
    /// How long to wait for a handler that does not return while events are left, in milliseconds.
    private static let eventPatience: Int64 = 1_000
    /// How long to retry rejected outcomes when nothing else is waited for, in milliseconds. A store that accepts nothing for so long
    /// will hardly do before the timeout of the caller, who waits.
    private static let storePatience: Int64 = 5_000

    private let context: EngineContext
    private let events: EventDelivery
    private let host: HostCalls
    private let driver: Driver
    private let writes: PendingWrites
    private let poll: PollHost?
    /// The end of the wait for attempts (monotonic); nil: none.
    private let attemptDeadline: Int64?
    /// When rejected outcomes are given up (monotonic); nil: attempts are in flight, or everything is written.
    private var savingEnd: Int64?
    /// Whether all attempts had ended when the wait for events began; nil: it has not begun.
    private var attemptsEnded: Bool?
    /// The events that were left when one was delivered last, and when a handler that delivers none is given up (monotonic).
    private var (eventsLeft, patienceEnd) = (Int.max, Int64.max)

    init(_ engine: Engine, _ timeout: Int64?) {
        (context, events, host, driver) = (engine.context, engine.events, engine.host, engine.driver)
        (writes, poll) = (engine.writes, engine.poll)
        attemptDeadline = timeout.map { [context] in context.ports.mono().addingClamped($0) }
    }

    private var isSending: Bool { context.core.scheduler.flights.inFlight > 0 || host.transportCalls > 0 }

    /// Waits until no attempt is in flight and no call of the transport runs, at most until the deadline; then until every event is
    /// delivered. Returns false if something had not ended.
    func wait() -> Bool {
        while true {
            driver.runTimedHere(interval: 0)
            if let isComplete = step() { return isComplete }
            let now = context.ports.mono()
            let soon = now + (attemptsEnded == nil ? 20 : 5)
            context.wait(context.progressCondition, until: min(soon, deadline))
        }
    }

    /// Goes on with the close. Returns whether everything has ended; nil: not yet.
    func step() -> Bool? {
        while !context.isForkedChild {
            driver.runDueSteps()
            if !isSending, writes.hasUnsaved, savingEnd == nil { savingEnd = context.ports.mono().addingClamped(Self.storePatience) }
            if attemptsEnded == nil, isWaitingForAttempts {
                deliverEvents()
                guard !isWaitingForAttempts else { return nil }
                continue
            }
            let hasEnded = attemptsEnded ?? !isSending
            attemptsEnded = hasEnded
            guard events.isDelivering || events.hasEvents else { return hasEnded }
            let now = context.ports.mono()
            if events.waiting < eventsLeft {
                eventsLeft = events.waiting
                patienceEnd = now + Self.eventPatience
            } else if now >= patienceEnd {
                return false
            }
            deliverEvents()
            if events.isDelivering || events.hasEvents { return nil }
        }
        return attemptsEnded ?? !isSending
    }

    /// Whether the next step goes on.
    var isDue: Bool {
        guard attemptsEnded != nil else { return !isWaitingForAttempts }
        return !(events.isDelivering || events.hasEvents) || context.ports.mono() >= patienceEnd
    }

    /// When the next step goes on at the latest (monotonic).
    var deadline: Int64 {
        guard attemptsEnded == nil else { return patienceEnd }
        let saving = mayStillSave ? context.ports.mono() + 20 : Int64.max
        return min(attemptDeadline ?? Int64.max, saving)
    }

    private var isWaitingForAttempts: Bool {
        guard isSending || mayStillSave else { return false }
        return attemptDeadline.map { context.ports.mono() < $0 } ?? true
    }

    /// Whether rejected outcomes are still retried, at most until the deadline.
    private var mayStillSave: Bool {
        guard writes.hasUnsaved, !context.store.isPoisoned else { return false }
        return savingEnd.map { context.ports.mono() < $0 } ?? true
    }

    /// Delivers events of a polled queue that no thread polls. The thread of `closeAsync` must not: only `poll` calls the host.
    private func deliverEvents() {
        guard let poll, !poll.isPolled, !poll.awaitsCloseCallback else { return }
        while driver.deliverOne() {}
    }
}
