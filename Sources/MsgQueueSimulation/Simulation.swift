import MsgQueue

/// A message queue in virtual time, with which a host tests its retry policy and its transport: no thread, no file, no real time passes.
///
///     let simulation = try Simulation(seed: 7) { delivery, time in
///         time < .seconds(60) ? .answer(.http(503), after: .milliseconds(80)) : .answer(.sent, after: .milliseconds(80))
///     }
///     try simulation.enqueue("hello", conversation: "ana")
///     simulation.crash(at: .write(3))
///     try simulation.run(until: .seconds(600))
///     print(simulation.report.counts.sent)
///
/// What decides is the engine's own core: order, retries, time-outs, drains, prompts, pauses, recovery after a crash. Simulated are the store
/// (messages in memory, with transactions), the clocks, the network and the receiver. Not simulated: disk errors and a full disk, power loss
/// (a crash keeps what was committed), history and receipts, threads, and the time that the queue itself takes.
///
/// The same seed and the same script give the same run. Calls happen at the current virtual time; `at(_:do:)` makes them later. A simulation
/// belongs to one thread. Its wall clock begins at 1,700,000,000,000 ms since 1970 and goes with the virtual time.
public final class Simulation {
    /// Called for each attempt, once it is in the store, with the time. It may call the simulation, except `run`.
    public typealias Transport = (_ delivery: MessageQueue.Delivery, _ time: VirtualTime) -> Reply

    static let beginning = Moment(wall: 1_700_000_000_000, mono: 5_000_000)

    /// How the queue behaves, unchangeable as that of a queue that is open.
    public let options: MessageQueue.Options
    let settings: Options
    /// Random numbers for the host's own script, from the seed. The engine draws its jitter and its ids from others.
    public var random: SeededGenerator
    /// What sends messages; nil: nothing is sent.
    public var transport: Transport? {
        didSet { engine.scheduler.transportChanged(present: transport != nil, engine.now) }
    }

    let engine: SimulatedEngine
    let recorder = Recorder()
    private var timeline = Timeline()
    private var jitter: SeededGenerator
    private var ids: SeededGenerator
    private var network = Network()
    private var isInBackground = false

    /// Throws `.invalid` when an option is out of its range.
    public init(seed: UInt64 = 0, options: MessageQueue.Options = .init(), transport: Transport? = nil) throws(MessageQueue.Error) {
        settings = try options.checked()
        self.options = options
        random = SeededGenerator(seed: seed)
        jitter = SeededGenerator(seed: ~seed)
        ids = SeededGenerator(seed: seed &+ 1 << 32)
        engine = SimulatedEngine(settings, at: Self.beginning)
        self.transport = transport
        engine.observer = recorder
        engine.stepLimit = 1_000_000
        engine.random = { [unowned self] in jitter.fraction() }
        engine.transport = { [unowned self] start, message in call(start, message) }
        engine.scheduler.transportChanged(present: transport != nil, engine.now)
    }

    // MARK: Time

    /// Now.
    public var time: VirtualTime { .milliseconds(engine.now.mono - Self.beginning.mono) }

    /// Now, by the wall clock: what `notBefore` and `expiresAt` of a draft are compared with.
    public var wallTime: MessageQueue.Timestamp { .init(engine.now.wall) }

    /// When something happens next: an answer, an action, a retry, a time-out. nil: never, unless something is done. In the background, and
    /// while a message waits for a wall-clock time, the engine also wakes to look, once a minute at least.
    public var nextEvent: VirtualTime? { nextMoment.map { .milliseconds(max($0, engine.now.mono) - Self.beginning.mono) } }

    /// Calls `action` at this time, in the order of asking where times are equal; a time that has passed means now. It runs inside `run`, which
    /// throws what it throws.
    public func at(_ time: VirtualTime, do action: @escaping (Simulation) throws -> Void) {
        timeline.add(.action(action), at: mono(time))
    }

