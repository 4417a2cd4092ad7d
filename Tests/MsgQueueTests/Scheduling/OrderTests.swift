import Testing

@testable import MsgQueue

@Suite struct OrderTests {
    @Test func M3_Q7_messages_are_sent_oldest_first() throws {
        let simulation = try Simulation(.auto)
        simulation.preload((0..<12).map { ["a", "b", "c"][$0 % 3] })
        try simulation.run()
        #expect(simulation.starts == Array(1...12))
    }

    @Test func Q8_messages_are_sent_one_at_a_time_by_default() throws {
        let simulation = try Simulation(.auto)
        simulation.preload(["a", "b", "c"])
        try simulation.settle()
        #expect(simulation.inFlight == [1])
        try simulation.answer(1, .sent)
        try simulation.settle()
        #expect(simulation.inFlight == [2])
    }

    @Test func A10_several_conversations_are_sent_in_parallel_each_in_order() throws {
        let simulation = try Simulation(.auto, maxInFlight: 2)
        simulation.preload(["a", "a", "b", "b", "c"])
        try simulation.settle()
        #expect(simulation.inFlight == [1, 3])
        try simulation.answer(3, .sent)
        try simulation.settle()
        #expect(simulation.inFlight == [1, 4], "two messages of one conversation are never being sent")
        try simulation.answer(1, .sent)
        try simulation.settle()
        #expect(simulation.inFlight == [4, 2])
    }

    @Test func A2_a_message_queued_for_a_retry_blocks_only_its_own_conversation() throws {
        let simulation = try Simulation(.auto)
        simulation.preload(["a", "a", "b"])
        try simulation.settle()
        try simulation.answer(1, .retry(.server))
        try simulation.run()
        #expect(simulation.starts == [1, 3])
        #expect(simulation.status(2) == .queued)
        simulation.advance(4_999)
        try simulation.settle()
        #expect(simulation.starts == [1, 3])
        simulation.advance(1)
        try simulation.run()
        #expect(simulation.starts == [1, 3, 1, 2])
    }

    @Test func Q10_Q18_a_message_that_failed_for_good_does_not_block() throws {
        let simulation = try Simulation(.manual)
        simulation.preload(["a", "a", "b"])
        simulation.drain()
        try simulation.run { $0 == 1 ? .reject() : .sent }
        #expect(simulation.starts == [1, 2, 3])
        #expect(simulation.status(1) == .failed)
        #expect(simulation.reports == [Report(stop: .empty, sent: 2, failed: 1, remainingFailed: 1)])
    }

    @Test func A3_each_message_of_a_mixed_queue_ends_in_its_status() throws {
        let simulation = try Simulation(.auto) { $0.maxRetries = 1 }
        simulation.preload(["a", "b", "c", "d"])
        let answers: [Int64: [Outcome]] = [1: [.sent], 2: [.reject(.notFound)], 3: [.retry(), .sent], 4: [.retry(), .retry()]]
        var used: [Int64: Int] = [:]
        for _ in 0..<10 {
            try simulation.run { sequence in
                defer { used[sequence, default: 0] += 1 }
                return answers[sequence]?[used[sequence] ?? 0] ?? .reject()
            }
            simulation.advance(60_000)
        }
        #expect((1...4).map { simulation.status($0) } == [.sent, .failed, .sent, .failed])
        #expect(used == [1: 1, 2: 1, 3: 2, 4: 2])
    }

    @Test func A4_a_message_is_failed_after_at_most_five_retries() throws {
        let simulation = try Simulation(.auto, backoff: .ladder(Array(repeating: 10, count: 60)))
        simulation.preload(["a"])
        for _ in 0..<20 {
            try simulation.run { _ in .retry() }
            simulation.advance(10)
        }
        #expect(simulation.starts.count == 6)
        #expect(simulation.status(1) == .failed)
    }

    @Test func A2_order_holds_through_a_restart() throws {
        let simulation = try Simulation(.auto)
        simulation.preload(["a", "a", "b", "a"])
        try simulation.settle()
        try simulation.answer(1, .retry())
        try simulation.settle()
        simulation.restart()
        try simulation.settle()
        // 3 was interrupted and is sent again; 1 is queued for a retry and blocks 2 and 4.
        #expect(simulation.inFlight == [3])
        simulation.advance(5_000)
        try simulation.run()
        #expect(simulation.starts == [1, 3, 3, 1, 2, 4])
    }

    @Test func A5_flapping_causes_no_burst_and_no_second_attempt() throws {
        let simulation = try Simulation(.auto)
        simulation.goOffline()
        simulation.enqueue(["a", "b"])
        for _ in 0..<100 {
            simulation.goOnline()
            try simulation.settle()
            simulation.advance(5)
            simulation.goOffline()
            try simulation.settle()
            simulation.advance(5)
        }
        #expect(simulation.starts.isEmpty, "the link never lasted 500 ms")
        simulation.goOnline()
        try simulation.settle()
        simulation.advance(499)
        try simulation.settle()
        #expect(simulation.starts.isEmpty)
        simulation.advance(1)
        try simulation.run()
        #expect(simulation.starts == [1, 2])
    }

    @Test func A1_M9_a_backlog_at_the_start_is_sent_when_a_transport_is_set() throws {
        let simulation = try Simulation(Options(), hasTransport: false)
        simulation.preload(["a"])
        try simulation.settle()
        #expect(simulation.starts.isEmpty)
        simulation.setTransport(true)
        try simulation.settle()
        #expect(simulation.inFlight == [1])
    }

    @Test func Q17_a_cleared_message_is_not_sent() throws {
        let simulation = try Simulation(.auto)
        simulation.preload(["a", "a", "b", "b"])
        try simulation.settle()
        simulation.clear("a")
        simulation.clear("b")
        try simulation.run { _ in .retry() }
        #expect(simulation.starts == [1])
        #expect(simulation.queued.isEmpty)
        simulation.enqueue("b")
        try simulation.run()
        #expect(simulation.starts == [1, 5])
    }
}
