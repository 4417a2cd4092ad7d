import Testing

@testable import MsgQueue

/// The rate limit and the ramp in the scheduler. In these simulations the host sees the promise checked at each start, too.
@Suite struct RateTests {
    private func simulation(
        _ rate: Double, burst: Int = 1, ramp: Int64 = 0, mode: Mode = .auto, maxInFlight: Int = 1,
        _ change: (inout Options) -> Void = { _ in }
    ) throws -> EngineSimulation {
        try EngineSimulation(mode, maxInFlight: maxInFlight) { options in
            (options.ratePerSecond, options.rateBurst, options.rampUp) = (rate, burst, ramp)
            options.onlineDebounce = 0
            change(&options)
        }
    }

    /// Lets time pass and answers every attempt at once. Returns the times of the starts since the call, in milliseconds from its beginning.
    private func run(_ simulation: EngineSimulation, for milliseconds: Int64, _ answer: Outcome = .sent) throws -> [Int64] {
        let (begin, before) = (simulation.now.mono, simulation.starts.count)
        let end = begin + milliseconds
        while true {
            try simulation.run { _ in answer }
            guard let deadline = simulation.deadline, deadline <= end else { break }
            simulation.advance(max(deadline - simulation.now.mono, 1))
        }
        simulation.advance(end - simulation.now.mono)
        return simulation.startTimes.dropFirst(before).map { $0 - begin }
    }

    @Test func F3_direct_messages_and_the_backlog_begin_at_the_rate() throws {
        let simulation = try simulation(10)
        simulation.preload(["ana", "ben", "ana"])
        simulation.goOnline()
        simulation.enqueue("cem", count: 2)
        #expect(try run(simulation, for: 700) == [101, 202, 303, 404, 505])
    }

    @Test func F3_a_burst_is_saved_up_while_nothing_is_sent() throws {
        let simulation = try simulation(10, burst: 3)
        #expect(try run(simulation, for: 5_000).isEmpty)
        simulation.enqueue("ana", count: 5)
        #expect(try run(simulation, for: 700) == [0, 0, 0, 101, 201])
    }

    @Test func F3_requests_on_demand_and_retries_wait_for_the_rate() throws {
        let simulation = try simulation(1, mode: .manual) { $0.backoff = .ladder([100]) }
        simulation.preload(["ana", "ben"])
        simulation.sendNow(2)
        #expect(try run(simulation, for: 1_000).isEmpty)
        #expect(simulation.wait(of: 2)?.reason == .rate && simulation.wait(of: 1)?.reason == .person)
        #expect(try run(simulation, for: 100) == [1])
        simulation.drain()
        #expect(try run(simulation, for: 2_000, .retry(.server)) == [902])
        simulation.drain()
        #expect(try run(simulation, for: 2_000) == [0])
        #expect(simulation.starts == [2, 1, 1])
    }

    @Test func F3_a_drain_waits_for_the_rate_and_its_timeout_ends_it() throws {
        let simulation = try simulation(2, mode: .manual)
        simulation.preload(["ana", "ben", "cem"])
        simulation.drain(timeout: 1_200)
        #expect(try run(simulation, for: 5_000) == [501, 1_002])
        #expect(simulation.reports.map(\.stop) == [.timeout])
        simulation.drain()
        #expect(try run(simulation, for: 5_000) == [0])
        #expect(simulation.reports.map(\.stop) == [.timeout, .empty])
    }

    @Test func F3_a_drain_of_one_conversation_does_not_wait_for_the_messages_of_others() throws {
        let simulation = try simulation(1, maxInFlight: 2)
        simulation.preload(["ana", "ben", "ben", "ben"])
        simulation.goOnline()
        simulation.drain("ana")
        #expect(try run(simulation, for: 1_500) == [1_001])
        #expect(simulation.reports.map(\.stop) == [.empty], "two messages of ben still wait for the rate")
    }

    /// The conversation of the drain is read although messages of the `retryAll` wait for the rate.
    @Test func F3_a_drain_does_not_end_because_a_retry_all_waits_for_the_rate() throws {
        let simulation = try simulation(1, mode: .manual)
        simulation.preload(["ana", "ben"])
        simulation.goOnline()
        simulation.drain("ana")
        #expect(try run(simulation, for: 1_500, .reject()) == [1_001])
        simulation.retryAll()
        simulation.drain("ben")
        #expect(try run(simulation, for: 2_500).count == 2)
        #expect(simulation.starts == [1, 1, 2])
        #expect(simulation.reports.map(\.stop) == [.empty, .empty])
    }

