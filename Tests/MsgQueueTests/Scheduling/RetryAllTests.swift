import Testing

@testable import MsgQueue

@Suite struct RetryAllTests {
    private func failing(
        _ mode: Mode, _ conversations: [Name], maxInFlight: Int = 1, backoff: Backoff = .automatic,
        _ change: (inout Options) -> Void = { _ in }
    ) throws -> Simulation {
        let simulation = try Simulation(mode, direct: false, backoff: backoff, maxInFlight: maxInFlight, change)
        simulation.preload(conversations)
        simulation.drain()
        try simulation.run { _ in .reject() }
        return simulation
    }

    @Test(arguments: [Mode.auto, .ask, .manual])
    func R14_retry_all_sends_failed_messages_in_order_in_any_mode(mode: Mode) throws {
        let conversations = (0..<700).map { Name("c\($0 % 7)") }
        let simulation = try failing(mode, conversations)
        let before = simulation.starts.count
        #expect(simulation.retryAll() == 700)
        try simulation.run()
        #expect(Array(simulation.starts[before...]) == Array(1...700))
        #expect(simulation.store.queued.isEmpty)
        #expect(simulation.scheduler.round == nil)
    }

    @Test(arguments: [Mode.ask, .manual])
    func R14_retry_all_does_not_send_what_was_queued_before(mode: Mode) throws {
        let simulation = try Simulation(mode, direct: false)
        simulation.preload(["a", "a", "b", "a"])
        simulation.sendNow(2)
        simulation.sendNow(4)
        try simulation.run { _ in .reject() }
        simulation.retryAll()
        try simulation.run()
        #expect(simulation.starts == [2, 4, 2, 4])
        #expect(simulation.store.queued == [1, 3])
    }

    /// A drain and the retried messages of one conversation are not mixed in one batch, whose order would be wrong.
    @Test(arguments: [Mode.ask, .manual])
    func A2_R14_no_batch_has_a_retried_message_before_an_earlier_one(mode: Mode) throws {
        var options = Options()
        (options.mode, options.direct) = (mode, false)
        let simulation = try Simulation(options, batches: BatchLimits())
        simulation.preload(["a", "a", "a"])
        simulation.sendNow(2)
        try simulation.run { _ in .reject() }
        simulation.retryAll()
        simulation.drain()
        try simulation.settle()
        #expect(simulation.inFlight == [2])
        try simulation.run()
        #expect(simulation.starts == [2, 2, 1, 3])
    }

    @Test func Q4_R14_a_retry_by_timer_behind_which_nothing_was_put_back_delays_no_prompt() throws {
        let simulation = try failing(.ask, ["a"], backoff: .ladder([60_000]))
        let before = simulation.count(.prompt)
        simulation.enqueue("b")
        simulation.retryAll()
        try simulation.settle()
        try simulation.answer(1, .retry(.server))
        simulation.setBackground(true)
        simulation.setBackground(false)
        try simulation.settle()
        #expect(simulation.count(.prompt) == before + 1)
    }

    @Test func R14_in_mode_auto_retried_messages_go_after_earlier_queued_ones() throws {
        let simulation = try Simulation(.auto, direct: false)
        simulation.preload(["a", "a"])
        try simulation.settle()
        try simulation.answer(1, .retry(.server))
        simulation.sendNow(2)
        try simulation.settle()
        try simulation.answer(2, .reject())
        simulation.retryAll()
        try simulation.settle()
        #expect(simulation.inFlight.isEmpty)
        simulation.advance(5_000)
        try simulation.run()
        #expect(simulation.starts == [1, 2, 1, 2])
    }

    @Test func R14_a_retryable_failure_blocks_those_behind_it() throws {
        let simulation = try failing(.manual, ["a", "a", "b"], backoff: .ladder([1_000]))
        simulation.retryAll()
        try simulation.run { $0 == 1 ? .retry() : .sent }
        #expect(Array(simulation.starts.dropFirst(3)) == [1, 3])
        simulation.advance(1_000)
        simulation.drain()
        try simulation.run()
        #expect(Array(simulation.starts.dropFirst(3)) == [1, 3, 1, 2])
    }

