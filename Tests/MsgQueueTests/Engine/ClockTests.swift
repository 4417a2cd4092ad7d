import Testing

@testable import MsgQueue

/// Wall clocks that are set, reboots, and suspend.
@Suite struct ClockTests {
    private static let tenYears: Int64 = 10 * 365 * Options.day
    /// Shifts of the wall clock, back and forward.
    static let jumps = [-tenYears, tenYears]

    @Test(arguments: jumps)
    func M4_a_retry_is_due_after_exactly_its_delay(jump: Int64) throws {
        let bench = try EngineBench { $0.backoff = .ladder([5_000]) }
        bench.answer(.retry(.server))
        let id = try bench.enqueue()
        try bench.poll()
        bench.clock.shiftWall(jump)
        try bench.pass(5_000)
        #expect(try bench.status(id) == .sent)
        #expect(bench.deliveries.count == 2)
    }

    @Test(arguments: jumps)
    func M4_a_retry_is_due_after_exactly_its_delay_also_after_a_restart(jump: Int64) throws {
        let bench = try EngineBench { $0.backoff = .ladder([5_000]) }
        bench.answer(.retry(.server))
        let id = try bench.enqueue()
        try bench.poll()
        bench.clock.shiftWall(jump)
        try bench.reopen()
        try bench.pass(5_000)
        #expect(try bench.status(id) == .sent)
        #expect(bench.deliveries.map(\.id) == [id, id])
    }

    @Test(arguments: jumps)
    func Q8_the_order_does_not_depend_on_the_clock(jump: Int64) throws {
        let bench = try EngineBench {
            $0.mode = .manual; $0.direct = false
        }
        try bench.enqueue("1")
        bench.clock.shiftWall(jump)
        try bench.enqueue("2")
        bench.clock.shiftWall(-2 * jump)
        try bench.enqueue("3")
        try bench.reopen()
        try bench.drain()
        #expect(bench.texts == ["1", "2", "3"])
        let listed = try bench.engine.list(Filter(statuses: .all))
        #expect(listed.map(\.text) == ["1", "2", "3"])
    }

    @Test func X4_expiry_follows_the_wall_clock() throws {
        let bench = try EngineBench {
            $0.mode = .manual; $0.direct = false
        }
        let id = try bench.enqueue("kept", expiresAt: bench.clock.wall + 60_000)
        bench.clock.shiftWall(-Self.tenYears)
        try bench.reportClock()
        #expect(try bench.status(id) == .queued, "by this clock it has not expired")
        bench.clock.shiftWall(Self.tenYears + 60_000)
        try bench.reportClock()
        #expect(try bench.status(id) == .failed)
        #expect(try bench.engine.message(id: id).failure?.kind == .expired)
    }

    @Test(arguments: jumps)
    func M6_setting_the_clock_does_not_change_a_retry_after(jump: Int64) throws {
        for restarts in [false, true] {
            let bench = try EngineBench()
            bench.answer(.http(503, retryAfter: "900"))
            let id = try bench.enqueue()
            try bench.poll()
            bench.clock.shiftWall(jump)
            try bench.reportClock()
            if restarts { try bench.reopen() }
            try bench.pass(899_999)
            #expect(bench.deliveries.count == 1)
            #expect(try bench.engine.explain(id).reason == .retrying)
            try bench.pass(1)
            #expect(try bench.status(id) == .sent)
        }
    }

    @Test func M6_after_a_reboot_the_wall_clock_counts_or_the_whole_delay_if_it_went_back() throws {
        for (off, left) in [(Int64(300_000), Int64(600_000)), (-1, 900_000), (-Self.tenYears, 900_000)] {
            let bench = try EngineBench()
            bench.answer(.http(503, retryAfter: "900"))
            let id = try bench.enqueue()
            try bench.poll()
            bench.clock.reboot(after: off)
            try bench.reopen()
            try bench.pass(left - 1)
            #expect(bench.deliveries.count == 1)
            try bench.pass(1)
            #expect(try bench.status(id) == .sent)
        }
    }

