@testable import MsgQueue

/// Applies random but repeatable inputs of a host and its environment to a simulation.
struct RandomHost {
    let seed: UInt64
    let steps: Int
    private var random: SeededGenerator
    private let simulation: Simulation
    private let conversations: [Name]
    private let isRough: Bool
    private let usesKeys: Bool
    /// The priorities of messages; 0 alone: they have none.
    private let priorities: [Int32]
    /// Of priorities and live shares. Its own generator, so that a seed without them does what it did before.
    private var ranking: SeededGenerator
    /// Of batches, for the same reason.
    private var batching: SeededGenerator
    /// The conversations that a call of a batch transport has stopped, by the call; the value: it skips the rest.
    private var stopped: [UInt64: [Name: Bool]] = [:]

    init(seed: UInt64, steps: Int) throws {
        self.seed = seed
        self.steps = steps
        random = SeededGenerator(seed)
        var options = Options()
        options.mode = random.pick([.auto, .auto, .ask, .manual])
        options.direct = random.chance(75)
        options.maxInFlight = random.pick([1, 1, 2, 3, 8])
        options.maxRetries = random.pick([0, 1, 5, 5])
        options.backoff = random.pick([
            .automatic, .ladder([]), .ladder([1, 20, 300]), .ladder([0, 0]), .exponential(base: 100, factor: 2, cap: 90_000),
        ])
        options.exhausted = random.chance(15) ? .discard : .keep
        options.refused = random.chance(15) ? .discard : .keep
        options.holdInterrupted = random.chance(15)
        options.conflictIsSent = random.chance(30)
        options.strictOrder = random.chance(80)
        options.onlineDebounce = random.pick([0, 500])
        options.drainBatch = random.pick([0, 0, 0, 5])
        options.attemptTimeout = random.pick([1_000, 30_000])
        options.finalFailure = random.chance(15) ? .block : .stepAside
        options.pauseOnUnauthorized = random.chance(15)
        options.unmeteredOnly = random.chance(10)
        options.sendInBackground = random.chance(20)
        options.triggerInterval = random.pick([0, 0, 0, 60_000])
        options.limitMessages = random.pick([0, 0, 0, 3, 30, 900])
        options.limitBytes = random.pick([0, 0, 0, 40])
        options.onFull = random.chance(60) ? .dropOldest : .refuse
        // Its own generator, so that a seed without a rate does what it did before.
        ranking = SeededGenerator(seed &+ 88_000)
        var pacing = SeededGenerator(seed &+ 77_000)
        if pacing.chance(25) {
            options.ratePerSecond = pacing.pick([0.5, 3, 20, 333, 5_000])
            options.rateBurst = pacing.pick([1, 1, 2, 10])
            options.rampUp = pacing.pick([0, 0, 5_000, 60_000])
        }
        options.liveShare = ranking.pick([0.5, 0.5, 0, 1, 0.25, 0.9])
        options.soonestExpiryFirst = ranking.chance(20)
        priorities = ranking.pick([[0], [0], [0, 0, 0, 0, 0, 9], [-100, -1, 0, 0, 1, 100]])
        var asking = SeededGenerator(seed &+ 55_000)
        options.promptForFailed = asking.chance(30)
        batching = SeededGenerator(seed &+ 99_000)
        var limits: BatchLimits?
        if batching.chance(40) {
            var chosen = BatchLimits()
            chosen.maxMessages = batching.pick([1, 2, 3, 7, 40, 1_000])
            chosen.maxBytes = batching.pick([1, 20, 1 << 20, 1 << 20])
            chosen.linger = batching.pick([0, 0, 0, 50, 3_000])
            chosen.singleConversation = batching.chance(25)
            chosen.maxBatches = batching.pick([0, 0, 1, 2, 5])
            limits = chosen
        }
        simulation = try Simulation(options, batches: limits)
        // In batches with a rate, and in some others, reads and calls take time.
        var working = SeededGenerator(seed &+ 66_000)
        if working.chance(limits != nil && options.ratePerSecond > 0 ? 80 : 30) {
            let most = working.pick([1, 3, 40, 300] as [Int64])
            simulation.workTime = { working.chance(60) ? working.int64(0...most) : 0 }
        }
        isRough = random.chance(50)
        usesKeys = random.chance(40)
        // From few long conversations to many short ones; longer than the window of a lane and the chunk of a scan.
        let (lanes, backlog) = random.pick([(1, 0), (2, 60), (3, 40), (6, 5), (12, 300), (30, 320), (50, 600), (4, 700)])
        conversations = (0..<lanes).map { Name("c\($0)") }
        let (lanesOfBacklog, choices) = ((0..<backlog).map { _ in random.pick(conversations) }, priorities)
        var scheduling = SeededGenerator(seed &+ 77_000)
        let (share, now) = (scheduling.pick([0, 0, 10, 60, 95]), simulation.now.wall)
        simulation.preload(lanesOfBacklog) {
            $0.priority = ranking.pick(choices)
            if scheduling.chance(share) { $0.notBefore = now + scheduling.pick([-1_000, 500, 5_000, 60_000, 3_600_000]) }
        }
    }

