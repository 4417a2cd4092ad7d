import Glibc
import Testing

@testable import MsgQueue

/// X1, Q20: what the text of an explanation promises happens exactly then, and not before. Each text is checked in copies of the simulation
/// in which only time passes, or only the event that the text names takes place.
@Suite struct PromiseTests {
    private static let conversations: [Name] = ["ana", "ben", "cem"]

    private static let seeds: ClosedRange<UInt64> = 1...(getenv("MSGQ_SOAK") == nil ? 200 : 2_000)

    @Test(arguments: seeds)
    func X1_what_an_explanation_promises_happens_then_and_not_before(seed: UInt64) throws {
        var random = SeededGenerator(seed &+ 52_000)
        var options = options(&random)
        var pacing = SeededGenerator(seed &+ 91_000)
        if pacing.chance(35) {
            options.ratePerSecond = pacing.pick([0.2, 2, 10, 1_000])
            options.rateBurst = pacing.pick([1, 1, 3])
            options.rampUp = pacing.pick([0, 0, 8_000])
        }
        // Its own generator, so that a seed without batches and skips does what it did before.
        var batching = SeededGenerator(seed &+ 95_000)
        var limits: BatchLimits?
        if batching.chance(35) {
            var chosen = BatchLimits()
            chosen.maxMessages = batching.pick([1, 3, 100])
            chosen.linger = batching.pick([0, 0, 400, 5_000])
            chosen.singleConversation = batching.chance(20)
            limits = chosen
        }
        let skips = batching.pick([0, 0, 20])
        let simulation = try EngineSimulation(options, batches: limits)
        simulation.answersInCall = random.chance(20)
        simulation.preload((0..<random.int(0...6)).map { _ in random.pick(Self.conversations) })
        for step in 0..<80 {
            if skips > 0, batching.chance(skips), let flight = simulation.flights.first {
                try simulation.answer(flight.sequence, .skipped)
            } else if limits?.linger ?? 0 > 0, batching.chance(20) {
                simulation.enqueue(batching.pick(Self.conversations))
            }
            try act(simulation, &random)
            simulation.expireOverdue()
            try simulation.settle()
            guard random.chance(50) else { continue }
            let place = "seed \(seed), step \(step)"
            let queued = simulation.queued.filter { !simulation.sendingSequences.contains($0) }
            if !queued.isEmpty { try checkMessage(random.pick(queued), simulation, place) }
            try checkQueue(simulation, place)
        }
    }

    private func options(_ random: inout SeededGenerator) -> Options {
        var options = Options()
        options.mode = random.pick([.auto, .auto, .ask, .manual])
        options.direct = random.chance(60)
        options.maxInFlight = random.pick([1, 2, 4])
        options.backoff = random.pick([.automatic, .ladder([]), .ladder([20, 300]), .ladder([2_000, 9_000, 9_000])])
        options.strictOrder = random.chance(75)
        options.finalFailure = random.chance(30) ? .block : .stepAside
        options.drainBatch = random.pick([0, 0, 0, 2])
        options.unmeteredOnly = random.chance(10)
        options.onlineDebounce = random.pick([0, 500])
        options.sendInBackground = random.chance(25)
        options.triggerInterval = random.pick([0, 0, 0, 7_000])
        options.pauseOnUnauthorized = random.chance(20)
        options.onDemandTimeout = random.pick([3_000, 700])
        options.liveShare = random.pick([0.5, 0.5, 0, 1])
        options.soonestExpiryFirst = random.chance(20)
        return options
    }

    // MARK: One message

    private func checkMessage(_ sequence: Int64, _ simulation: EngineSimulation, _ place: String) throws {
        let row = try #require(simulation.row(sequence))
        let answer = try #require(simulation.explain(sequence))
        let text = try #require(simulation.text(of: sequence))
        let wait = answer.connected ?? answer.wait
        let claim = Claim(text, wait, conversation: row.conversation, sequence: sequence)
        let violation = try claim.violation(simulation)
        #expect(violation == nil, "\(place): \(text): \(violation ?? "")\n\(wait)\n\(row)\n\(simulation.options)\n\(simulation.tail(25))")
    }

    // MARK: The queue

