import Testing

@testable import MsgQueue

/// Queues longer than the part that the scheduler keeps in memory: 16 messages of a conversation, 256 of a scan.
@Suite struct WindowTests {
    private func spread(_ count: Int, over lanes: Int) -> [Name] { (0..<count).map { Name("c\($0 % lanes)") } }

    @Test(arguments: [15, 16, 17, 33, 100])
    func M3_a_conversation_longer_than_the_window_is_sent_in_order(count: Int) throws {
        let simulation = try Simulation(.auto)
        simulation.preload(spread(count, over: 1))
        try simulation.run()
        #expect(simulation.starts == Array(1...Int64(count)))
    }

    @Test(arguments: [255, 256, 257, 512, 700])
    func Q13_a_backlog_longer_than_a_scan_is_sent_in_order(count: Int) throws {
        let simulation = try Simulation(.auto)
        simulation.preload(spread(count, over: 30))
        try simulation.run()
        #expect(simulation.starts == Array(1...Int64(count)))
    }

    @Test func Q13_memory_grows_only_with_messages_that_may_be_sent() throws {
        let simulation = try Simulation(.manual)
        simulation.preload(spread(1_000, over: 1_000))
        try simulation.settle()
        #expect(simulation.scheduler.lanes.count == 0, "nothing is read that may not be sent")
        simulation.drain()
        try simulation.settle()
        #expect(simulation.scheduler.lanes.count <= Scheduler.scanChunk)
        try simulation.run()
        #expect(simulation.scheduler.lanes.count == 0)
    }

    /// 256 of 300 messages are read. The conversation of the new message has others that are not.
    @Test(arguments: [Mode.auto, .manual])
    func A2_a_message_enqueued_during_a_long_drain_stays_behind_its_conversation(mode: Mode) throws {
        let simulation = try Simulation(mode, direct: false) { $0.liveShare = 0 }
        simulation.preload(spread(300, over: 30))
        if mode == .manual { simulation.drain() }
        try simulation.settle()
        simulation.enqueue("c0")
        try simulation.run()
        #expect(simulation.starts == Array(1...301))
        #expect(simulation.queued.isEmpty)
    }

    /// The last message of c0 that was read is being sent; later ones of c0 were not read.
    @Test(arguments: [Mode.auto, .ask, .manual])
    func A2_M2_a_direct_message_does_not_overtake_unread_rows(mode: Mode) throws {
        let simulation = try Simulation(mode, maxInFlight: 64)
        simulation.preload(["c0"] + (0..<255).map { Name("d\($0)") } + ["c0"])
        if mode != .auto { simulation.drain() }
        try simulation.settle()
        #expect(simulation.inFlight.contains(1))
        simulation.enqueue("c0")
        try simulation.answer(1, .sent)
        try simulation.settle()
        try simulation.run()
        let lane = simulation.starts.filter { [1, 257, 258].contains($0) }
        #expect(lane == [1, 257, 258])
    }

    @Test func A2_Q6_a_message_that_returns_after_send_now_skips_no_unread_rows() throws {
        let simulation = try Simulation(.auto, backoff: .ladder([1]))
        simulation.preload(spread(300, over: 30))
        try simulation.settle()
        // 300 belongs to c29 and was not read yet; 270 and 290 are before it there.
        simulation.sendNow(300)
        try simulation.answer(1, .sent)
        try simulation.settle()
        try simulation.answer(300, .retry())
        simulation.advance(1)
        try simulation.run()
        #expect(simulation.starts == [1, 300] + Array(2...300))
    }

    @Test func A2_a_retry_keeps_its_place_in_a_long_conversation() throws {
        let simulation = try Simulation(.auto, backoff: .ladder([10]))
        simulation.preload(spread(50, over: 1))
        var failed: Set<Int64> = []
        for _ in 0..<60 {
            try simulation.run { failed.insert($0).inserted ? .retry() : .sent }
            simulation.advance(10)
        }
        let twice: [Int64] = (1...50).flatMap { [$0, $0] }
        #expect(simulation.starts == twice)
    }

    @Test func X5_more_scheduled_messages_than_the_window_do_not_block_those_behind() throws {
        let simulation = try Simulation(.auto)
        let at = simulation.now.wall + 1_000_000
        for _ in 0..<100 { simulation.preload(["a"]) { $0.notBefore = at } }
        simulation.preload(["a", "a"])
        try simulation.run()
        #expect(simulation.starts == [101, 102])
        for _ in 0..<20 {
            simulation.advance(60_000)
            try simulation.run()
        }
        #expect(simulation.starts == [101, 102] + Array(1...100))
    }

    @Test func A2_names_that_look_equal_are_two_conversations() throws {
        let simulation = try Simulation(.auto, maxInFlight: 2)
        simulation.preload(["caf\u{e9}", "cafe\u{301}"])
        for _ in 0..<40 { simulation.preload(["caf\u{e9}", "cafe\u{301}"]) }
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2])
        try simulation.run()
        #expect(simulation.queued.isEmpty)
    }

    private func set(_ status: MessageStatus, _ sequence: Int64, _ simulation: Simulation) throws {
        let row = try #require(simulation.row(sequence))
        var progress = row.progress
        progress.status = status
        try simulation.locked { () throws(QueueError) in
            try simulation.context.store.begin()
            try simulation.context.store.messages.update(row, to: progress)
            try simulation.context.store.commit(durable: false)
        }
    }

    /// An index of the store lacked message 2 when the backlog was read.
    @Test func D10_a_message_missed_behind_one_in_flight_is_sent_in_its_place() throws {
        let simulation = try Simulation(.auto)
        simulation.preload(["a", "a", "a"])
        simulation.checker.isDisabled = true
        try set(.failed, 2, simulation)
        try simulation.settle()
        #expect(simulation.inFlight == [1])
        try set(.queued, 2, simulation)
        simulation.scheduler.forgetBacklog(simulation.now)
        try simulation.run()
        #expect(simulation.starts == [1, 2, 3])
    }
}
