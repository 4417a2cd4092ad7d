import Testing

@testable import MsgQueue

@Suite struct PromptTests {
    /// Goes offline with queued messages, then online until the end of online_debounce.
    private func asked(_ count: Int = 3, backoff: Backoff = .automatic) throws -> EngineSimulation {
        let simulation = try EngineSimulation(.ask, backoff: backoff)
        simulation.goOffline()
        simulation.enqueue("a", count: count)
        try simulation.settle()
        simulation.goOnline()
        try simulation.settle()
        #expect(simulation.count(.prompt) == 0, "online_debounce has not ended")
        simulation.advance(500)
        try simulation.settle()
        return simulation
    }

    @Test func Q4_coming_online_with_queued_messages_prompts_once() throws {
        let simulation = try asked()
        #expect(simulation.count(.prompt) == 1)
        simulation.advance(5_000)
        try simulation.settle()
        #expect(simulation.count(.prompt) == 1)
        #expect(simulation.count(.promptWithdrawn) == 0)
        #expect(simulation.starts.isEmpty, "nothing is sent before a drain")
    }

    @Test func Q4_a_drain_answers_the_prompt() throws {
        let simulation = try asked()
        simulation.drain()
        try simulation.run()
        #expect(simulation.count(.promptWithdrawn) == 1)
        #expect(simulation.starts == [1, 2, 3])
        #expect(simulation.count(.prompt) == 1)
    }

    @Test func Q4_a_prompt_expires_in_time_while_the_store_refuses_writes() throws {
        let simulation = try asked()
        let end = simulation.now.mono + 10_000
        simulation.breakStore()
        simulation.sendNow(1)
        try simulation.settle()
        while simulation.count(.promptWithdrawn) == 0 {
            let deadline = try #require(simulation.deadline)
            simulation.advance(deadline - simulation.now.mono)
            try simulation.settle()
        }
        #expect(simulation.now.mono == end)
    }

    @Test func Q4_a_prompt_expires_and_is_not_repeated() throws {
        let simulation = try asked()
        #expect(simulation.deadline == simulation.now.mono + 10_000)
        simulation.advance(9_999)
        try simulation.settle()
        #expect(simulation.count(.promptWithdrawn) == 0)
        simulation.advance(1)
        try simulation.settle()
        #expect(simulation.count(.promptWithdrawn) == 1)
        simulation.advance(1_000_000)
        try simulation.settle()
        #expect(simulation.count(.prompt) == 1)
    }

    @Test func Q4_a_prompt_is_withdrawn_when_the_link_is_lost_and_raised_again_when_it_returns() throws {
        let simulation = try asked()
        simulation.goOffline()
        try simulation.settle()
        #expect(simulation.count(.promptWithdrawn) == 1)
        simulation.goOnline()
        simulation.advance(500)
        try simulation.settle()
        #expect(simulation.count(.prompt) == 2)
    }

    @Test func Q4_a_prompt_is_withdrawn_when_the_queue_is_empty() throws {
        let simulation = try asked(2)
        simulation.delete(1)
        try simulation.settle()
        #expect(simulation.count(.promptWithdrawn) == 0)
        simulation.delete(2)
        try simulation.settle()
        #expect(simulation.count(.promptWithdrawn) == 1)
        simulation.enqueue("b")
        try simulation.run()
        #expect(simulation.count(.prompt) == 1)
    }

    @Test func Q4_flapping_does_not_repeat_a_prompt() throws {
        let simulation = try EngineSimulation(.ask)
        simulation.goOffline()
        simulation.enqueue("a")
        for _ in 0..<100 {
            simulation.goOnline()
            simulation.advance(5)
            try simulation.settle()
            simulation.goOffline()
            simulation.advance(5)
            try simulation.settle()
        }
        #expect(simulation.count(.prompt) == 0)
        simulation.goOnline()
        simulation.advance(500)
        try simulation.settle()
        #expect(simulation.count(.prompt) == 1)
    }

    @Test func Q4_an_empty_queue_raises_no_prompt() throws {
        let simulation = try EngineSimulation(.ask)
        simulation.goOffline()
        try simulation.settle()
        simulation.goOnline()
        simulation.advance(500)
        try simulation.settle()
        #expect(simulation.count(.prompt) == 0)
    }

    @Test(arguments: [Mode.auto, .manual])
    func Q4_the_other_modes_raise_no_prompt(mode: Mode) throws {
        let simulation = try EngineSimulation(mode)
        simulation.goOffline()
        simulation.enqueue("a")
        simulation.goOnline()
        simulation.advance(500)
        try simulation.run()
        #expect(simulation.count(.prompt) == 0)
    }

    @Test func Q4_a_backlog_at_the_start_raises_a_prompt_when_a_transport_is_set() throws {
        let simulation = try EngineSimulation(.ask)
        simulation.preload(["a"])
        try simulation.settle()
        #expect(simulation.count(.prompt) == 1)
    }

    @Test func Q4_a_retry_of_a_drained_message_needs_no_second_prompt() throws {
        let simulation = try asked(2, backoff: .ladder([5_000]))
        simulation.drain()
        try simulation.run { _ in .retry() }
        #expect(simulation.reports.map(\.stop) == [.waiting])
        simulation.advance(5_000)
        try simulation.settle()
        #expect(simulation.inFlight == [1])
        #expect(simulation.count(.prompt) == 1)
    }

    /// More messages than the scheduler holds of a conversation.
    @Test(arguments: [Int32(0), 1])
    func Q4_M2_direct_messages_that_wait_for_the_rate_are_no_backlog(priority: Int32) throws {
        let simulation = try EngineSimulation(.ask) { ($0.ratePerSecond, $0.rateBurst) = (10, 1) }
        try simulation.settle()
        simulation.enqueue("a", count: 2)
        simulation.enqueue("a", count: 38) { $0.priority = priority }
        try simulation.run()
        while simulation.starts.count < 40 {
            simulation.advance(10)
            try simulation.run()
        }
        #expect(simulation.count(.prompt) == 0)
    }

    @Test func Q4_a_backlog_beside_direct_messages_is_asked_about() throws {
        let simulation = try EngineSimulation(.ask) { ($0.ratePerSecond, $0.rateBurst) = (10, 1) }
        simulation.goOffline()
        simulation.enqueue("b")
        simulation.goOnline()
        simulation.enqueue("a", count: 40)
        try simulation.run()
        for _ in 0..<60 {
            simulation.advance(10)
            try simulation.run()
        }
        #expect(simulation.count(.prompt) == 1)
        #expect(simulation.starts.count < 40)
    }

    /// When the only message that `retryAll` put back is sent by hand, the prompt is counted again although no slot is free.
    @Test func Q4_R14_a_prompt_is_counted_again_when_nothing_of_retry_all_is_left() throws {
        let simulation = try Simulation(.ask, direct: false) { $0.onlineDebounce = 0 }
        simulation.enqueue(["a", "b"])
        simulation.sendNow(1)
        try simulation.run { _ in .reject() }
        simulation.goOffline()
        simulation.goOnline()
        try simulation.settle()
        #expect(simulation.core.prompt?.messages == 1)
        simulation.sendNow(2)
        try simulation.settle()
        #expect(simulation.retryAll() == 1)
        simulation.enqueue(["c", "d"])
        simulation.sendNow(1)
        try simulation.settle()
        #expect(Set(simulation.inFlight) == [1, 2])
        simulation.advance(250)
        // It checks the number of messages of the prompt.
        try simulation.settle()
        #expect(simulation.core.prompt?.messages == 2)
    }
}