    private func checkQueue(_ simulation: EngineSimulation, _ place: String) throws {
        let scheduler = simulation.scheduler
        guard scheduler.flights.isEmpty, !simulation.queued.isEmpty else { return }
        let queued = simulation.queued
        let reasons = QueueReasons(scheduler, simulation.now)
        var wait = reasons.wait(queued: Int64(queued.count), hasStart: simulation.hasStart)
        let rows = simulation.queued(after: 0, limit: QueueSample.limit)
        if !queued.isEmpty, reasons.needsSample(wait) { wait = reasons.wait(wait, QueueSample(rows)) }
        var facts = BannerFacts()
        (facts.connectivity, facts.mode, facts.isPaused) = (
            scheduler.gate.network.connectivity, simulation.options.mode, scheduler.gate.pauses.isPaused
        )
        facts.queued = Int64(queued.count)
        let text = Words.queue(
            wait, facts, pausedConversations: Int64(scheduler.gate.pauses.conversations.count), now: simulation.now.wall,
            isAsking: scheduler.prompt.isAsking(simulation.now))
        let violation = try Claim(text, wait, conversation: nil, sequence: nil).violation(simulation)
        #expect(violation == nil, "\(place): \(text): \(violation ?? "")\n\(wait)\n\(simulation.options)\n\(simulation.tail(25))")
    }

    // MARK: What happens

    private func act(_ simulation: EngineSimulation, _ random: inout SeededGenerator) throws {
        switch random.int(0...99) {
        case 0..<22: enqueue(simulation, &random)
        case 22..<50:
            guard let flight = simulation.flights.first else { return }
            try simulation.answer(flight.sequence, outcome(&random))
        case 50..<63:
            simulation.advance(random.pick([random.int64(1...300), random.int64(1...3_000), random.int64(1...20_000)]))
        case 63..<73: simulation.setNetwork(random.pick([.online, .online, .offline, .offline, .unknown]), metered: random.chance(20))
        case 73..<80: _ = simulation.drain(random.pick([nil, nil, "ana", "ben"]), batch: random.pick([0, 0, 2]))
        case 80: simulation.retryAll(random.pick([nil, "ana"]))
        case 81..<86: if let sequence = simulation.queued.randomElement(using: &random) { _ = simulation.sendNow(sequence) }
        case 86..<90: simulation.pause(random.pick([nil, "ana"]))
        case 90..<94: for scope in [nil, "ana"] as [Name?] { simulation.resume(scope) }
        case 94..<96: simulation.setBackground(true)
        case 96..<98: simulation.setBackground(false)
        case 98: if let hung = simulation.hanging.first { simulation.returnCall(hung.token, random.pick([nil, .sent])) }
        default: simulation.scheduler.hold(until: simulation.now.mono + random.int64(1...3_000), simulation.now)
        }
    }

    private func outcome(_ random: inout SeededGenerator) -> Outcome {
        var outcome: Outcome = random.pick([
            .sent, .sent, .retry(.server), .retry(.server), .retry(.network), .reject(), .offline, .http(401),
            .retry(.timeout, retryAfter: 4_000),
        ])
        outcome.retryAfterIsForQueue = random.chance(30)
        return outcome
    }

    private func enqueue(_ simulation: EngineSimulation, _ random: inout SeededGenerator) {
        let (kind, wall) = (random.int(0...11), simulation.now.wall)
        let priority: Int32 = random.chance(30) ? random.pick([-5, 5, 6]) : 0
        let (delay, expiry) = (random.pick([1_000, random.int64(1...5_000), random.int64(1...30_000)]), random.int64(1...20_000))
        simulation.enqueue([random.pick(Self.conversations)]) { message in
            message.priority = priority
            switch kind {
            case 0..<4: message.notBefore = wall + delay
            case 4: (message.notBefore, message.expiresAt) = (wall + delay, wall + delay + expiry)
            case 5: message.expiresAt = wall + expiry
            case 6: message.unmeteredOnly = true
            case 7: (message.notBefore, message.unmeteredOnly) = (wall + delay, true)
            default: break
            }
        }
    }
}

/// What a text says will happen to a message, or (`sequence` nil) to any message of the queue.
private struct Claim {
    private let text: String
    private let wait: Wait
    private let conversation: Name?
    private let sequence: Int64?

    init(_ text: String, _ wait: Wait, conversation: Name?, sequence: Int64?) {
        (self.text, self.wait, self.conversation, self.sequence) = (text, wait, conversation, sequence)
    }

    private func says(_ part: String) -> Bool { text.contains(part) }
    private var isEarliest: Bool { says("at the earliest") }
    private var isInTurn: Bool { says("in its turn") }

