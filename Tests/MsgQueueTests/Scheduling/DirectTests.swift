import Testing

@testable import MsgQueue

@Suite struct DirectTests {
    @Test(arguments: [Mode.auto, .ask, .manual])
    func M2_Q16_a_message_enqueued_while_online_is_sent_at_once_in_every_mode(mode: Mode) throws {
        let simulation = try Simulation(mode)
        try simulation.settle()
        simulation.enqueue("a")
        try simulation.settle()
        #expect(simulation.inFlight == [1])
    }

    @Test(arguments: [Mode.ask, .manual])
    func M2_without_direct_only_drains_send(mode: Mode) throws {
        let simulation = try Simulation(mode, direct: false)
        simulation.enqueue("a")
        try simulation.settle()
        #expect(simulation.starts.isEmpty)
        simulation.drain()
        try simulation.run()
        #expect(simulation.starts == [1])
    }

    @Test func Q16_messages_that_wait_for_an_unmetered_link_are_all_still_sent_directly() throws {
        let simulation = try Simulation(.manual) { $0.unmeteredOnly = true }
        simulation.goOnline(metered: true)
        simulation.enqueue("a", count: 2)
        simulation.enqueue("a")
        try simulation.settle()
        #expect(simulation.starts.isEmpty)
        simulation.goOnline()
        try simulation.run()
        #expect(simulation.starts == [1, 2, 3])
    }

    @Test func M2_messages_enqueued_quickly_in_one_conversation_are_sent_one_at_a_time() throws {
        let simulation = try Simulation(.manual)
        simulation.enqueue("a")
        try simulation.settle()
        simulation.enqueue("a")
        simulation.enqueue("a", count: 3)
        try simulation.settle()
        #expect(simulation.inFlight == [1])
        try simulation.run()
        #expect(simulation.starts == [1, 2, 3, 4, 5])
    }

    @Test func M2_also_when_they_exceed_the_window() throws {
        let simulation = try Simulation(.manual)
        simulation.enqueue("a")
        try simulation.settle()
        for _ in 0..<60 { simulation.enqueue("a") }
        simulation.enqueue("a", count: 60)
        try simulation.run()
        #expect(simulation.starts == Array(1...121))
    }

    @Test func M2_a_batch_enqueued_while_online_is_sent_completely() throws {
        let simulation = try Simulation(.manual)
        simulation.enqueue(["a", "b", "a", "b", "a"])
        try simulation.run()
        #expect(simulation.starts.sorted() == [1, 2, 3, 4, 5])
    }

    @Test(arguments: [Mode.ask, .manual])
    func M2_a_message_behind_a_backlog_is_not_sent_at_once(mode: Mode) throws {
        let simulation = try Simulation(mode)
        simulation.preload(["a", "b"])
        simulation.enqueue(["a", "c"])
        try simulation.run()
        #expect(simulation.starts == [4], "only c has no backlog")
    }

    @Test func M2_in_manual_mode_a_failure_is_final_at_once_and_the_next_message_is_sent() throws {
        let simulation = try Simulation(.manual)
        simulation.enqueue("a")
        try simulation.settle()
        simulation.enqueue("a")
        try simulation.run { $0 == 1 ? .retry() : .sent }
        #expect(simulation.starts == [1, 2])
        #expect(simulation.status(1) == .failed)
    }

    @Test func M2_a_retryable_failure_leaves_the_message_queued_and_blocks_those_behind_it() throws {
        let simulation = try Simulation(.manual, backoff: .ladder([100]))
        simulation.enqueue("a")
        try simulation.settle()
        simulation.enqueue("a")
        try simulation.run { _ in .retry() }
        simulation.advance(1_000)
        try simulation.settle()
        #expect(simulation.starts == [1], "it was attempted once; the next drain sends it")
        #expect(simulation.status(1) == .queued)
        simulation.drain()
        try simulation.run()
        #expect(simulation.starts == [1, 1, 2])
    }

