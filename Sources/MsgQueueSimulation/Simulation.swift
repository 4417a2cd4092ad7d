import MsgQueue

/// A message queue in virtual time, for testing a retry policy and a transport without threads, files or real time.
///
///     let simulation = try Simulation(seed: 7) { delivery, time in
///         time < .seconds(60) ? .answer(.http(503), after: .milliseconds(80)) : .answer(.sent, after: .milliseconds(80))
///     }
///     try simulation.enqueue("hello", conversation: "ana")
///     simulation.crash(at: .write(3))
///     try simulation.run(until: .seconds(600))
///     print(simulation.report.counts.sent)
///
/// All decisions are made by the engine's own core: order, retries, timeouts, drains, prompts, pauses, recovery after a crash. The store
/// (messages in memory, with transactions), the clocks, the network and the receiver are simulated. Disk errors, a full disk, power loss (a
/// crash keeps what was committed), history, later receipts, threads and the running time of the queue itself are not simulated.
///
/// The same seed and the same script give the same run. Calls happen at the current virtual time; `at(_:do:)` schedules later ones. Use a
/// simulation from one thread. Its wall clock begins at 1,700,000,000,000 ms since 1970 and advances with the virtual time.
public final class Simulation {
    /// Called for each attempt after its beginning is in the store, with the current time. It may call the simulation, except `run`.
    public typealias Transport = (_ delivery: MessageQueue.Delivery, _ time: VirtualTime) -> Reply

    /// Called for each batch; returns a reply for each delivery, in the same order.
    public typealias BatchTransport = (_ deliveries: [MessageQueue.Delivery], _ time: VirtualTime) -> [Reply]

    static let beginning = Moment(wall: 1_700_000_000_000, mono: 5_000_000)

    /// The queue's options. They cannot be changed, like those of an open queue.
    public let options: MessageQueue.Options
    let settings: Options
    /// Random numbers for the host's script, derived from the seed. The engine uses separate generators for jitter and ids.
    public var random: SeededGenerator
    /// The transport; nil: nothing is sent, unless `setBatchTransport` set one.
    public var transport: Transport? {
        didSet {
            if transport != nil || batchTransport == nil { (batchTransport, batches) = (nil, nil) }
            transportChanged()
        }
    }
    private var batchTransport: BatchTransport?
    /// The limits of `batchTransport`.
    private var batches: BatchLimits?

    let engine: SimulatedEngine
    let recorder = Recorder()
    private var timeline = Timeline()
    private var jitter: SeededGenerator
    private var ids: SeededGenerator
    private var network: Network
    private var isInBackground = false

    /// Throws `.invalid` when an option is out of its range.
    public init(seed: UInt64 = 0, options: MessageQueue.Options = .init(), transport: Transport? = nil) throws(MessageQueue.Error) {
        settings = try options.checked()
        self.options = options
        network = Network(connectivity: settings.initialConnectivity)
        random = SeededGenerator(seed: seed)
        jitter = SeededGenerator(seed: ~seed)
        ids = SeededGenerator(seed: seed &+ 1 << 32)
        engine = SimulatedEngine(settings, at: Self.beginning)
        self.transport = transport
        engine.observer = recorder
        engine.stepLimit = 1_000_000
        engine.random = { [unowned self] in jitter.fraction() }
        engine.transport = { [unowned self] start, message in call(start, message) }
        engine.batchTransport = { [unowned self] batch in call(batch) }
        transportChanged()
    }

    // MARK: The transport

    /// Sets a transport that gets several messages in one call, in place of `transport`; nil removes it. Throws `.invalid` when an option is
    /// out of its range.
    public func setBatchTransport(
        _ transport: BatchTransport?, options: MessageQueue.BatchOptions = .init()
    ) throws(MessageQueue.Error) {
        try options.engine.validate()
        self.transport = nil
        (batchTransport, batches) = (transport, transport == nil ? nil : options.engine)
        transportChanged()
    }

    var hasTransport: Bool { transport != nil || batchTransport != nil }

    private func transportChanged() {
        engine.scheduler.transportChanged(present: hasTransport, batches: batches, engine.now)
    }

    // MARK: Time

    /// The current virtual time.
    public var time: VirtualTime { .milliseconds(engine.now.mono - Self.beginning.mono) }

    /// The current wall time, with which `notBefore` and `expiresAt` of a draft are compared.
    public var wallTime: MessageQueue.Timestamp { .init(engine.now.wall) }

    /// The time of the next event: an outcome, an action, a retry, a timeout; nil: none without a further call. In the background, and
    /// while a message waits for a wall time, the engine also has an event at least once a minute.
    public var nextEvent: VirtualTime? { nextMoment.map { .milliseconds(max($0, engine.now.mono) - Self.beginning.mono) } }

    /// Calls `action` at this time; a past time means now. Actions of the same time run in the order in which they were added. `run` calls
    /// them and throws what they throw.
    public func at(_ time: VirtualTime, do action: @escaping (Simulation) throws -> Void) {
        timeline.add(.action(action), at: mono(time))
    }

