import Testing

@testable import MsgQueue

@Suite struct TimingTests {
    @Test func M4_the_delays_are_5_30_and_120_seconds_and_then_the_message_is_failed() throws {
        let simulation = try Simulation(.auto)
        simulation.enqueue("a")
        var waits: [Int64] = []
        for _ in 0..<4 {
            try simulation.settle()
            try simulation.answer(1, .retry(.server))
            try simulation.settle()
            var waited: Int64 = 0
            while simulation.flights.isEmpty, simulation.status(1) == .queued, let until = simulation.deadline {
                waited += until - simulation.now.mono
                simulation.advance(until - simulation.now.mono)
                try simulation.settle()
            }
            if waited > 0 { waits.append(waited) }
        }
        #expect(waits == [5_000, 30_000, 120_000])
        #expect(simulation.status(1) == .failed)
    }

    @Test func M6_retry_after_delays_the_retry() throws {
        let simulation = try Simulation(.auto)
        simulation.enqueue("a")
        try simulation.settle()
        try simulation.answer(1, .http(503, retryAfter: "90"))
        for _ in 0..<3 {
            try simulation.settle()
            simulation.advance(29_999)
        }
        try simulation.settle()
        #expect(simulation.starts.count == 1)
        simulation.advance(3)
        try simulation.settle()
        #expect(simulation.starts.count == 2)
    }

    @Test func X5_a_message_is_not_sent_before_not_before_and_others_overtake_it() throws {
        let simulation = try Simulation(.auto)
        let at = simulation.now.wall + 90_000
        simulation.enqueue("a") { $0.notBefore = at }
        simulation.enqueue("a")
        try simulation.run()
        #expect(simulation.starts == [2])
        simulation.advance(60_000)
        try simulation.settle()
        simulation.advance(29_999)
        try simulation.settle()
        #expect(simulation.starts == [2])
        simulation.advance(1)
        try simulation.settle()
        #expect(simulation.inFlight == [1])
    }

    @Test func X5_unmetered_only_needs_an_unmetered_link_and_others_overtake_it() throws {
        let simulation = try Simulation(.auto)
        simulation.goOnline(metered: true)
        simulation.advance(500)
        simulation.enqueue("a") { $0.unmeteredOnly = true }
        simulation.enqueue("a")
        try simulation.run()
        #expect(simulation.starts == [2])
        simulation.goOnline(metered: false)
        try simulation.settle()
        #expect(simulation.inFlight == [1])
    }

    @Test func X4_an_expired_message_is_failed_and_never_sent() throws {
        let simulation = try Simulation(.auto)
        simulation.goOffline()
        let wall = simulation.now.wall
        simulation.enqueue("a") { $0.expiresAt = wall + 1_000 }
        simulation.enqueue("a")
        simulation.advance(1_000)
        simulation.goOnline()
        simulation.advance(500)
        try simulation.run()
        #expect(simulation.starts == [2])
        #expect(simulation.status(1) == .failed)
        // It can still be sent on demand.
        #expect(simulation.retry(1) == nil)
        try simulation.run()
        #expect(simulation.status(1) == .sent)
    }

    @Test func X4_a_message_is_sent_until_its_expiry() throws {
        let simulation = try Simulation(.auto)
        let wall = simulation.now.wall
        simulation.enqueue("a") { $0.expiresAt = wall + 1 }
        try simulation.run()
        #expect(simulation.status(1) == .sent)
    }

    @Test func X4_a_drain_reports_expired_messages_as_failed() throws {
        let simulation = try Simulation(.manual, direct: false)
        let wall = simulation.now.wall
        simulation.enqueue("a")
        simulation.enqueue("a", count: 2) { $0.expiresAt = wall + 10 }
        simulation.drain()
        try simulation.settle()
        #expect(simulation.inFlight == [1])
        simulation.advance(10)
        try simulation.run()
        #expect(simulation.reports == [Report(stop: .empty, sent: 1, failed: 2, remainingFailed: 2)])
    }

    // MARK: In the background

    @Test func A11_a_drain_in_the_background_sends_retries_that_fall_due_during_it() throws {
        let simulation = try Simulation(.manual, direct: false, backoff: .ladder([10]), maxInFlight: 2)
        simulation.setBackground(true)
        simulation.enqueue("a")
        simulation.enqueue("b")
        simulation.drain()
        try simulation.settle()
        try simulation.answer(1, .retry())
        try simulation.settle()
        #expect(simulation.deadline == simulation.now.mono + 10)
        simulation.advance(10)
        try simulation.settle()
        #expect(simulation.starts == [1, 2, 1])
    }

