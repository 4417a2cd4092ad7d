/// The wait of a queue that is being closed for what is under way. Under the engine's lock, which is given up meanwhile.
final class QuietWait: @unchecked Sendable {
    /// How long a handler that does not come back is waited for, when events are left to tell.
    private static let eventPatience: Int64 = 1_000
    /// How long outcomes that the store does not take are tried again when the caller gave no deadline.
    private static let storePatience: Int64 = 5_000

    private let context: EngineContext
    private let events: EventDelivery
    private let host: HostCalls
    private let driver: Driver
    private let writes: PendingWrites
    private let poll: PollHost?
    /// Until when attempts are waited for (monotonic); nil: without end.
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

    /// Waits until no attempt is under way and no call runs, at most until the deadline; then until every event is told.
    /// False: something had not ended.
    func wait() -> Bool {
        while !context.isOrphan, isSending || hasUnsavedHope {
            driver.settle()
            if let deadline, context.ports.mono() >= deadline { break }
            serveEvents()
            let soon = context.ports.mono() + 20
            context.quietCondition.wait(context.lock, until: min(deadline ?? soon, soon))
        }
        let isQuiet = !isSending
        return awaitEvents() && isQuiet
    }

    /// Outcomes that the store did not take are tried again until the deadline, and without one for a moment.
    private var hasUnsavedHope: Bool {
        guard writes.hasUnsaved, !context.store.isPoisoned else { return false }
        return deadline != nil || context.ports.mono() < storeDeadline
    }

    /// Tells what is left; false: a handler did not come back.
    private func awaitEvents() -> Bool {
        var patience = context.ports.mono() + Self.eventPatience
        var left = Int.max
        while !context.isOrphan, events.isDelivering || events.hasEvents {
            driver.settle()
            if events.waiting < left {
                left = events.waiting
                patience = context.ports.mono() + Self.eventPatience
            } else if context.ports.mono() >= patience {
                return false
            }
            serveEvents()
            if events.isDelivering || events.hasEvents {
                context.quietCondition.wait(context.lock, until: context.ports.mono() + 5)
            }
        }
        return true
    }

    /// In a polled queue nobody else may be there to tell events. The thread of `closeAsync` must not: only `poll` calls the host.
    private func serveEvents() {
        guard let poll, !poll.isPolled, !poll.isLastCallAwaited else { return }
        while driver.deliverOne() {}
    }
}
