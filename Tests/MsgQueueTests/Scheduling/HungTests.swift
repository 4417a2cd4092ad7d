import Testing

@testable import MsgQueue

@Suite struct HungTests {
    private func hanging(_ lanes: Int, maxInFlight: Int = 1) throws -> Simulation {
        let simulation = try Simulation(.auto, backoff: .ladder([1_000]), maxInFlight: maxInFlight)
        simulation.answersInCall = true
        simulation.preload((0..<lanes).map { Name("c\($0)") })
        return simulation
    }

    @Test func X8_a_call_that_hangs_times_out_and_blocks_only_its_own_conversation() throws {
        let simulation = try hanging(2)
        simulation.preload(["c0"])
        try simulation.settle()
        #expect(simulation.deadline == simulation.now.mono + 30_000)
        simulation.advance(30_000)
        try simulation.settle()
        #expect(simulation.inFlight == [2])
        try simulation.answer(2, .sent)
        simulation.advance(60_000)
        try simulation.settle()
        #expect(simulation.starts == [1, 2], "the call for c0 has not returned")
        #expect(simulation.text(of: 1) == "Waiting for the last attempt to end.")
        #expect(simulation.text(of: 3) == "Another message of this conversation goes first.")
        simulation.returnCall(try #require(simulation.hanging.first).token, nil)
        try simulation.run()
        #expect(simulation.starts == [1, 2, 1, 3])
    }

    @Test func X8_hung_calls_use_no_slot_up_to_a_limit() throws {
        let simulation = try hanging(40)
        for _ in 0..<40 {
            try simulation.settle()
            simulation.advance(30_000)
        }
        try simulation.settle()
        #expect(simulation.starts.count == Flights.hungCeiling + 1)
        #expect(simulation.deadline == nil)
        simulation.returnCall(try #require(simulation.hanging.first).token, nil)
        try simulation.settle()
        #expect(simulation.starts.count == Flights.hungCeiling + 2)
    }

    @Test func X8_a_pending_attempt_that_times_out_leaves_no_state() throws {
        let simulation = try Simulation(.auto, backoff: .ladder([1_000]))
        simulation.preload(["a"])
        try simulation.settle()
        simulation.advance(30_000)
        try simulation.settle()
        #expect(simulation.hanging.isEmpty)
        simulation.advance(1_000)
        try simulation.settle()
        #expect(simulation.inFlight == [1])
    }

    @Test func X8_a_late_success_of_the_latest_attempt_removes_the_message_from_the_queue() throws {
        let simulation = try Simulation(.auto, backoff: .ladder([1_000]))
        simulation.preload(["a", "a"])
        try simulation.settle()
        let token = try #require(simulation.flights.first).token
        simulation.advance(30_000)
        try simulation.settle()
        simulation.answerLate(token, .sent)
        try simulation.settle()
        #expect(simulation.status(1) == .sent)
        #expect(simulation.inFlight == [2])
    }

    @Test func X8_a_late_answer_after_another_attempt_began_is_ignored() throws {
        let simulation = try Simulation(.auto, backoff: .ladder([1_000]))
        simulation.preload(["a"])
        try simulation.settle()
        let token = try #require(simulation.flights.first).token
        simulation.advance(30_000)
        try simulation.settle()
        simulation.advance(1_000)
        try simulation.settle()
        simulation.answerLate(token, .sent)
        #expect(simulation.status(1) == .sending)
    }

    @Test func A6_a_drain_does_not_wait_for_a_call_after_its_time_out() throws {
        let simulation = try Simulation(.manual)
        simulation.answersInCall = true
        simulation.preload(["a"])
        simulation.drain()
        try simulation.settle()
        simulation.advance(30_000)
        try simulation.settle()
        #expect(simulation.reports == [Report(stop: .empty, failed: 1, remainingFailed: 1)])
    }
}