    private func isMet(_ future: Future) -> Bool { sequence.map(future.started.contains) ?? !future.started.isEmpty }

    /// An event may take so long that messages expire.
    private func hasExpired(_ future: Future) -> Bool { future.expired.contains { sequence == nil || $0 == sequence } }

    /// nil: the text is true.
    func violation(_ simulation: EngineSimulation) throws -> String? {
        if says("as soon as") { return try withBatch(simulation) }
        if wait.ahead != nil { return try othersFirst(simulation) }
        // Attempts and drains that are under way may end meanwhile: what follows them is not what the text is about.
        let scheduler = simulation.scheduler
        guard scheduler.session == nil, scheduler.flights.slotsTaken < scheduler.flights.slots, !simulation.hasStart else { return nil }
        if sequence == nil, scheduler.flights.values.contains(where: \.isEnded) { return nil }
        // A batch may wait for more messages after any other wait.
        if scheduler.flights.limits?.linger ?? 0 > 0 { return nil }
        if says("permits the next attempt") { return try atThatRate(simulation) }
        if says("when connected") { return try whenConnected(simulation) }
        if says("the next time the queue runs") || says("when the queue runs") { return try atNextRun(simulation) }
        if ["tried again in", "to be sent in", "Sending resumes in", "The next one is in"].contains(where: says) {
            return try atThatTime(simulation)
        }
        if says("ready to send") || says("The receiver asked to wait") { return try whenReady(simulation) }
        if says("expires in") { return try atExpiry(simulation) }
        if isEarliest { return try notBefore(wait.earliest, Future(simulation)) { try $0.runQueue() } }
        if says("Waiting for you") || says("Waiting for your confirmation") { return try byHand(simulation) }
        if says("is paused") || says("unmetered") { return try withoutEvent(simulation) }
        return nil
    }

    /// The text says a number of messages.
    private func missing(_ future: Future) -> String? {
        guard let count = wait.count, future.started.count + future.expired.count < count else { return nil }
        return "\(future.started) are not \(count) messages"
    }

    /// The next attempt is made for another message.
    private func othersFirst(_ simulation: EngineSimulation) throws -> String? {
        guard says("go first") else { return "it does not say so" }
        let future = try Future(simulation)
        for flight in simulation.flights { try future.answer(flight, .sent) }
        try future.rest()
        return future.started.first == sequence ? "it was first: \(future.started)" : nil
    }

    /// At `wait.until`, without any event, and not a millisecond before.
    private func atThatTime(_ simulation: EngineSimulation) throws -> String? {
        guard says("in \(Words.interval(wait.until - simulation.now.wall))") || wait.until <= simulation.now.wall else {
            return "another time than \(wait.until - simulation.now.wall) ms"
        }
        return try exactly(wait.until, Future(simulation))
    }

    /// At `wait.until` at the latest.
    private func withBatch(_ simulation: EngineSimulation) throws -> String? {
        guard says("in \(Words.interval(wait.until - simulation.now.wall))") else { return "another time" }
        let future = try Future(simulation)
        try future.run(until: wait.until)
        return isMet(future) || hasExpired(future) ? nil : "not attempted after \(wait.until - simulation.now.wall) ms: \(future.started)"
    }

    /// An attempt of any message, at `wait.until`.
    private func atThatRate(_ simulation: EngineSimulation) throws -> String? {
        let left = wait.until - simulation.now.wall
        guard says(left < 1_000 ? "within a second" : "in \(Words.interval(left))") else { return "another time than \(left) ms" }
        return try exactly(wait.until, Future(simulation)) { !$0.started.isEmpty }
    }

    /// How long the rate delays all messages of a simulation at most.
    private func runsForRate(_ future: Future) throws {
        let rate = future.options.ratePerSecond
        if rate > 0 { try future.run(until: future.now.wall + Int64(100_000 / min(rate, 1))) }
    }

    private func exactly(_ time: Int64, _ future: Future) throws -> String? { try exactly(time, future, isMet) }

    private func exactly(_ time: Int64, _ future: Future, _ isMet: (Future) -> Bool) throws -> String? {
        let start = future.now.wall
        if time > start { try future.run(until: time - 1) }
        if isMet(future) { return "attempted before \(time - start) ms: \(future.started)" }
        try future.run(until: time)
        return isMet(future) ? nil : "not attempted after \(time - start) ms: \(future.started)"
    }

