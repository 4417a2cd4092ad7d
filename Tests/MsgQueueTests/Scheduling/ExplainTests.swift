import Glibc
import Testing

@testable import MsgQueue

/// X1: `explain` agrees with what the scheduler does next.
@Suite struct ExplainTests {
    private static let seeds: ClosedRange<UInt64> = 1...(getenv("MSGQ_SOAK") == nil ? 40 : 300)

    @Test(arguments: seeds)
    func X1_explain_agrees_with_what_happens_next(seed: UInt64) throws {
        var random = SeededGenerator(seed &+ 7_000)
        var options = Options()
        options.mode = random.pick([.auto, .auto, .ask, .manual])
        options.maxInFlight = random.pick([1, 1, 2, 4])
        options.backoff = random.pick([.ladder([]), .ladder([20, 300]), .ladder([2_000, 9_000])])
        options.strictOrder = random.chance(70)
        options.finalFailure = random.chance(30) ? .block : .stepAside
        options.drainBatch = random.pick([0, 0, 3])
        options.unmeteredOnly = random.chance(10)
        options.onlineDebounce = random.pick([0, 500])
        var pacing = SeededGenerator(seed &+ 66_000)
        if pacing.chance(30) {
            options.ratePerSecond = pacing.pick([0.5, 10, 1_000])
            options.rateBurst = pacing.pick([1, 5])
            options.rampUp = pacing.pick([0, 8_000])
        }
        let simulation = try Simulation(options)
        simulation.checker.isDisabled = true
        simulation.preload((0..<random.int(0...60)).map { _ in random.pick(Self.conversations) })
        for step in 0..<120 {
            try act(simulation, &random)
            try check(simulation, "seed \(seed), step \(step)")
        }
    }

    private static let conversations: [Name] = ["ana", "ben", "cem"]

    /// Starts one attempt at a time. Checks the explanation of each before it starts, and of all queued ones when none starts.
    private func check(_ simulation: Simulation, _ place: String) throws {
        for _ in 0..<200 {
            try simulation.settle(starts: 0)
            guard simulation.hasStart else { break }
            let inSession = simulation.scheduler.session?.conversation.map { Int64(simulation.store.count(of: $0)) }
            let step = simulation.scheduler.next(
                simulation.now, queued: Int64(simulation.store.queued.count), inSession: inSession)
            guard case .start(_, let sequence, _) = step else { break }
            #expect(reason(sequence, simulation) == .next, "\(place): \(sequence) starts\n\(simulation.tail())")
            try simulation.settle(starts: 1)
        }
        guard !simulation.hasStart, simulation.scheduler.flights.slotsTaken < simulation.scheduler.flights.slots else { return }
        for sequence in simulation.store.queued where !simulation.sendingSequences.contains(sequence) {
            let reason = reason(sequence, simulation)
            #expect(
                reason != .next && reason != .done,
                "\(place): \(sequence) does not start: \(simulation.scheduler.gate.network), budget \(simulation.scheduler.gate.budget)\n\(simulation.tail(10))"
            )
        }
        checkQueue(simulation, place)
    }

    /// Checks, when nothing starts, that the reason of the queue is one of its messages' and ends with the first of theirs.
    private func checkQueue(_ simulation: Simulation, _ place: String) {
        guard simulation.scheduler.flights.isEmpty else { return }
        let queued = simulation.store.queued
        let reasons = QueueReasons(simulation.scheduler, simulation.now)
        var wait = reasons.wait(queued: Int64(queued.count), hasStart: false)
        let rows = queued.prefix(QueueSample.limit).compactMap { sequence in
            simulation.row(sequence).map { (conversation: $0.conversation, head: $0.head) }
        }
        let look = QueueSample(rows)
        if reasons.needsSample(wait) { wait = reasons.wait(wait, look) }
        guard !queued.isEmpty, !simulation.scheduler.gate.isHeldByReceiver(simulation.now) else { return }
        // A reason of the engine comes before those of messages, and not all of a long backlog is known.
        guard look.isComplete, wait.reason != .metered || !simulation.options.unmeteredOnly else { return }
        let explanations = queued.compactMap { simulation.wait(of: $0) }
        if wait.reason == .person, let count = wait.count {
            #expect(count >= Int64(explanations.count { $0.reason == .person }), "\(place): \(wait)\n\(explanations)")
        }
        #expect(explanations.contains { $0.reason == wait.reason }, "\(place): \(wait)\n\(explanations)\n\(simulation.tail(10))")
        guard [.retrying, .scheduled].contains(wait.reason) else { return }
        // A message behind another, or that expires, is not sent at the end of its wait.
        let sendable = explanations.filter {
            [.retrying, .scheduled].contains($0.reason) && [.next, .trigger, .person, .rate].contains($0.after)
        }
        guard let first = sendable.map(\.until).min() else { return }
        #expect(abs(first - wait.until) <= 2, "\(place): \(wait)\n\(explanations)\n\(simulation.tail(10))")
    }

    /// The first reason, without the prediction of what follows.
    private func reason(_ sequence: Int64, _ simulation: Simulation) -> Explanation.Reason? {
        guard let message = simulation.row(sequence) else { return nil }
        let reasons = MessageReasons(simulation.scheduler, simulation.now)
        let flight = reasons.scheduler.flights.values.first { $0.conversation == message.conversation }
        // A round passes over what is not in it.
        let isPassing = reasons.isInRound(message.head, message.conversation)
        var deferred = 0
        let holder =
            flight?.sequence
            ?? (simulation.store.lanes[message.conversation] ?? []).first { before in
                guard before < sequence, let head = simulation.head(before) else { return false }
                return isPassing ? reasons.isInRound(head, message.conversation) : reasons.holds(head, after: &deferred)
            }
        return reasons.explain(message.head, message.conversation, holder: holder).reason
    }

    private func act(_ simulation: Simulation, _ random: inout SeededGenerator) throws {
        let wall = simulation.now.wall
        switch random.int(0...99) {
        case 0..<20:
            let (kind, delay) = (random.int(0...9), random.int64(1...5_000))
            _ = simulation.enqueue([random.pick(Self.conversations)]) { message in
                switch kind {
                case 0: message.notBefore = wall + delay
                case 1: message.expiresAt = wall + delay
                case 2: message.unmeteredOnly = true
                default: break
                }
            }
        case 20..<60:
            guard let flight = simulation.flights.first else { return }
            try simulation.answer(
                flight.sequence, random.pick([.sent, .sent, .retry(.server), .reject(), .offline, .retry(.timeout, retryAfter: 4_000)]))
        case 60..<75: simulation.advance(random.int64(1...3_000))
        case 75..<80: simulation.setNetwork(random.pick([.online, .online, .offline, .unknown]), metered: random.chance(30))
        case 80..<88: _ = simulation.drain(random.pick([nil, nil, "ana", "ben"]), batch: random.pick([0, 0, 2]))
        case 88: simulation.retryAll(random.pick([nil, "ana"]))
        case 89..<92: if let sequence = simulation.store.queued.first { _ = simulation.sendNow(sequence) }
        case 92..<94: _ = simulation.scheduler.pause(random.pick([nil, "ana"]))
        case 94..<97: for scope in [nil, "ana"] as [Name?] { _ = simulation.scheduler.resume(scope, simulation.now) }
        case 97..<98: simulation.scheduler.lifecycleChanged(isInBackground: true, simulation.now)
        case 98..<99: simulation.scheduler.lifecycleChanged(isInBackground: false, simulation.now)
        default: simulation.scheduler.hold(until: simulation.now.mono + random.int64(1...3_000), simulation.now)
        }
    }
}