    @Test func A11_Q4_the_prompt_is_raised_in_the_background_after_online_debounce() throws {
        let simulation = try Simulation(.ask, direct: false)
        simulation.setBackground(true)
        simulation.goOffline()
        simulation.enqueue("a")
        simulation.goOnline()
        try simulation.settle()
        #expect(simulation.deadline == simulation.now.mono + 500)
        simulation.advance(500)
        try simulation.settle()
        #expect(simulation.count(.prompt) == 1)
    }

    // MARK: Wall clocks that are set

    /// Returns a failed message with a delay of 5 s, after the wall clock was set half a second later.
    private func waiting(_ jump: Int64) throws -> Simulation {
        let simulation = try Simulation(.auto)
        simulation.enqueue("a")
        try simulation.settle()
        try simulation.answer(1, .retry())
        try simulation.settle()
        simulation.advance(500)
        simulation.jumpWallClock(jump)
        try simulation.settle()
        return simulation
    }

    @Test(arguments: [Int64(-2_000), -60_000, -3_600_000, -315_360_000_000])
    func M4_a_wall_clock_set_back_does_not_lengthen_a_delay(jump: Int64) throws {
        let simulation = try waiting(jump)
        simulation.advance(4_500)
        try simulation.settle()
        #expect(simulation.starts.count == 2)
    }

    @Test func M6_a_wall_clock_set_forward_does_not_end_a_retry_after() throws {
        let simulation = try Simulation(.auto)
        simulation.enqueue("a")
        try simulation.settle()
        try simulation.answer(1, .http(503, retryAfter: "900"))
        try simulation.settle()
        simulation.jumpWallClock(315_360_000_000, isReported: true)
        simulation.advance(899_999)
        try simulation.settle()
        #expect(simulation.starts.count == 1)
        simulation.advance(1)
        try simulation.settle()
        #expect(simulation.starts.count == 2)
    }

    @Test(arguments: [Int64(-3_600_000), 3_600_000])
    func M6_a_retry_after_is_exact_across_a_restart_whatever_the_wall_clock(jump: Int64) throws {
        let simulation = try Simulation(.auto)
        simulation.enqueue("a")
        try simulation.settle()
        try simulation.answer(1, .http(503, retryAfter: "900"))
        simulation.advance(100_000)
        simulation.jumpWallClock(jump)
        simulation.restart()
        simulation.advance(799_999)
        try simulation.settle()
        #expect(simulation.starts.count == 1)
        simulation.advance(1)
        try simulation.settle()
        #expect(simulation.starts.count == 2)
    }

    /// The shift of the wall clock by a reboot, and the rest of a delay of 900 s of which 100 s had passed.
    @Test(arguments: [(Int64(50_000), Int64(750_000)), (-200_000, 900_000), (3_600_000, 0)])
    func M6_after_a_reboot_the_wall_clock_counts_and_the_delay_restarts_if_it_went_back(off: Int64, left: Int64) throws {
        let simulation = try Simulation(.auto)
        simulation.enqueue("a")
        try simulation.settle()
        try simulation.answer(1, .http(503, retryAfter: "900"))
        simulation.advance(100_000)
        simulation.reboot(after: off)
        try simulation.settle()
        #expect(simulation.starts.count == (left == 0 ? 2 : 1))
        simulation.advance(max(left - 1, 0))
        try simulation.settle()
        #expect(simulation.starts.count == (left == 0 ? 2 : 1))
        simulation.advance(1)
        try simulation.settle()
        #expect(simulation.starts.count == 2)
    }

    @Test(arguments: [Int64(-3_600_000), 3_600_000])
    func M6_a_delay_of_the_whole_queue_survives_a_restart(jump: Int64) throws {
        let simulation = try Simulation(.auto, backoff: .ladder([1]))
        simulation.enqueue("a")
        simulation.enqueue("b")
        try simulation.settle()
        var outcome = Outcome.http(503, retryAfter: "60")
        outcome.retryAfterIsForQueue = true
        try simulation.answer(1, outcome)
        try simulation.settle()
        simulation.jumpWallClock(jump)
        simulation.restart()
        simulation.advance(59_999)
        try simulation.settle()
        #expect(simulation.starts == [1])
        simulation.advance(1)
        try simulation.settle()
        #expect(simulation.starts.count == 2)
    }

    // MARK: The network returns

