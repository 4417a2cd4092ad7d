import Testing

@testable import MsgQueue

/// Q20: the reason of the queue agrees with what happens, and with the reasons of its messages.
@Suite struct StateTests {
    private func wait(_ simulation: EngineSimulation) -> Wait {
        QueueReasons(simulation.scheduler, simulation.now)
            .wait(queued: Int64(simulation.queued.count), hasStart: simulation.hasStart)
    }

    @Test func Q20_the_first_due_time_is_reported_however_far_away() throws {
        let simulation = try EngineSimulation(.auto)
        simulation.enqueue("a") { $0.notBefore = simulation.now.wall + 5 * Options.day }
        simulation.enqueue("b") { $0.notBefore = simulation.now.wall + 2 * Options.day }
        simulation.enqueue("c") { $0.notBefore = simulation.now.wall + 9 * Options.day }
        let due = simulation.now.wall + 2 * Options.day
        for _ in 0..<200 {
            try simulation.settle()
            #expect(wait(simulation) == Wait(reason: .scheduled, until: due, earliest: due))
            simulation.advance(47_011)
        }
        simulation.delete(2)
        try simulation.settle()
        #expect(wait(simulation).until > due)
    }

    @Test func Q20_stale_timer_entries_do_not_accumulate() throws {
        let simulation = try EngineSimulation(.auto, backoff: .ladder([3_600_000]))
        simulation.enqueue("a") { $0.notBefore = simulation.now.wall + 5 * Options.day }
        for _ in 0..<500 {
            simulation.enqueue("a")
            try simulation.settle()
            guard let flight = simulation.flights.first else { break }
            try simulation.answer(flight.sequence, .retry(.server))
            try simulation.settle()
            simulation.delete(flight.sequence)
            try simulation.settle()
        }
        #expect(simulation.scheduler.lanes.dueTimes.count < 200)
        #expect(wait(simulation).reason == .scheduled)
    }

    @Test(arguments: [(Mode.auto, Explanation.Reason.next), (.ask, .person), (.manual, .person)])
    func Q20_after_a_delay_the_mode_decides_the_reason(mode: Mode, after: Explanation.Reason) throws {
        let simulation = try EngineSimulation(mode, direct: false)
        simulation.enqueue("a") { $0.notBefore = simulation.now.wall + 1_000 }
        try simulation.settle()
        #expect(simulation.wait(of: 1)?.after == after)
        simulation.scheduler.lifecycleChanged(isInBackground: true, simulation.now)
        #expect(simulation.wait(of: 1)?.after == (mode == .auto ? .trigger : after))
    }

    @Test func Q20_an_expired_prompt_is_not_in_the_state_before_the_timer_runs() throws {
        let simulation = try EngineSimulation(.ask)
        simulation.goOffline()
        simulation.enqueue("a", count: 3)
        simulation.goOnline()
        simulation.advance(500)
        try simulation.settle()
        #expect(simulation.scheduler.prompt.isAsking(simulation.now))
        #expect(simulation.scheduler.prompt.expiryTime(simulation.now) == simulation.now.wall + 10_000)
        #expect(wait(simulation).reason == .person)
        simulation.advance(10_000)
        #expect(!simulation.scheduler.prompt.isAsking(simulation.now))
    }

    /// What the texts promise for a connection happens.
    @Test func X1_promises_about_connecting_are_kept() throws {
        var reasons: [Explanation.Reason: Int] = [:]
        for seed in 1...150 as ClosedRange<UInt64> {
            for wait in try promises(seed) { reasons[wait.reason, default: 0] += 1 }
        }
        for reason in [Explanation.Reason.next, .person, .paused, .scheduled, .retrying, .trigger, .metered] {
            #expect(reasons[reason] ?? 0 > 0, "\(reason) never occurred")
        }
    }

    /// Goes offline and online at random, and compares the explanation of the first message of each conversation with what happens.
    private func promises(_ seed: UInt64) throws -> [Wait] {
        var random = SeededGenerator(seed &+ 91_000)
        var options = Options()
        options.mode = random.pick([.auto, .auto, .ask, .manual])
        options.maxInFlight = 4
        options.backoff = random.pick([.ladder([]), .ladder([2_000, 9_000])])
        options.direct = random.chance(50)
        options.drainBatch = random.pick([0, 0, 3])
        let simulation = try EngineSimulation(options)
        for _ in 0..<random.int(1...12) {
            let delay = random.int64(1...5_000)
            let kind = random.int(0...3)
            let wall = simulation.now.wall
            _ = simulation.enqueue(random.pick(["ana", "ben", "cem"])) { message in
                switch kind {
                case 0: message.notBefore = wall + delay
                case 1: message.unmeteredOnly = true
                default: break
                }
            }
            try simulation.settle()
            if let flight = simulation.flights.first {
                try simulation.answer(flight.sequence, random.pick([.retry(.server), .retry(.network)]))
            }
            if random.chance(10) { _ = simulation.scheduler.pause(random.pick([nil, "ana"])) }
            if random.chance(10) { simulation.scheduler.lifecycleChanged(isInBackground: random.chance(50), simulation.now) }
        }
        simulation.goOffline()
        try simulation.settle()
        simulation.advance(random.int64(0...3_000))
        try simulation.settle()
        let queued = simulation.queued
        // Only the first of each conversation, because the others depend on its outcome.
        var first: [Name: Int64] = [:]
        for sequence in queued {
            guard let message = simulation.row(sequence), first[message.conversation] == nil else { continue }
            first[message.conversation] = sequence
        }
        var promised: [Int64: Wait] = [:]
        for sequence in first.values { promised[sequence] = simulation.explain(sequence)?.connected }
        let before = simulation.starts.count
        simulation.goOnline()
        simulation.advance(options.onlineDebounce)
        try simulation.settle()
        let starts = Set(simulation.starts.dropFirst(before))
        for (sequence, wait) in promised {
            if wait.reason == .next { #expect(options.drainBatch != 0 || starts.contains(sequence), "\(seed): \(sequence) \(wait)") }
            if wait.reason == .person || wait.reason == .paused { #expect(!starts.contains(sequence), "\(seed): \(sequence) \(wait)") }
        }
        return Array(promised.values)
    }
}