    /// Runs all steps. Returns the broken promise; nil: none.
    mutating func run() -> Violation? {
        do {
            try simulation.settle()
            for _ in 0..<steps {
                // A restart makes another scheduler.
                simulation.scheduler.lanes.perStep = seed % 4 < 2 ? 2_000 : seed % 4 == 2 ? 1 : 3
                simulation.scheduler.lanes.reading.chunk = [Scheduler.scanChunk, 1, 3, 20][Int(seed / 4 % 4)]
                simulation.scheduler.lanes.reading.mostPriorities = [1_024, 1_024, 5][Int(seed / 16 % 3)]
                simulation.scheduler.lanes.reading.mostScheduled = [256, 1, 5, 20][Int(seed / 3 % 4)]
                let before = simulation.entries.count
                let isQuiet = try act()
                let starts = random.chance(80) ? Int.max : random.int(0...1)
                let deadline = simulation.deadline
                let wasWaiting = !simulation.hasStart
                try simulation.settle(starts: starts)
                // Before the time for which the scheduler waits, it does nothing.
                if isQuiet, wasWaiting, deadline.map({ simulation.now.mono < $0 }) ?? true {
                    let happened = simulation.entries[before...].filter { if case .waiting = $0.entry { false } else { true } }
                    // An expiry has a time of its own, at which the engine's maintenance fails the message.
                    if let first = happened.first, !Self.isExpiry(first.entry) {
                        throw Violation("the scheduler waited until \(deadline ?? -1), but then: \(first.entry)")
                    }
                }
            }
            try finish()
            return nil
        } catch let violation as Violation {
            return violation
        } catch {
            return Violation("\(error)")
        }
    }

    private static func isExpiry(_ entry: JournalEntry) -> Bool { if case .expired = entry { true } else { false } }

    /// Returns the last entries of the journal.
    func tail(_ lines: Int) -> String { simulation.tail(lines) }

    var setting: String {
        let options = simulation.options
        return """
            \(options.mode), direct \(options.direct), \(options.maxInFlight) in flight, \(options.backoff), retries \(options.maxRetries), \
            debounce \(options.onlineDebounce), batch \(options.drainBatch), \(conversations.count) conversations, \
            rate \(options.ratePerSecond) burst \(options.rateBurst) ramp \(options.rampUp)
            batches \(simulation.limits.map { "\($0)" } ?? "none")
            live share \(options.liveShare), soonest expiry first \(options.soonestExpiryFirst), priorities \(priorities), \
            asks for failed \(options.promptForFailed)
            """
    }

    // MARK: Inputs