    @Test func R14_in_mode_ask_their_retries_run_by_timer() throws {
        let simulation = try failing(.ask, ["a", "b"], backoff: .ladder([1_000]))
        simulation.retryAll()
        try simulation.run { _ in .retry() }
        simulation.advance(1_000)
        try simulation.run()
        #expect(Array(simulation.starts.dropFirst(2)) == [1, 2, 1, 2])
    }

    @Test func R14_M12_in_mode_ask_those_behind_a_retry_follow_it() throws {
        let simulation = try failing(.ask, Array(repeating: "a", count: 5), backoff: .ladder([200, 200]))
        simulation.retryAll()
        try simulation.run { $0 == 1 ? .retry(.server) : .sent }
        #expect(Array(simulation.starts.dropFirst(5)) == [1])
        simulation.advance(200)
        try simulation.run { $0 == 1 ? .retry(.server) : .sent }
        simulation.advance(200)
        try simulation.run()
        #expect(Array(simulation.starts.dropFirst(5)) == [1, 1, 1, 2, 3, 4, 5])
        #expect(simulation.store.queued.isEmpty)
        #expect(simulation.scheduler.round == nil)
    }

    @Test func R14_M12_in_mode_ask_those_behind_a_retry_follow_its_removal() throws {
        let simulation = try failing(.ask, ["a", "a"], backoff: .ladder([200]))
        simulation.retryAll()
        try simulation.run { _ in .retry(.server) }
        simulation.delete(1)
        try simulation.run()
        #expect(Array(simulation.starts.dropFirst(2)) == [1, 2])
    }

    @Test func R14_paused_messages_are_sent_after_the_resume() throws {
        let simulation = try failing(.manual, ["a", "b", "a"])
        simulation.pause("a")
        #expect(simulation.retryAll() == 3)
        try simulation.run()
        #expect(Array(simulation.starts.dropFirst(3)) == [2])
        simulation.resume("a")
        try simulation.run()
        #expect(Array(simulation.starts.dropFirst(3)) == [2, 1, 3])
    }

    @Test func R14_when_the_connection_is_lost_the_rest_stays_queued() throws {
        let simulation = try failing(.manual, ["a", "a", "a"])
        simulation.retryAll()
        try simulation.settle()
        simulation.goOffline()
        try simulation.answer(1, .sent)
        simulation.goOnline()
        try simulation.run()
        #expect(simulation.starts.count == 4)
        #expect(simulation.store.queued == [2, 3])
    }

    @Test func R14_further_messages_can_be_added_while_it_runs() throws {
        let simulation = try failing(.manual, ["a", "b", "a"])
        simulation.retryAll("a")
        try simulation.settle()
        simulation.retryAll()
        try simulation.run()
        #expect(Array(simulation.starts.dropFirst(3)) == [1, 2, 3])
    }

    @Test func R14_a_long_backlog_in_between_is_read_in_steps() throws {
        let simulation = try Simulation(.manual, direct: false)
        simulation.preload(Array(repeating: "a", count: 6_000))
        simulation.sendNow(6_000)
        try simulation.run { _ in .reject() }
        simulation.retryAll()
        try simulation.settle()
        #expect(simulation.inFlight.isEmpty)
        #expect(simulation.deadline == simulation.now.mono + 1)
        simulation.advance(1)
        try simulation.run()
        #expect(simulation.status(6_000) == .sent)
        #expect(simulation.store.queued.count == 5_999)
    }

    @Test func R14_an_expired_message_is_sent() throws {
        let simulation = try Simulation(.manual, direct: false)
        let wall = simulation.now.wall
        simulation.preload(["a"]) { $0.expiresAt = wall + 10 }
        simulation.advance(20)
        simulation.drain()
        try simulation.run()
        #expect(simulation.status(1) == .failed)
        simulation.retryAll()
        try simulation.run()
        #expect(simulation.status(1) == .sent)
    }
}
