/// Receives every event when it is queued for delivery, in order. Called under the engine's lock: it must not wait and not call the engine.
package protocol EventObserver: AnyObject, Sendable {
    func receive(_ event: Event, at: Int64)
    /// A summary event is due.
    func countsChanged()
}

/// Delivers events to the host's handler, in order, one at a time. Under the engine's lock.
final class EventDelivery {
    /// The number of damage events that are kept for the first handler.
    private static let noticeCeiling = 64

    private let context: EngineContext
    private let waits: Waits
    private var queue = EventQueue()
    private var handler: Registration<EventFunction>?
    let watches = Watches()
    /// Receives the events beside the handler.
    var observer: (any EventObserver)?
    /// Damage that was found before a handler was set.
    private var notices: [Event] = []
    private(set) var isDelivering = false
    /// The code of the last storage event; nil: the store works.
    private(set) var storageReport: QueueError.Code?
    /// Wakes the event thread.
    private let condition = Condition()

    init(_ context: EngineContext, _ waits: Waits) { (self.context, self.waits) = (context, waits) }

    /// Whether anything receives the events.
    var isObserved: Bool { hasHandler || observer != nil }
    var hasHandler: Bool { handler != nil }
    var hasEvents: Bool { !queue.isEmpty || (queue.summaryIsDue && handler != nil) }
    /// Whether an event can be delivered now.
    var hasWork: Bool { !isDelivering && hasEvents }
    var waiting: Int { queue.count }

    // MARK: Adding

    func emit(_ event: Event) {
        context.lock.assertHeld()
        if Log.isOn(.debug), let line = EventText.line(event) { log(line) }
        watches.changed()
        waits.note(event)
        if case .storage(let error) = event {
            storageReport = error?.code
            if handler == nil, error?.code == .corrupt, notices.count < Self.noticeCeiling { notices.append(event) }
        }
        guard isObserved else { return }
        let now = context.ports.wall()
        observer?.receive(event, at: now)
        guard handler != nil else { return }
        queue.append(event, at: now)
    }

    /// What is known of an earlier message of its id is forgotten.
    func noteStored(_ message: StoredBatch.Message) { if message.isNamed { waits.noteStored(message.id) } }

    /// Adds the event of a message that was enqueued or recorded.
    func appeared(_ message: StoredBatch.Message, as status: MessageStatus, at now: Int64) {
        noteStored(message)
        watches.changed()
        observer?.receive(.appeared(message.id, message.draft.conversation, as: status, at: now), at: now)
        guard handler != nil else { return }
        queue.append(message, as: status, at: now)
    }

    /// Writes a line about this queue to the log, at the level `debug`.
    func log(_ line: @autoclosure () -> String) { Log.debug("\(context.store.path): \(line())") }

    func countsChanged() {
        queue.summaryIsDue = true
        watches.changed()
        observer?.countsChanged()
    }

    /// Runs `action` after the events before it were delivered.
    func append(barrier action: @escaping @Sendable () -> Void) { queue.append(barrier: action) }

    // MARK: Delivering

    /// The body of the event thread. `deliver` delivers one event and returns false if there is none.
    func run(_ deliver: () -> Bool) {
        context.lock.lockForEngine()
        while context.phase != .closed {
            if !deliver() { context.lock.wait(condition) }
        }
        context.lock.unlock()
    }

    /// Delivers one event, with the lock released. Returns false if there is none or another thread is delivering one.
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
        if context.phase != .open { context.progressCondition.broadcast() }
        return true
    }

    func wake() { condition.signal() }

    // MARK: Registering

    /// Replaces the handler. Returns the release of the previous one, if it is due now.
    func setHandler(_ new: Registration<EventFunction>?) -> (@Sendable () -> Void)? {
        let release = handler?.retire()
        handler = new
        guard new != nil else { return release }
        for notice in notices { emit(notice) }
        notices = []
        return release
    }

    /// Ends delivery when the queue is closed. Returns the barriers, which must still run, and the handler's release.
    func close() -> (barriers: [@Sendable () -> Void], release: (@Sendable () -> Void)?) {
        let barriers = queue.takeBarriers()
        let release = handler?.retire()
        handler = nil
        observer = nil
        condition.broadcast()
        return (barriers, release)
    }

    /// Resets the condition in a forked child. The observer's threads and descriptors belong to the parent.
    func detachForkedChild() {
        observer = nil
        condition.reset()
    }
}