    /// Returns true when only time has passed.
    private mutating func act() throws -> Bool {
        switch random.int(0...99) {
        case 0..<14: enqueue()
        case 14..<46: try answer()
        case 46..<70: return pass()
        case 70..<78: changeNetwork()
        case 78..<86:
            simulation.drain(
                random.chance(30) ? random.pick(conversations) : nil, batch: random.pick([0, 0, 1, 5]),
                timeout: random.pick([nil, nil, 0, 100, 20_000]))
        case 86..<90: if let sequence = some(.queued) { simulation.sendNow(sequence) }
        case 90..<92: if let sequence = some(.failed) { simulation.retry(sequence) }
        case 92: simulation.retryAll(random.chance(50) ? random.pick(conversations) : nil)
        case 93..<95: if let sequence = some(random.pick([.queued, .failed, .sent])) { simulation.delete(sequence) }
        default: actRoughly()
        }
        return false
    }

    private mutating func enqueue() {
        let wall = simulation.now.wall
        let count = random.chance(70) ? 1 : random.int(2...6)
        let lanes = (0..<count).map { _ in random.pick(conversations) }
        let kind = random.int(0...99)
        let delay = random.int64(1...90_000)
        let priority = ranking.pick(priorities)
        let key = usesKeys && random.chance(70) ? random.pick(["k", "k", "l"]) : nil
        let size = random.int(0...12)
        simulation.enqueue(lanes, key: key) { message in
            message.body = [UInt8](repeating: 0, count: size)
            message.priority = priority
            switch kind {
            case 0..<5: message.notBefore = wall + delay
            case 5..<10: message.expiresAt = wall + delay
            case 10..<15: message.unmeteredOnly = true
            default: break
            }
        }
    }

    private mutating func answer() throws {
        if random.chance(20), let hung = simulation.hanging.first {
            simulation.returnCall(hung.token, random.pick([nil, .sent, .retry()]))
            return
        }
        if random.chance(5), let token = simulation.late.sorted().first {
            simulation.answerLate(token, random.pick([.sent, .retry()]))
            return
        }
        let flights = simulation.flights
        guard !flights.isEmpty else { return }
        var flight = random.pick(flights)
        if simulation.limits != nil {
            // A batch transport sends the messages of a conversation in order.
            flight = flights.first { $0.batch == flight.batch && $0.conversation == flight.conversation } ?? flight
        }
        var outcome: Outcome =
            switch random.int(0...99) {
            case 0..<62: .sent
            case 62..<72: .retry(.server)
            case 72..<78: .retry(.network)
            case 78..<80: .retry(.network, retryAfter: 2_000)
            case 80..<86: .reject()
            case 86..<88: .http(401)
            case 88..<90: .http(409)
            case 90..<94: .offline
            default: .http(429, retryAfter: "\(random.int(0...40))")
            }
        outcome.retryAfterIsForQueue = random.chance(20)
        if simulation.limits != nil { outcome = ordered(outcome, flight) }
        try simulation.answer(flight, outcome, early: random.chance(15))
    }

    /// The outcome of a batch transport that stops a conversation at its first message that is not sent.
    private mutating func ordered(_ outcome: Outcome, _ flight: Flight) -> Outcome {
        if let skips = stopped[flight.batch]?[flight.conversation] {
            if !skips, batching.chance(30) { return .retry(.network) }
            stopped[flight.batch]?[flight.conversation] = true
            return .skipped
        }
        if batching.chance(6) {
            stopped[flight.batch, default: [:]][flight.conversation] = true
            return .skipped
        }
        if outcome.verdict != .sent, outcome.verdict != .reject || simulation.options.finalFailure == .block {
            stopped[flight.batch, default: [:]][flight.conversation] = false
        }
        return outcome
    }

    /// Advances a little, until something is due, or for long.
    private mutating func pass() -> Bool {
        switch random.int(0...9) {
        case 0..<4: simulation.advance(random.int64(1...400))
        case 4..<9:
            guard let deadline = simulation.deadline, deadline > simulation.now.mono else { return true }
            let wait = deadline - simulation.now.mono
            simulation.advance(random.chance(40) ? wait : random.int64(0...wait))
        default: simulation.advance(random.int64(1...100_000))
        }
        return true
    }