    @Test func M6_a_delay_of_the_whole_queue_survives_restarts_and_reboots() throws {
        let bench = try EngineBench { $0.backoff = .ladder([1]) }
        var outcome = Outcome.http(503, retryAfter: "900")
        outcome.retryAfterIsForQueue = true
        bench.answer(outcome)
        try bench.enqueue("1", "ana")
        let other = try bench.enqueue("2", "ben")
        try bench.poll()
        bench.clock.shiftWall(Self.tenYears)
        try bench.reopen()
        try bench.pass(100_000)
        bench.clock.shiftWall(-Self.tenYears)
        bench.clock.reboot(after: 100_000)
        try bench.reopen()
        #expect(try bench.engine.explain(other).reason == .holding)
        try bench.pass(699_999)
        #expect(bench.deliveries.count == 1)
        try bench.pass(1)
        #expect(try bench.status(other) == .sent)
        try bench.reopen()
        #expect(try bench.engine.counts(nil).queued == 0)
    }

    @Test func M9_the_return_of_the_network_ends_a_delay_also_after_a_restart() throws {
        let bench = try EngineBench { $0.backoff = .ladder([3_600_000]) }
        bench.answer(.retry(.network))
        let id = try bench.enqueue()
        try bench.poll()
        try bench.reopen()
        try bench.engine.setNetwork(Network(connectivity: .offline))
        try bench.pass(1_000)
        try bench.engine.setNetwork(Network(connectivity: .online))
        try bench.pass(499)
        #expect(bench.deliveries.count == 1)
        try bench.pass(1)
        #expect(try bench.status(id) == .sent)
    }

    @Test func M4_retries_due_during_suspend_run_on_resume() throws {
        let bench = try EngineBench { $0.backoff = .ladder([3_600_000]) }
        bench.answer(.retry(.server))
        let id = try bench.enqueue()
        try bench.poll()
        bench.clock.sleep(8 * 3_600_000)
        try bench.reportClock()
        #expect(try bench.status(id) == .sent)
    }

    @Test func X8_an_attempt_does_not_time_out_because_of_a_suspend() throws {
        let bench = try EngineBench { $0.attemptTimeout = 30_000 }
        bench.answer(Outcome(verdict: .pending))
        let id = try bench.enqueue()
        try bench.poll()
        bench.clock.sleep(8 * 3_600_000)
        try bench.pass(1)
        let token = try #require(bench.deliveries.first).token
        try bench.engine.complete(token, .sent)
        #expect(try bench.status(id) == .sent)
        #expect(bench.deliveries.count == 1)
    }

    @Test(arguments: jumps)
    func no_unsent_message_is_lost_when_a_clock_is_set(jump: Int64) throws {
        let bench = try EngineBench {
            $0.mode = .manual; $0.direct = false; $0.backoff = .ladder([])
        }
        let waiting = try bench.enqueue("1")
        bench.answer(.reject(.rejected))
        let failed = try bench.enqueue("2", "ben")
        try bench.engine.sendNow(failed)
        try bench.poll()
        bench.clock.shiftWall(jump)
        try bench.pass(3_600_000)
        try bench.reopen()
        try bench.pass(3_600_000)
        #expect(try bench.status(waiting) == .queued)
        #expect(try bench.status(failed) == .failed)
    }

    @Test func the_alarm_uses_the_clock_that_includes_suspend() throws {
        let alarm = try Alarm(.system)
        defer { alarm.close() }
        alarm.arm(Ports.system.mono() + 30)
        let began = Ports.system.mono()
        #expect(alarm.sleep(network: nil) == .deadline)
        #expect(Ports.system.mono() - began >= 29)
        alarm.signal()
        #expect(alarm.sleep(network: nil) == [], "only a wake-up by another thread")
        alarm.arm(0)
        #expect(alarm.sleep(network: nil) == .deadline, "a time in the past is due at once")
        alarm.arm(Int64.max)
        alarm.signal()
        #expect(alarm.sleep(network: nil) == [])
    }
}