    /// Advances to `time`, or to the current time if that is later: every event until then has been processed when this returns.
    ///
    /// Throws what an action threw, and `.internal` if the engine violated one of its own rules (a defect of this library). The simulation
    /// then stays at the time of the error and may be continued.
    public func run(until time: VirtualTime) throws {
        let end = max(mono(time), engine.now.mono)
        try runDueSteps()
        while let next = nextMoment, next <= end {
            advance(to: next)
            // One event at a time, as in the engine.
            if let event = timeline.removeFirst(through: engine.now.mono) { try process(event) }
            try runDueSteps()
        }
        advance(to: end)
    }

    private func mono(_ time: VirtualTime) -> Int64 { Self.beginning.mono + time.wholeMilliseconds }

    private var nextMoment: Int64? {
        var times = [timeline.nextTime, engine.deadline].compactMap { $0 }
        if engine.nextExpiry != Int64.max { times.append(engine.now.mono + max(engine.nextExpiry - engine.now.wall, 0)) }
        return times.min()
    }

    private func advance(to mono: Int64) {
        let passed = max(mono - engine.now.mono, 0)
        engine.now.mono += passed
        engine.now.wall += passed
    }

    private func process(_ event: Timeline.Event) throws {
        switch event {
        case .action(let action): try action(self)
        case .crash: crash()
        case .answer(let token, let place, let outcome, let crashes):
            // The outcome belongs to a process that has ended.
            guard crashes == recorder.crashes else { return }
            recorder.ended(place, at: time, MessageQueue.Outcome(engine: outcome))
            if let flight = engine.core.openFlight(token) {
                try engine.end(flight, outcome)
            } else {
                _ = engine.answerLate(token, outcome)
            }
        }
    }

    /// Performs the steps that are due now, and restarts after each crash.
    private func runDueSteps() throws {
        do {
            repeat {
                restart()
                try engine.expireOverdue()
                try engine.runDueSteps()
            } while engine.isDown
        } catch let violation as Violation {
            throw QueueError(.internal, violation.description)
        }
    }

    /// Starts the next process after a crash: it opens the store and sets transport, network and lifecycle, as a host would. Pauses are not
    /// kept.
    func restart() {
        guard engine.isDown else { return }
        repeat { recorder.crashes += 1 } while !engine.restart()
        transportChanged()
        engine.scheduler.networkChanged(network, engine.now)
        engine.scheduler.lifecycleChanged(isInBackground: isInBackground, engine.now)
    }

    private func delivery(_ start: Core.Start, _ message: SimulatedMessage) -> MessageQueue.Delivery {
        let flight = start.flight
        let delivery = Delivery(
            id: message.id, conversation: message.conversation.text, body: message.body, pairs: message.metadata, attempt: flight.number,
            token: flight.token, createdAt: message.createdAt, timeout: flight.deadline - engine.now.mono)
        return MessageQueue.Delivery(delivery)
    }

    private func call(_ start: Core.Start, _ message: SimulatedMessage) {
        // A request by hand is a batch of its own.
        guard batchTransport == nil else { return call([(start, message)]) }
        reply(transport?(delivery(start, message), time) ?? .noAnswer(), to: start, began: time)
    }

    private func call(_ batch: [(start: Core.Start, message: SimulatedMessage)]) {
        let began = time
        let replies = batchTransport?(batch.map { delivery($0.start, $0.message) }, began) ?? []
        // As in the engine, replies of a wrong number count as failures.
        let unknown = Reply.answer(.retry())
        for (place, entry) in batch.enumerated() {
            reply(replies.count == batch.count ? replies[place] : unknown, to: entry.start, began: began)
        }
    }

    private func reply(_ reply: Reply, to start: Core.Start, began: VirtualTime) {
        let flight = start.flight
        let place = recorder.began(start, at: began, isAccepted: reply.isAccepted)
        guard let outcome = reply.outcome else { return }
        timeline.add(
            .answer(token: flight.token, place: place, outcome.engine, crashes: recorder.crashes),
            at: flight.startedAt.mono + reply.latency.wholeMilliseconds)
    }

    // MARK: Network, lifecycle, crashes

    /// Sets the connectivity that the queue sees, now or at `time`. The transport is independent of it: it simulates the receiver.
    public func setConnectivity(
        _ connectivity: MessageQueue.Connectivity, link: MessageQueue.Link = .other, isMetered: Bool = false,
        at time: VirtualTime? = nil
    ) {
        let network = Network(connectivity: connectivity, link: link, metered: isMetered)
        if let time { return at(time) { $0.setConnectivity(connectivity, link: link, isMetered: isMetered) } }
        self.network = network
        if network != engine.scheduler.network { engine.scheduler.networkChanged(network, engine.now) }
    }

    /// Sets the lifecycle. In the background the engine sends nothing automatically, unless the options allow it.
    public func setBackground(_ isInBackground: Bool) {
        self.isInBackground = isInBackground
        engine.scheduler.lifecycleChanged(isInBackground: isInBackground, engine.now)
    }

    /// Ends the process at this point and restarts it. Each point applies once; one in the past is ignored.
    public func crash(at point: CrashPoint) {
        switch point {
        case .write(let number, let isOnDisk): engine.crashes[number] = isOnDisk
        case .time(let time): timeline.add(.crash, at: mono(time))
        }
    }

    /// Ends the process now and restarts it.
    public func crash() {
        engine.crash()
        restart()
    }

    // MARK: Ids

    func makeID(_ sequence: Int64) -> String { MessageID.make(sequence: sequence, now: engine.now.wall, random: ids.next()) }
}