    @Test func M2_direct_messages_become_backlog_when_the_link_is_lost() throws {
        let simulation = try Simulation(.manual)
        simulation.enqueue("a")
        try simulation.settle()
        simulation.enqueue("a")
        simulation.goOffline()
        simulation.goOnline()
        try simulation.answer(1, .sent)
        try simulation.settle()
        simulation.advance(10_000)
        try simulation.settle()
        #expect(simulation.starts == [1])
        #expect(simulation.status(2) == .queued)
    }

    @Test func M2_a_message_enqueued_offline_is_not_sent_at_once() throws {
        let simulation = try Simulation(.manual)
        simulation.goOffline()
        simulation.enqueue("a")
        try simulation.settle()
        simulation.goOnline()
        simulation.advance(10_000)
        try simulation.settle()
        #expect(simulation.starts.isEmpty)
    }

    @Test func M2_a_message_sent_on_demand_does_not_use_the_permission_of_earlier_ones() throws {
        let simulation = try Simulation(.manual, backoff: .ladder([100]))
        simulation.enqueue("a")
        try simulation.settle()
        simulation.enqueue("a", count: 2)
        simulation.sendNow(3)
        try simulation.answer(1, .sent)
        try simulation.settle()
        #expect(simulation.inFlight == [3])
        try simulation.answer(3, .retry())
        try simulation.settle()
        #expect(simulation.inFlight == [2], "it was enqueued online, behind only a message that was sent at once")
    }

    @Test func M2_a_direct_message_does_not_start_the_backlog() throws {
        let simulation = try Simulation(.manual)
        simulation.enqueue("a")
        try simulation.settle()
        simulation.enqueue("a")
        simulation.setTransport(false)
        simulation.enqueue("a")
        simulation.setTransport(true)
        simulation.enqueue("a")
        try simulation.run()
        #expect(simulation.starts == [1, 2], "3 was not enqueued as a direct message, and is before 4")
        #expect(simulation.status(4) == .queued)
    }

    @Test func M2_a_direct_message_is_sent_although_a_drain_has_not_read_its_row() throws {
        let simulation = try Simulation(.manual)
        simulation.preload((0..<600).map { Name("c\($0 % 7)") })
        simulation.drain()
        try simulation.settle()
        simulation.enqueue("new")
        try simulation.run()
        #expect(simulation.starts == [1, 2, 601] + Array(3...600))
    }

    /// A direct message that waits for its time is still sent at that time when a later one failed meanwhile, and so is what follows that one.
    @Test(arguments: [Mode.ask, .manual])
    func M2_Q16_a_scheduled_message_stays_direct_when_a_later_one_fails(mode: Mode) throws {
        let simulation = try Simulation(mode, backoff: .ladder([1]))
        simulation.enqueue("a") { $0.notBefore = simulation.now.wall + 5_000 }
        simulation.enqueue("a")
        try simulation.settle()
        #expect(simulation.inFlight == [2])
        simulation.enqueue("a")
        try simulation.answer(2, mode == .ask ? .retry(.server) : .reject())
        try simulation.settle()
        simulation.advance(5_000)
        try simulation.run()
        #expect(Set(simulation.starts) == [1, 2, 3])
        #expect(simulation.queued.isEmpty)
    }

    /// The other message of its conversation in the same batch is put back, after or before that.
    @Test(arguments: [true, false])
    func M2_B1_a_skipped_message_stays_direct_when_another_of_its_batch_fails(skipsFirst: Bool) throws {
        let simulation = try Simulation(Simulation.options(.ask, true, .ladder([1]), 4) { _ in }, batches: BatchLimits())
        simulation.enqueue("a", count: 2)
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2])
        if skipsFirst { try simulation.answer(2, .skipped) }
        try simulation.answer(1, .retry(.server))
        if !skipsFirst { try simulation.answer(2, .skipped) }
        simulation.advance(5_000)
        try simulation.run()
        #expect(simulation.starts == [1, 2, 1, 2])
        #expect(simulation.queued.isEmpty)
    }
}
