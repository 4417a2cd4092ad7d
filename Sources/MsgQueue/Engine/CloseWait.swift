/// The wait of a close for attempts, callbacks and events. Under the engine's lock, which is released while waiting.
final class CloseWait: @unchecked Sendable {
    /// How long to wait for a handler that does not return while events are left, in milliseconds.
    private static let eventPatience: Int64 = 1_000
    /// How long to retry rejected outcomes when the caller gave no timeout, in milliseconds.
    private static let storePatience: Int64 = 5_000

    private let context: EngineContext
    private let events: EventDelivery
    private let host: HostCalls
    private let driver: Driver
    private let writes: PendingWrites
    private let poll: PollHost?
    /// The end of the wait for attempts (monotonic); nil: none.
    private let deadline: Int64?
    private let storeDeadline: Int64

    init(_ engine: Engine, _ timeout: Int64?) {
        (context, events, host, driver) = (engine.context, engine.events, engine.host, engine.driver)
        (writes, poll) = (engine.writes, engine.poll)
        let now = context.ports.mono()
        deadline = timeout.map { now.addingClamped($0) }
        storeDeadline = deadline ?? now.addingClamped(Self.storePatience)
    }

    private var isSending: Bool { context.core.scheduler.inFlight > 0 || host.transportCalls > 0 }

    /// Waits until no attempt is in flight and no call of the transport runs, at most until the deadline; then until every event is
    /// delivered. Returns false if something had not ended.
    func wait() -> Bool {
        while !context.isForkedChild, isSending || mayStillSave {
            driver.runDueSteps()
            if let deadline, context.ports.mono() >= deadline { break }
            deliverEvents()
            let soon = context.ports.mono() + 20
            context.lock.wait(context.progressCondition, until: min(deadline ?? soon, soon))
        }
        let isComplete = !isSending
        return waitForEvents() && isComplete
    }

    /// Whether rejected outcomes are still retried: until the deadline, or without one for `storePatience`.
    private var mayStillSave: Bool {
        guard writes.hasUnsaved, !context.store.isPoisoned else { return false }
        return deadline != nil || context.ports.mono() < storeDeadline
    }

    /// Delivers the remaining events. Returns false if a handler does not return.
    private func waitForEvents() -> Bool {
        var patience = context.ports.mono() + Self.eventPatience
        var left = Int.max
        while !context.isForkedChild, events.isDelivering || events.hasEvents {
            driver.runDueSteps()
            if events.waiting < left {
                left = events.waiting
                patience = context.ports.mono() + Self.eventPatience
            } else if context.ports.mono() >= patience {
                return false
            }
            deliverEvents()
            if events.isDelivering || events.hasEvents {
                context.lock.wait(context.progressCondition, until: context.ports.mono() + 5)
            }
        }
        return true
    }

    /// Delivers events of a polled queue that no thread polls. The thread of `closeAsync` must not: only `poll` calls the host.
    private func deliverEvents() {
        guard let poll, !poll.isPolled, !poll.awaitsCloseCallback else { return }
        while driver.deliverOne() {}
    }
}
