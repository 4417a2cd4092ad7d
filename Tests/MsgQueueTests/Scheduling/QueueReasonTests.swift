import Testing

@testable import MsgQueue

/// Q20: the reason of the queue, found from its first queued messages.
@Suite struct QueueReasonTests {
    private func look(_ simulation: Simulation) -> QueueSample {
        QueueSample(
            simulation.queued.prefix(QueueSample.limit).compactMap { sequence in
                simulation.row(sequence).map { ($0.conversation, $0.head) }
            })
    }

    private func wait(_ simulation: Simulation) throws -> Wait {
        try simulation.settle()
        let reasons = QueueReasons(simulation.scheduler, simulation.now)
        let wait = reasons.wait(queued: Int64(simulation.queued.count), hasStart: simulation.hasStart)
        return reasons.needsSample(wait) ? reasons.wait(wait, look(simulation)) : wait
    }

    @Test(arguments: [Mode.ask, .manual])
    func Q20_the_reason_is_person_only_when_a_drain_would_send(mode: Mode) throws {
        let simulation = try Simulation(mode, direct: false, backoff: .ladder([60_000]))
        simulation.enqueue("a") { $0.notBefore = simulation.now.wall + 5_000 }
        let due = simulation.now.wall + 5_000
        #expect(try wait(simulation) == Wait(reason: .scheduled, until: due, after: .person, earliest: due))
        simulation.enqueue("b")
        simulation.enqueue("b")
        #expect(try wait(simulation).reason == .person)
        #expect(try wait(simulation).count == 2)
        _ = simulation.scheduler.pause("b")
        #expect(try wait(simulation).reason == .scheduled)
        _ = simulation.scheduler.pause("a")
        #expect(try wait(simulation).reason == .paused)
    }

    @Test func Q20_the_reason_of_metered_and_blocked_messages_is_not_person() throws {
        let simulation = try Simulation(.manual, direct: false) { $0.finalFailure = .block }
        simulation.enqueue("a") { $0.unmeteredOnly = true }
        simulation.setNetwork(.online, metered: true)
        #expect(try wait(simulation).reason == .metered)
        simulation.scheduler.block("a", at: 0, simulation.now)
        #expect(try wait(simulation).reason == .blocked)
    }

    @Test func Q20_the_text_about_a_long_backlog_has_no_number() throws {
        let simulation = try Simulation(.manual, direct: false)
        simulation.enqueue("a", count: 70)
        #expect(try wait(simulation).reason == .person)
        #expect(try wait(simulation).count == nil)
        _ = simulation.scheduler.pause("a")
        #expect(try wait(simulation).reason == .person)
        #expect(try wait(simulation).count == 0)
    }

    @Test func X1_no_time_before_the_end_of_a_delay_is_promised() throws {
        let simulation = try Simulation(.auto, direct: false, backoff: .ladder([1_000]), maxInFlight: 2)
        simulation.enqueue("a")
        simulation.enqueue("b")
        simulation.enqueue("c") { $0.notBefore = simulation.now.wall + 1_000 }
        try simulation.settle()
        try simulation.answer(1, .retry(.server))
        try simulation.answer(2, .offline)
        try simulation.settle()
        let end = simulation.now.wall + Scheduler.offlineHold
        for sequence in [1, 3] as [Int64] {
            #expect(simulation.wait(of: sequence)?.reason == .holding && simulation.wait(of: sequence)?.until == end)
        }
        #expect(try wait(simulation).reason == .holding)
    }

    @Test func X1_a_requested_drain_does_not_wait_for_the_end_of_the_offline_pause() throws {
        let simulation = try Simulation(.auto, direct: false, backoff: .ladder([1_000]), maxInFlight: 3)
        for name in ["a", "b", "c"] as [Name] { simulation.enqueue(name) }
        try simulation.settle()
        simulation.drain("c")
        simulation.drain("a")
        try simulation.settle()
        try simulation.answer(2, .offline)
        try simulation.answer(1, .retry(.server))
        try simulation.settle()
        let due = simulation.now.wall + 1_000
        let explanation = try #require(simulation.explain(1))
        #expect(explanation.wait.reason == .retrying && explanation.wait.until == due)
        simulation.advance(1_000)
        try simulation.answer(3, .sent)
        try simulation.settle()
        #expect(simulation.flights.map(\.sequence) == [1])
    }

    @Test func X1_explanations_promise_one_batch_when_connected() throws {
        let simulation = try Simulation(.auto, direct: false) { $0.drainBatch = 1 }
        simulation.goOffline()
        for name in ["a", "b"] as [Name] { simulation.enqueue(name) }
        try simulation.settle()
        for (place, reason) in [(0, Explanation.Reason.next), (1, .trigger)] {
            let wait = try #require(simulation.explain(Int64(place + 1))?.connected)
            #expect(wait.reason == reason)
            #expect(wait.isInTurn == (place == 1))
        }
    }

    @Test func Q2_only_messages_that_are_sent_now_count_as_sending() throws {
        let simulation = try Simulation(.auto, direct: false)
        simulation.enqueue("s", count: 4) { $0.notBefore = simulation.now.wall + 9_000_000 }
        simulation.enqueue("a", count: 3)
        try simulation.settle()
        #expect(simulation.flights.count == 1)
        #expect(QueueReasons(simulation.scheduler, simulation.now).startableCount(look(simulation)) == 2)
        _ = simulation.scheduler.pause("a")
        #expect(QueueReasons(simulation.scheduler, simulation.now).startableCount(look(simulation)) == 0)
    }

    @Test func Q20_paused_conversations_without_messages_are_no_reason() throws {
        let simulation = try Simulation(.auto, direct: false)
        simulation.setNetwork(.online, metered: true)
        for number in 0..<40 { _ = simulation.scheduler.pause(Name("p\(number)")) }
        simulation.enqueue("a") { $0.unmeteredOnly = true }
        simulation.advance(1_000)
        #expect(try wait(simulation).reason == .metered)
    }
}
