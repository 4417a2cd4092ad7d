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
/// The queue is the engine itself, with a store in memory: everything that it decides, writes and recovers is its own. The clocks, the
/// network, the receiver and the end of a process are simulated. Disk errors, a full disk, power loss (a crash keeps what was committed),
/// later receipts, threads and the running time of the queue itself are not simulated.
///
/// The same seed and the same script give the same run. Calls happen at the current virtual time; `at(_:do:)` schedules later ones. Use a
/// simulation from one thread. Its wall clock begins at 1,700,000,000,000 ms since 1970 and advances with the virtual time. A simulation
/// needs about 400 kB.
public final class Simulation {
    /// Called for each attempt after its beginning is in the store, with the current time. It may call the simulation, except `run`.
    public typealias Transport = (_ delivery: MessageQueue.Delivery, _ time: VirtualTime) -> Reply

    /// Called for each batch; returns a reply for each delivery, in the same order.
    public typealias BatchTransport = (_ deliveries: [MessageQueue.Delivery], _ time: VirtualTime) -> [Reply]

    private static let beginning: Int64 = 1_700_000_000_000

    /// The queue's options. They cannot be changed, like those of an open queue.
    public let options: MessageQueue.Options
    private let settings: Options
    /// Random numbers for the host's script, derived from the seed. The engine uses a separate generator.
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

    /// The process that is running.
    private var running: SimulatedProcess
    /// Processes that have ended, whose functions may still be running.
    private var ended: [SimulatedProcess] = []
    private let clock: SimulatedClock
    let disk = SimulatedDisk()
    let recorder = Recorder()
    private var timeline = Timeline()
    /// The commits at which the process ends, by their numbers; the value says whether the transaction is stored.
    private var crashes: [Int: Bool] = [:]
    private var network: Network
    private var isInBackground = false
    /// The error of an opening, which `run` throws.
    private var failure: MessageQueue.Error?

    /// Throws `.invalid` when an option is out of its range.
    public init(seed: UInt64 = 0, options: MessageQueue.Options = .init(), transport: Transport? = nil) throws(MessageQueue.Error) {
        settings = try options.checked()
        self.options = options
        network = Network(connectivity: settings.initialConnectivity)
        random = SeededGenerator(seed: seed)
        clock = SimulatedClock(start: Self.beginning, seed: ~seed)
        running = try SimulatedProcess(settings, clock, disk)
        self.transport = transport
        disk.fate = { [unowned self] number, _ in crashes.removeValue(forKey: number).map { .crash(isStored: $0) } ?? .stored }
        running.observe(recorder)
        transportChanged()
    }