    @Test func M9_the_return_of_the_network_ends_the_delay_of_network_failures() throws {
        let simulation = try Simulation(.auto, backoff: .ladder([3_600_000, 3_600_000]), maxInFlight: 4)
        simulation.enqueue(["a", "b", "c", "d"])
        try simulation.settle()
        try simulation.answer(1, .retry(.network))
        try simulation.answer(2, .retry(.offline))
        try simulation.answer(3, .retry(.server))
        try simulation.answer(4, .retry(.network, retryAfter: 1_000))
        try simulation.settle()
        simulation.goOffline()
        simulation.advance(10)
        simulation.goOnline()
        simulation.advance(499)
        try simulation.settle()
        #expect(simulation.starts.count == 4)
        simulation.advance(1)
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2])
        // Once per return.
        try simulation.answer(1, .retry(.network))
        simulation.goOnline(metered: true)
        simulation.advance(60_000)
        try simulation.settle()
        #expect(simulation.starts.count == 6)
    }

    @Test func M9_a_return_that_does_not_last_ends_no_delay() throws {
        let simulation = try Simulation(.auto, backoff: .ladder([3_600_000]))
        simulation.enqueue("a")
        try simulation.settle()
        try simulation.answer(1, .retry(.network))
        simulation.goOffline()
        for _ in 0..<100 {
            simulation.goOnline()
            simulation.advance(5)
            try simulation.settle()
            simulation.goOffline()
            simulation.advance(5)
            try simulation.settle()
        }
        #expect(simulation.starts.count == 1)
    }

    @Test func M9_messages_that_wait_for_the_network_are_known_after_a_restart_and_beyond_the_window() throws {
        let simulation = try Simulation(.auto, direct: false, backoff: .ladder([3_600_000]))
        simulation.preload(["a"])
        try simulation.settle()
        try simulation.answer(1, .retry(.network))
        simulation.restart()
        simulation.goOffline()
        try simulation.settle()
        simulation.goOnline()
        simulation.advance(500)
        try simulation.settle()
        #expect(simulation.inFlight == [1])
    }

    @Test func M9_in_manual_mode_the_next_drain_sends_it() throws {
        let simulation = try Simulation(.manual, direct: false, backoff: .ladder([3_600_000]))
        simulation.enqueue("a")
        simulation.drain()
        try simulation.settle()
        try simulation.answer(1, .retry(.network))
        try simulation.settle()
        simulation.drain()
        try simulation.settle()
        #expect(simulation.reports.last?.stop == .waiting)
        simulation.goOffline()
        simulation.goOnline()
        simulation.advance(60_000)
        try simulation.settle()
        #expect(simulation.starts.count == 1)
        simulation.drain()
        try simulation.settle()
        #expect(simulation.starts.count == 2)
    }

    @Test func X8_an_attempt_does_not_time_out_because_of_a_suspend() throws {
        let simulation = try Simulation(.auto)
        simulation.enqueue("a")
        try simulation.settle()
        simulation.advance(8 * 3_600_000)
        simulation.scheduler.gate.flights.machineSlept(8 * 3_600_000)
        try simulation.settle()
        #expect(simulation.inFlight == [1])
        simulation.advance(30_000)
        try simulation.settle()
        #expect(simulation.inFlight.isEmpty)
    }

    @Test(arguments: [Int64(-3_600_000), 3_600_000])
    func M4_a_clock_set_while_the_queue_was_closed_does_not_change_a_delay(jump: Int64) throws {
        let simulation = try Simulation(.auto)
        simulation.enqueue("a")
        try simulation.settle()
        try simulation.answer(1, .retry())
        simulation.jumpWallClock(jump)
        simulation.restart()
        try simulation.settle()
        simulation.advance(5_000)
        try simulation.settle()
        #expect(simulation.starts.count == 2)
    }

    // MARK: Automatic sending after "offline"

    @Test func M11_automatic_sending_pauses_after_offline_and_resumes() throws {
        let simulation = try Simulation(.auto)
        simulation.enqueue(["a", "b"])
        try simulation.settle()
        try simulation.answer(1, .offline)
        try simulation.settle()
        #expect(simulation.inFlight == [2] || simulation.inFlight.isEmpty)
        if simulation.inFlight == [2] { try simulation.answer(2, .offline) }
        try simulation.settle()
        let starts = simulation.starts.count
        simulation.advance(4_999)
        try simulation.settle()
        #expect(simulation.starts.count == starts)
        simulation.advance(1)
        try simulation.run()
        #expect(simulation.status(1) == .sent)
        #expect(simulation.status(2) == .sent)
    }

    @Test func M9_every_delay_is_checked_again_when_the_network_returns() throws {
        let simulation = try Simulation(.auto)
        simulation.preload(["a"])
        try simulation.settle()
        try simulation.answer(1, .offline)
        try simulation.settle()
        simulation.goOffline()
        simulation.advance(100)
        simulation.goOnline()
        simulation.advance(500)
        try simulation.settle()
        #expect(simulation.inFlight == [1], "it does not wait for the end of the pause")
    }
}
