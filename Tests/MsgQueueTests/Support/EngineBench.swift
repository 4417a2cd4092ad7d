import Glibc

@testable import MsgQueue

/// A polled engine over a real file, in virtual time; its callbacks run on the thread of the test.
final class EngineBench: @unchecked Sendable {
    let directory: TemporaryDirectory
    let clock: VirtualClock
    private(set) var engine: Engine
    private var options: Options
    private let mutex = Mutex()
    private var answers: [Outcome] = []
    private var rule: @Sendable (Delivery) -> Outcome = { _ in .sent }
    private var received: [Delivery] = []
    private var reported: [Event] = []
    private var isOpen = true

    init(_ change: (inout Options) -> Void = { _ in }) throws {
        var options = Options()
        options.callbacks = .poll
        change(&options)
        (directory, clock, self.options) = (TemporaryDirectory(), VirtualClock(), options)
        engine = try Engine(path: directory.store, options: options, ports: clock.ports)
        try connect()
    }

    deinit { close() }

    private func connect() throws {
        try engine.setHandler(Registration({ [weak self] event, _ in self?.note(event) }))
        try engine.setTransport(Registration({ [weak self] delivery in self?.take(delivery) ?? .offline }))
        if options.callbacks == .pollWithTimer { try awaitTimer() }
    }

    /// Waits until the timer thread has made its first step, so that it makes none after the test has set the clocks.
    private func awaitTimer() throws {
        let end = Ports.system.mono() + 30_000
        while !engine.context.lock.withLock({ engine.timer.isAsleep }) {
            guard Ports.system.mono() < end else { throw QueueError(.internal, "the timer thread does not start") }
            usleep(200)
        }
    }

    private func note(_ event: Event) { mutex.withLock { reported.append(event) } }

    private func take(_ delivery: Delivery) -> Outcome {
        mutex.withLock {
            received.append(delivery)
            return answers.isEmpty ? rule(delivery) : answers.removeFirst()
        }
    }

    var deliveries: [Delivery] { mutex.withLock { received } }
    var texts: [String] { deliveries.map(\.text) }
    var events: [Event] { mutex.withLock { reported } }

    /// Uses the store as the engine does, under its lock.
    func withStore<T>(_ body: (Store) throws -> T) throws -> T {
        try engine.context.lock.withLock { try body(engine.context.store) }
    }

    /// Sets the next answers of the transport; later ones are `.sent`, or as the rule says.
    func answer(_ outcomes: Outcome...) { mutex.withLock { answers += outcomes } }
    func answer(by rule: @escaping @Sendable (Delivery) -> Outcome) { mutex.withLock { self.rule = rule } }

    func changes(of id: String? = nil) -> [StatusChange] {
        events.compactMap { event in
            if case .status(let change) = event, id == nil || change.id == id { change } else { nil }
        }
    }

    // MARK: Actions

    @discardableResult
    func enqueue(
        _ text: String = "hello", _ conversation: Name = "ana", id: String? = nil, notBefore: Int64 = 0, expiresAt: Int64 = 0,
        unmeteredOnly: Bool = false, priority: Int32 = 0
    ) throws -> String {
        let body = Array(text.utf8)
        return try body.withUnsafeBytes { bytes in
            let draft = BorrowedDraft(
                id: id, conversation: conversation, body: bytes, metadata: [], notBefore: notBefore, expiresAt: expiresAt,
                unmeteredOnly: unmeteredOnly, priority: priority)
            return try engine.enqueue(DraftBatch(draft)).ids()[0]
        }
    }

    /// Enqueues messages of three bytes, and lets them expire.
    func enqueueExpired(_ count: Int) throws {
        let expiry = clock.wall + 1_000
        try Array("old".utf8).withUnsafeBytes { body in
            let draft = BorrowedDraft(
                id: nil, conversation: "ana", body: body, metadata: [], notBefore: 0, expiresAt: expiry, unmeteredOnly: false)
            _ = try engine.enqueue(DraftBatch(count: count) { places in places.map { _ in draft } })
        }
        clock.advance(1_001)
        for _ in 0..<count / 64 + 4 { try reportClock() }
    }

    /// Runs all callbacks that are due.
    func poll() throws { while try engine.runCallbacks(timeout: 0) > 0 {} }

    /// Advances the clocks and runs what falls due.
    func pass(_ milliseconds: Int64) throws {
        clock.advance(milliseconds)
        try poll()
    }

    /// Does what `poll` does when the wall clock was set or the machine resumed.
    func reportClock() throws {
        engine.context.lock.withLock {
            engine.context.core.scheduler.clockSet(clock.ports.moment)
            engine.maintenance.run(engine.writes, engine.transactions)
            engine.driver.runDueSteps()
        }
        try poll()
    }

    func drain(batch: Int = 0) throws {
        try engine.drain(batch: batch, timeout: nil) { _ in }
        try poll()
    }

    func status(_ id: String) throws -> MessageStatus { try engine.message(id: id).status }

    func close() {
        guard isOpen else { return }
        isOpen = false
        _ = try? engine.close(timeout: 0)
    }

    /// Closes the engine and opens it again, with changed options.
    func reopen(_ change: (inout Options) -> Void = { _ in }) throws {
        close()
        change(&options)
        engine = try Engine(path: directory.store, options: options, ports: clock.ports)
        isOpen = true
        try connect()
    }
}