    private mutating func changeNetwork() {
        switch random.int(0...9) {
        case 0..<3: simulation.goOffline()
        case 3..<8: simulation.goOnline(metered: random.chance(20))
        case 8: simulation.setNetwork(.unknown)
        default: for _ in 0..<random.int(2...20) { random.chance(50) ? simulation.goOffline() : simulation.goOnline() }
        }
    }

    private mutating func actRoughly() {
        switch random.int(0...9) {
        case 0: simulation.clear(random.chance(80) ? random.pick(conversations) : nil)
        case 1 where isRough:
            random.chance(70) ? simulation.restart() : simulation.reboot(after: random.pick([-3_600_000, 1_000, 40_000, 3_600_000]))
        case 2: simulation.setTransport(random.chance(60))
        case 3 where isRough: simulation.breakStore()
        case 4, 5: simulation.mendStore()
        case 6 where isRough && random.chance(30):
            simulation.jumpWallClock(random.pick([-3_600_000, -1_000, 1_000, 3_600_000]), isReported: random.chance(50))
        case 7: simulation.answersInCall.toggle()
        case 8: random.chance(60) ? simulation.pause(scope()) : simulation.setBackground(true)
        case 9: random.chance(60) ? simulation.resume(scope()) : simulation.setBackground(false)
        default: break
        }
    }

    private mutating func scope() -> Name? { random.chance(60) ? random.pick(conversations) : nil }

    private mutating func some(_ status: MessageStatus) -> Int64? {
        let all = simulation.store.all.filter { $0.progress.status == status }.map(\.sequence).sorted()
        return all.isEmpty ? nil : random.pick(all)
    }

    // MARK: The end

    /// Whether nothing, or only a batch, is sent automatically.
    private var isDrained: Bool { simulation.options.mode != .auto || simulation.options.drainBatch != 0 }

    /// Removes all obstacles; then every queued message must be sent or expire.
    private mutating func finish() throws {
        simulation.mendStore()
        simulation.setTransport(true)
        simulation.goOnline()
        simulation.setBackground(false)
        for scope in [nil] + conversations { simulation.resume(scope) }
        for _ in 0..<20_000 {
            if simulation.options.finalFailure == .block { removeFailed() }
            try simulation.settle()
            if let flight = simulation.flights.first {
                try simulation.answer(flight.sequence, .sent)
            } else if let hung = simulation.hanging.first {
                simulation.returnCall(hung.token, nil)
            } else if simulation.store.queued.isEmpty {
                return try rest()
            } else if isDrained, random.chance(60) {
                simulation.drain()
            } else if let deadline = simulation.deadline {
                simulation.advance(max(1, deadline - simulation.now.mono))
            } else if simulation.options.finalFailure == .block, simulation.store.all.contains(where: { $0.progress.status == .failed }) {
                // A message that has just expired blocks those behind it until it is removed.
                continue
            } else {
                guard isDrained else { throw Violation("\(left) queued, but none is sent") }
                // A drain when it is due.
                simulation.advance(30_000)
                simulation.drain()
            }
        }
        throw Violation("\(left) never sent")
    }

    private var left: String { "\(simulation.store.queued.count) messages from \(simulation.store.queued.first ?? 0) on are" }

    /// Removes failed messages, which would block those behind them for good.
    private func removeFailed() {
        let failed = simulation.store.all.filter { $0.progress.status == .failed }.map(\.sequence)
        for sequence in failed.sorted() { simulation.delete(sequence) }
    }

    /// Checks the empty queue: no attempt is left, and every drain was reported.
    private func rest() throws {
        let drains = simulation.entries.count { if case .drainStarted = $0.entry { true } else { false } }
        guard simulation.scheduler.session == nil, drains - simulation.reports.count == simulation.lostDrains else {
            throw Violation("\(drains) drains, \(simulation.reports.count) reports")
        }
        let interrupted = try simulation.interrupted
        guard interrupted.isEmpty else { throw Violation("the attempts of \(interrupted) have no end") }
    }
}