    @Test func F3_expiries_and_timeouts_do_not_wait_for_the_rate() throws {
        let simulation = try simulation(1, maxInFlight: 2) { $0.attemptTimeout = 300 }
        let wall = simulation.now.wall
        simulation.enqueue("ana")
        simulation.enqueue("ben") { $0.expiresAt = wall + 1_200 }
        simulation.advance(1_001)
        try simulation.settle()
        #expect(simulation.inFlight == [1])
        #expect(simulation.deadline == simulation.now.mono + 300, "the timeout is before the next attempt that the rate permits")
        simulation.advance(300)
        try simulation.settle()
        #expect(simulation.count(.timedOut(1)) == 1 && simulation.status(2) == .failed)
        #expect(simulation.starts == [1])
    }

    @Test func F3_a_restart_begins_with_an_empty_allowance() throws {
        let simulation = try simulation(1, burst: 5)
        simulation.advance(60_000)
        simulation.preload(["ana", "ben"])
        simulation.restart()
        simulation.goOnline()
        #expect(try run(simulation, for: 3_000) == [1_001, 2_001])
    }

    @Test func F3_the_texts_say_which_rate_permits_the_next_attempt_when() throws {
        let texts: [(rate: Double, ramp: Int64, passed: Int64, text: String)] = [
            (10, 0, 0, "The rate of 10 per second permits the next attempt within a second."),
            (0.5, 0, 0, "The rate of 1 in 2 s permits the next attempt in 3 s."),
            (0.5, 0, 500, "The rate of 1 in 2 s permits the next attempt in 2 s."),
            (1, 0, 500, "The rate of 1 per second permits the next attempt within a second."),
            (40, 1_000, 0, "Sending is slower after an outage: the present rate of 1 per second permits the next attempt in 2 s."),
        ]
        for (rate, ramp, passed, text) in texts {
            let simulation = try simulation(rate, ramp: ramp)
            simulation.preload(["ana"])
            simulation.goOnline()
            simulation.advance(passed)
            try simulation.settle()
            #expect(simulation.text(of: 1) == text)
            let wait = QueueReasons(simulation.scheduler, simulation.now).wait(queued: 1, hasStart: false)
            #expect(Words.queue(wait, BannerFacts(), now: simulation.now.wall) == text)
        }
        #expect(
            [12.34, 250.5, 1_000_000, 0.1].map { Words.rate($0) } == [
                "12.3 per second", "250 per second", "1000000 per second", "1 in 10 s",
            ])
    }

    @Test func F4_sending_that_begins_again_begins_slowly() throws {
        let events: [(name: String, restarts: Bool, event: (EngineSimulation) throws -> Void)] = [
            (
                "online after offline", true,
                {
                    $0.goOffline(); $0.goOnline()
                }
            ),
            ("another link", false, { $0.goOnline(metered: true) }),
            (
                "resume", true,
                {
                    $0.pause(); $0.resume()
                }
            ),
            ("resume without a pause", false, { $0.resume() }),
            (
                "resume of a conversation", false,
                {
                    $0.pause("ana"); $0.resume("ana")
                }
            ),
            (
                "foreground", false,
                {
                    $0.setBackground(true); $0.setBackground(false)
                }
            ),
            ("a receiver's delay", true, { $0.scheduler.hold(until: $0.now.mono + 10, $0.now) }),
            ("launch without a backlog", false, { $0.restart() }),
            (
                "launch with a backlog", true,
                {
                    $0.pause(); $0.enqueue("ana"); $0.restart()
                }
            ),
            (
                "an outcome offline", true,
                {
                    $0.enqueue("ana")
                    try $0.settle()
                    try $0.answer(1, .offline)
                }
            ),
        ]
        for (name, restarts, event) in events {
            let simulation = try simulation(100, burst: 10, ramp: 60_000, maxInFlight: 4)
            simulation.goOnline()
            simulation.advance(10_000)
            #expect(simulation.scheduler.flights.pace?.rate == 100 && simulation.scheduler.flights.slots == 4)
            try event(simulation)
            #expect(simulation.scheduler.flights.pace?.rate == (restarts ? 1 : 100), "\(name)")
            #expect(simulation.scheduler.flights.slots == (restarts ? 1 : 4), "\(name)")
        }
    }

    @Test func F4_a_backlog_after_an_outage_grows_to_the_full_rate() throws {
        let simulation = try simulation(50, burst: 5, ramp: 10_000, maxInFlight: 8)
        simulation.goOffline()
        simulation.enqueue((0..<1_000).map { Name("c\($0)") })
        simulation.goOnline()
        let times = try run(simulation, for: 40_000)
        #expect(times.count == 1_000)
        func count(_ from: Int64, _ to: Int64) -> Int { times.count { $0 >= from && $0 < to } }
        let first = try #require(times.first)
        #expect(count(first, first + 1_000) <= 4 && count(first, first + 10_000) <= 1 + 10 + 245)
        #expect(count(first + 15_000, first + 16_000) >= 48, "the full rate")
    }
}
