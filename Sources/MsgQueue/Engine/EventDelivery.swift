/// Tells the host's handler what happened, in order, one event at a time. Under the engine's lock.
final class EventDelivery {
    /// So much damage that was found is told to the first handler, however late it comes.
    private static let noticeCeiling = 64

    private let context: EngineContext
    private var queue = EventQueue()
    private var handler: Registration<EventFunction>?
    /// Damage that was found before there was a handler.
    private var notices: [Event] = []
    private(set) var isDelivering = false
    /// What the last storage event said.
    private(set) var storageReport: QueueError.Code?
    /// For the thread that tells events.
    private let condition = Condition()

    init(_ context: EngineContext) { self.context = context }

    var hasHandler: Bool { handler != nil }
    var hasEvents: Bool { !queue.isEmpty || (queue.summaryIsDue && handler != nil) }
    /// An event can be told now.
    var hasWork: Bool { !isDelivering && hasEvents }
    var waiting: Int { queue.count }

    // MARK: What happened

    func emit(_ event: Event) {
        if case .storage(let error) = event {
            storageReport = error?.code
            if handler == nil, error?.code == .corrupt, notices.count < Self.noticeCeiling { notices.append(event) }
        }
        guard handler != nil else { return }
        queue.append(event, at: context.ports.wall())
    }

    func countsChanged() { queue.summaryIsDue = true }

    /// Runs `action` after the events before it were told.
    func append(barrier action: @escaping @Sendable () -> Void) { queue.append(barrier: action) }

    // MARK: Telling

    /// The thread of a queue that is not polled. `deliver` tells one event; false: there is none.
    func run(_ deliver: () -> Bool) {
        context.lock.lock()
        while context.phase != .closed {
            if !deliver() { condition.wait(context.lock) }
        }
        context.lock.unlock()
    }

    /// Tells one event, with the lock given up meanwhile; false: there is none, or another thread is telling one.
    func deliverOne(_ host: HostCalls, summary: () -> Event) -> Bool {
        guard !isDelivering else { return false }
        var item = queue.popFirst()
        if item == nil, queue.summaryIsDue, handler != nil {
            queue.summaryIsDue = false
            item = .event(summary(), at: context.ports.wall())
        }
        guard let item else { return false }
        isDelivering = true
        switch item {
        case .barrier(let action): host.call(action)
        case .event(let event, let at):
            guard let handler else { break }
            handler.enter()
            host.call { handler.function(event, at) }
            if let release = handler.leave() { host.call(release) }
        }
        isDelivering = false
        context.quietCondition.broadcast()
        return true
    }

    func wake() { condition.signal() }

    // MARK: Registering

    /// Gives the release of the handler before, when it is due now.
    func setHandler(_ new: Registration<EventFunction>?) -> (@Sendable () -> Void)? {
        let release = handler?.retire()
        handler = new
        guard new != nil else { return release }
        for notice in notices { emit(notice) }
        notices = []
        return release
    }

    /// The end of the queue: what must happen although nobody takes the events any more, and the handler's release.
    func close() -> (barriers: [@Sendable () -> Void], release: (@Sendable () -> Void)?) {
        let barriers = queue.takeBarriers()
        let release = handler?.retire()
        handler = nil
        condition.broadcast()
        return (barriers, release)
    }

    /// In a forked child.
    func orphan() { condition.reset() }
}