    /// Lets time pass, as far as `time` (now, when that has passed): everything until then has happened when this returns.
    ///
    /// Throws what an action threw, and `.internal` when the engine broke a rule of its own (a defect of this library). It then stands where it
    /// was, and may go on.
    public func run(until time: VirtualTime) throws {
        let end = max(mono(time), engine.now.mono)
        try settle()
        while let next = nextMoment, next <= end {
            advance(to: next)
            // One at a time, as in the engine.
            if let event = timeline.removeFirst(through: engine.now.mono) { try happen(event) }
            try settle()
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

    private func happen(_ event: Timeline.Event) throws {
        switch event {
        case .action(let action): try action(self)
        case .crash: crash()
        case .answer(let token, let place, let outcome, let crashes):
            // Nobody hears what was said to a process that has ended.
            guard crashes == recorder.crashes else { return }
            recorder.ended(place, at: time, MessageQueue.Outcome(engine: outcome))
            if let flight = engine.core.openFlight(token) {
                try engine.end(flight, outcome)
            } else {
                _ = engine.answerLate(token, outcome)
            }
        }
    }

    /// Does what is to be done now, over as many crashes as it takes.
    private func settle() throws {
        do {
            repeat {
                restart()
                try engine.expireOverdue()
                try engine.settle()
            } while engine.isDown
        } catch let violation as Violation {
            throw QueueError(.internal, violation.description)
        }
    }

    /// After a crash: another process opens the store, and is told what the host of a real one would tell it. Pauses are not kept.
    func restart() {
        guard engine.isDown else { return }
        repeat { recorder.crashes += 1 } while !engine.restart()
        engine.scheduler.transportChanged(present: transport != nil, engine.now)
        engine.scheduler.networkChanged(network, engine.now)
        engine.scheduler.lifecycleChanged(isInBackground: isInBackground, engine.now)
    }

    private func call(_ start: Core.Start, _ message: SimulatedMessage) {
        let flight = start.flight
        let delivery = Delivery(
            id: message.id, conversation: message.conversation.text, body: message.body, pairs: message.metadata, attempt: flight.number,
            token: flight.token, createdAt: message.createdAt, timeout: flight.deadline - engine.now.mono)
        let began = time
        let reply = transport?(MessageQueue.Delivery(delivery), began) ?? .noAnswer()
        let place = recorder.began(start, at: began, isAccepted: reply.isAccepted)
        guard let outcome = reply.outcome else { return }
        timeline.add(
            .answer(token: flight.token, place: place, outcome.engine, crashes: recorder.crashes),
            at: flight.startedAt.mono + reply.latency.wholeMilliseconds)
    }

    // MARK: The world

    /// Tells the queue about its connection, now or (`time`) later. The transport is not told: it is the receiver's side.
    public func setConnectivity(
        _ connectivity: MessageQueue.Connectivity, link: MessageQueue.Link = .other, isMetered: Bool = false,
        at time: VirtualTime? = nil
    ) {
        let network = Network(connectivity: connectivity, link: link, metered: isMetered)
        if let time { return at(time) { $0.setConnectivity(connectivity, link: link, isMetered: isMetered) } }
        self.network = network
        if network != engine.scheduler.network { engine.scheduler.networkChanged(network, engine.now) }
    }

    /// In the background the engine sends nothing by itself, unless the options say so.
    public func setBackground(_ isInBackground: Bool) {
        self.isInBackground = isInBackground
        engine.scheduler.lifecycleChanged(isInBackground: isInBackground, engine.now)
    }

    /// Ends the process at this point, and starts it again. Each point counts once; one that has passed never comes.
    public func crash(at point: CrashPoint) {
        switch point {
        case .write(let number, let isOnDisk): engine.crashes[number] = isOnDisk
        case .time(let time): timeline.add(.crash, at: mono(time))
        }
    }

    /// Ends the process now, and starts it again.
    public func crash() {
        engine.crash()
        restart()
    }

    // MARK: Ids

    func makeID(_ sequence: Int64) -> String { MessageID.make(sequence: sequence, now: engine.now.wall, random: ids.next()) }
}