    deinit { for process in ended + [running] { process.dispose() } }

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
        // The engine calls the transport on the thread of the simulation.
        nonisolated(unsafe) unowned let simulation = self
        let number = recorder.crashes
        perform { process throws(QueueError) in
            guard hasTransport else { return try process.engine.setTransport(nil) }
            guard let batches else {
                let call: TransportFunction = { simulation.call([$0], ofProcess: number).first ?? .pending }
                return try process.engine.setTransport(Registration(call))
            }
            let call: BatchTransportFunction = { simulation.call($0, ofProcess: number) }
            try process.engine.setTransport(Registration(batches: batches, call))
        }
    }

    private func call(_ deliveries: [Delivery], ofProcess process: Int) -> [Outcome] {
        let pending = deliveries.map { _ in Outcome.pending }
        guard process == recorder.crashes, !disk.isDown else { return pending }
        let (began, now) = (time, clock.now.mono)
        for delivery in deliveries where !recorder.isKnown(delivery.id) {
            if let message = try? running.engine.message(id: delivery.id) { recorder.found(delivery.id, message.sequence) }
        }
        let given = deliveries.map { MessageQueue.Delivery($0) }
        let replies: [Reply]
        if let batchTransport {
            replies = batchTransport(given, began)
        } else {
            replies = given.map { transport?($0, began) ?? .noAnswer() }
        }
        for (place, delivery) in deliveries.enumerated() {
            // As in the engine, replies of a wrong number count as failures.
            let reply = replies.count == deliveries.count ? replies[place] : .answer(.retry())
            let index = recorder.began(delivery, at: began, isAccepted: reply.isAccepted)
            guard let outcome = reply.outcome else { continue }
            timeline.add(
                .answer(token: delivery.token, place: index, outcome.engine, crashes: process),
                at: now + reply.latency.wholeMilliseconds)
        }
        return pending
    }

    // MARK: Time

    /// The current virtual time.
    public var time: VirtualTime { .milliseconds(clock.now.mono - SimulatedClock.firstMono) }

    /// The current wall time, with which `notBefore` and `expiresAt` of a draft are compared.
    public var wallTime: MessageQueue.Timestamp { .init(clock.now.wall) }

    /// The time of the next event: an outcome, an action, a retry, a timeout; nil: none without a further call. In the background, and
    /// while a message waits for a wall time, the engine also has an event at least once a minute.
    public var nextEvent: VirtualTime? {
        nextMoment.map { .milliseconds(max($0, clock.now.mono) - SimulatedClock.firstMono) }
    }

    /// Calls `action` at this time; a past time means now. Actions of the same time run in the order in which they were added. `run` calls
    /// them and throws what they throw.
    public func at(_ time: VirtualTime, do action: @escaping (Simulation) throws -> Void) {
        timeline.add(.action(action), at: mono(time))
    }

    /// Advances to `time`, or to the current time if that is later: every event until then has been processed when this returns.
    ///
    /// Throws what an action threw, and the error of an opening that failed after a crash (a defect of this library). The simulation then
    /// stays at the time of the error and may be continued.
    public func run(until time: VirtualTime) throws {
        let end = max(mono(time), clock.now.mono)
        repeat {
            // One event at a time, as in the engine.
            if let event = timeline.removeFirst(through: clock.now.mono) { try process(event) }
            try runDueSteps(until: end)
        } while clock.now.mono < end || timeline.nextTime.map { $0 <= end } ?? false
    }

    private func mono(_ time: VirtualTime) -> Int64 { SimulatedClock.firstMono + time.wholeMilliseconds }

    private var nextMoment: Int64? {
        [timeline.nextTime, running.nextDue].compactMap { $0 }.min()
    }

    private func process(_ event: Timeline.Event) throws {
        switch event {
        case .action(let action): try action(self)
        case .crash: crash()
        case .answer(let token, let place, let outcome, let crashes):
            // The outcome belongs to a process that has ended.
            guard crashes == recorder.crashes else { return }
            let commits = disk.commits
            // One that comes too late is refused.
            perform { process throws(QueueError) in _ = try process.engine.complete([(token, outcome)]) }
            // The process may have ended before the outcome was stored, which the first commit does.
            let isKnown = !disk.isDown || disk.isStored || disk.commits > commits + 1
            if isKnown { recorder.ended(place, at: time, MessageQueue.Outcome(engine: outcome)) }
        }
    }

    /// Runs what is due until the next event or `end`, and restarts after each crash.
    private func runDueSteps(until end: Int64) throws {
        repeat {
            restart()
            perform { process throws(QueueError) in try process.run { min(timeline.nextTime ?? end, end) } }
        } while disk.isDown
        for process in ended { process.dispose() }
        ended = []
        if let failure {
            self.failure = nil
            throw failure
        }
    }

    /// Calls the engine, whose process may end during the call.
    private func perform(_ body: (SimulatedProcess) throws(QueueError) -> Void) {
        do throws(QueueError) { try body(running) } catch { if !disk.isDown, failure == nil { failure = error } }
    }

    /// Starts the next process after a crash: it opens the store and sets transport, network and lifecycle, as a host would. Pauses are not
    /// kept.
    func restart() {
        var changed: Set<Int64> = []
        while disk.isDown {
            running.kill()
            ended.append(running)
            changed.formUnion(disk.changed)
            recorder.processEnded()
            do throws(QueueError) { running = try SimulatedProcess(settings, clock, disk) } catch {
                // It may have ended during the recovery.
                guard disk.isDown else { return failure = error }
                continue
            }
            // What their last commits removed, the processes could not report.
            recorder.removed(Set(recorder.ids(at: changed).filter { (try? running.engine.message(id: $0)) == nil }))
            running.observe(recorder)
            transportChanged()
            perform { process throws(QueueError) in
                if network != Network(connectivity: settings.initialConnectivity) { try process.engine.setNetwork(network) }
                try process.engine.setLifecycle(isInBackground: isInBackground)
            }
        }
    }

    // MARK: Network, lifecycle, crashes

    /// Sets the connectivity that the queue sees, now or at `time`. The transport is independent of it: it simulates the receiver.
    public func setConnectivity(
        _ connectivity: MessageQueue.Connectivity, link: MessageQueue.Link = .other, isMetered: Bool = false,
        at time: VirtualTime? = nil
    ) {
        if let time { return at(time) { $0.setConnectivity(connectivity, link: link, isMetered: isMetered) } }
        network = Network(connectivity: connectivity, link: link, metered: isMetered)
        perform { process throws(QueueError) in try process.engine.setNetwork(network) }
    }

    /// Sets the lifecycle. In the background the engine sends nothing automatically, unless the options allow it.
    public func setBackground(_ isInBackground: Bool) {
        self.isInBackground = isInBackground
        perform { process throws(QueueError) in try process.engine.setLifecycle(isInBackground: isInBackground) }
    }

    /// Ends the process at this point and restarts it. Each point applies once; one in the past is ignored.
    public func crash(at point: CrashPoint) {
        switch point {
        case .write(let number, let isOnDisk): if number > disk.commits { crashes[number] = isOnDisk }
        case .time(let time): timeline.add(.crash, at: mono(time))
        }
    }

    /// Ends the process now and restarts it.
    public func crash() {
        running.kill()
        restart()
    }

    /// Runs a call of the host. When the process ends during it, the next one is started and the call throws `.unknown`.
    func calling<T>(_ body: (Engine) throws(QueueError) -> T) throws(QueueError) -> T {
        restart()
        do throws(QueueError) {
            let value = try body(running.engine)
            guard disk.isDown else { return value }
        } catch { guard disk.isDown else { throw error } }
        restart()
        throw QueueError(.unknown, "the process ended during the call")
    }
}