    private func notBefore(_ time: Int64, _ future: Future, _ event: (Future) throws -> Void) throws -> String? {
        let start = future.now.wall
        try event(future)
        if future.now.wall < time - 1 { try future.run(until: time - 1) }
        return future.now.wall < time && isMet(future) ? "attempted before \(time - start) ms: \(future.started)" : nil
    }

    private func whenConnected(_ simulation: EngineSimulation) throws -> String? {
        let future = try Future(simulation)
        if isEarliest {
            if let violation = try notBefore(wait.until, Future(simulation), { try $0.connect() }) { return violation }
            try future.connect()
            if future.now.wall < wait.until { try future.run(until: wait.until) }
        } else {
            try future.connect()
        }
        if isInTurn || hasExpired(future) { return nil }
        return isMet(future) ? nil : "not attempted when connected: \(future.started)"
    }

    private func atNextRun(_ simulation: EngineSimulation) throws -> String? {
        // A periodic trigger is a run, too; and of the whole queue, other messages may start by themselves.
        let options = simulation.options
        let hasTrigger = options.triggerInterval != 0 && (!simulation.scheduler.gate.isInBackground || options.sendInBackground)
        // What is left of a batch may be enough for the message, and the end of a hold is a run, too.
        let scheduler = simulation.scheduler
        let isHeld = scheduler.gate.isHeldByReceiver(simulation.now) || scheduler.gate.holds.offlineHold(simulation.now) != nil
        let mayBeReached = isHeld || options.drainBatch != 0 && wait.reason.isTimed
        if !hasTrigger, !mayBeReached, sequence != nil, let violation = try withoutEvent(simulation) { return violation }
        let future = try Future(simulation)
        if isEarliest {
            if let violation = try notBefore(wait.earliest, Future(simulation), { try $0.runQueue() }) { return violation }
            try future.run(until: wait.earliest)
        }
        try future.runQueue()
        if sequence == nil { try runsForRate(future) }
        if let violation = missing(future) { return violation }
        if isInTurn || hasExpired(future) { return nil }
        return isMet(future) ? nil : "not attempted when the queue ran: \(future.started)"
    }

    private func whenReady(_ simulation: EngineSimulation) throws -> String? {
        let isOffline = !simulation.scheduler.gate.network.isOnline
        func event(_ future: Future) throws {
            if isOffline { try future.connect() }
            try future.drainAll()
        }
        if let violation = try notBefore(wait.until, Future(simulation), event) { return violation }
        let future = try Future(simulation)
        try future.run(until: wait.until)
        if isMet(future), says("ready to send") { return "attempted without a drain: \(future.started)" }
        try event(future)
        if !isMet(future) { try runsForRate(future) }
        return isMet(future) || wait.isInTurn ? nil : "not ready after \(wait.until - simulation.now.wall) ms: \(future.started)"
    }

    private func atExpiry(_ simulation: EngineSimulation) throws -> String? {
        let future = try Future(simulation)
        if !simulation.scheduler.gate.network.isOnline { try future.connect() }
        try future.run(until: wait.expiresAt)
        if isMet(future), sequence != nil { return "attempted before it expired" }
        guard let sequence else { return nil }
        return future.row(sequence)?.progress.status == .failed ? nil : "it did not expire"
    }

    private func byHand(_ simulation: EngineSimulation) throws -> String? {
        if sequence != nil, let violation = try withoutEvent(simulation) { return violation }
        let future = try Future(simulation)
        if !simulation.scheduler.gate.network.isOnline { try future.connect() }
        // A batch limits what one drain sends.
        for _ in 0..<max(1, sequence == nil ? Int(wait.count ?? 1) : 1) {
            try future.drainAll()
            if sequence == nil { try runsForRate(future) }
        }
        if let violation = missing(future) { return violation }
        if wait.isInTurn || hasExpired(future) { return nil }
        return isMet(future) ? nil : "not attempted by a drain: \(future.started)"
    }

    /// Nothing is attempted for long.
    private func withoutEvent(_ simulation: EngineSimulation) throws -> String? {
        let future = try Future(simulation)
        if !simulation.scheduler.gate.network.isOnline, !says("unmetered"), !says("queue runs") { try future.connect() }
        try future.run(until: future.now.wall + 100_000)
        return isMet(future) ? "attempted without the event: \(future.started)" : nil
    }
}
