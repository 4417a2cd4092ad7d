import Testing

@testable import MsgQueue

/// X1: explanations that once promised an attempt which was not made then. Each test is one defect that `PromiseTests` found.
@Suite struct ExplainedWaitTests {
    private func queueText(_ simulation: EngineSimulation) -> String {
        let queued = Int64(simulation.queued.count)
        let reasons = QueueReasons(simulation.scheduler, simulation.now)
        var wait = reasons.wait(queued: queued, hasStart: simulation.hasStart)
        let sample = QueueSample(simulation.queued(after: 0, limit: QueueSample.limit))
        if reasons.needsSample(wait) { wait = reasons.wait(wait, sample) }
        return Words.queue(wait, BannerFacts(), now: simulation.now.wall)
    }

    @Test func X1_no_attempt_is_promised_after_the_expiry() throws {
        let simulation = try EngineSimulation(.auto, backoff: .ladder([9_000]))
        let wall = simulation.now.wall
        simulation.enqueue("a") { $0.expiresAt = wall + 5_000 }
        try simulation.settle()
        try simulation.answer(1, .retry(.server))
        try simulation.settle()
        #expect(simulation.text(of: 1) == "The last attempt failed. It expires in 5 s, before it can be sent again.")
        #expect(simulation.wait(of: 1)?.until == wall + 9_000)
        #expect(queueText(simulation) == "The next message expires in 5 s, before it can be sent.")
        // One that can be sent is reported instead.
        simulation.enqueue("b") { $0.notBefore = wall + 3_000 }
        try simulation.settle()
        #expect(queueText(simulation) == "The next message is scheduled to be sent in 3 s.")
    }

    /// A scheduled message that was tried by hand waits for both times.
    private func triedByHand(_ mode: Mode = .auto) throws -> EngineSimulation {
        let simulation = try EngineSimulation(mode, direct: false, backoff: .ladder([9_000]))
        let wall = simulation.now.wall
        simulation.enqueue("a") { $0.notBefore = wall + 1_000 }
        simulation.enqueue("a") { $0.notBefore = wall + 2_000 }
        try simulation.settle()
        simulation.sendNow(1)
        try simulation.settle()
        try simulation.answer(1, .retry(.server))
        try simulation.settle()
        return simulation
    }

    @Test func X1_a_schedule_is_not_promised_before_a_later_retry() throws {
        #expect(try triedByHand().text(of: 1) == "The last attempt failed. It is tried again in 9 s.")
        #expect(try triedByHand(.manual).text(of: 1) == "The last attempt failed. It will be ready to send again in 9 s.")
    }

    @Test func X1_a_schedule_is_not_promised_behind_a_retry_that_is_due_later() throws {
        let simulation = try triedByHand()
        #expect(simulation.text(of: 2) == "Another message of this conversation goes first. This one is sent in 2 s at the earliest.")
        #expect(queueText(simulation) == "The last attempt failed. The next one is in 9 s.")
    }

    @Test func X1_a_schedule_is_not_promised_on_a_metered_link() throws {
        let simulation = try EngineSimulation(.auto)
        simulation.setNetwork(.online, metered: true)
        let wall = simulation.now.wall
        simulation.enqueue("a") { ($0.notBefore, $0.unmeteredOnly) = (wall + 2_000, true) }
        try simulation.settle()
        #expect(simulation.text(of: 1) == "Waiting for an unmetered connection. It is sent in 2 s at the earliest.")
        #expect(queueText(simulation) == "Waiting for an unmetered connection.")
    }

    @Test func X1_the_foreground_may_end_a_hold_at_once() throws {
        let simulation = try EngineSimulation(.auto, direct: false)
        simulation.enqueue("a")
        try simulation.settle()
        try simulation.answer(1, .offline)
        simulation.setBackground(true)
        try simulation.settle()
        #expect(simulation.text(of: 1) == "It will be sent the next time the queue runs.")
        #expect(queueText(simulation) == "1 message will be sent the next time the queue runs.")
        simulation.setBackground(false)
        try simulation.settle()
        #expect(simulation.starts == [1, 1])
    }

    @Test func X1_a_retry_for_the_network_comes_as_soon_as_the_connection_is_stable() throws {
        let simulation = try EngineSimulation(.ask, backoff: .ladder([9_000]))
        simulation.enqueue("a")
        try simulation.settle()
        try simulation.answer(1, .retry(.network))
        try simulation.settle()
        simulation.goOffline()
        simulation.goOnline()
        try simulation.settle()
        #expect(simulation.wait(of: 1)?.until == simulation.now.wall + 500)
    }

    @Test func X1_offline_nothing_is_promised_behind_a_retry_that_is_due_later() throws {
        let simulation = try EngineSimulation(.auto, direct: false, backoff: .ladder([9_000]))
        simulation.enqueue("a", count: 3)
        simulation.scheduler.hold(until: simulation.now.mono + 100, simulation.now)
        try simulation.settle()
        simulation.sendNow(2)
        try simulation.settle()
        try simulation.answer(2, .retry(.server))
        simulation.goOffline()
        try simulation.settle()
        simulation.advance(100)
        #expect(simulation.text(of: 1) == "You're offline. It will be sent when connected.")
        #expect(
            simulation.text(of: 2) == "You're offline. The last attempt failed. Another message of this conversation goes first. "
                + "This one is sent in 9 s at the earliest.")
        #expect(simulation.text(of: 3) == "You're offline. Another message of this conversation goes first.")
    }

    @Test func X1_another_message_may_use_up_the_batch_before_a_schedule() throws {
        let simulation = try EngineSimulation(.auto, direct: false) { $0.drainBatch = 1 }
        let wall = simulation.now.wall
        simulation.enqueue("a") { $0.notBefore = wall + 9_000 }
        simulation.enqueue("b") { $0.notBefore = wall + 5_000 }
        try simulation.settle()
        #expect(simulation.text(of: 1) == "It will be sent the next time the queue runs, in 9 s at the earliest.")
    }

    @Test func X1_a_message_that_expires_blocks_those_behind_it_only_by_option() throws {
        for (rule, text) in [
            (FinalFailure.block, "Another message of this conversation goes first. This one is sent in 5 s at the earliest."),
            (.stepAside, "It is scheduled to be sent in 5 s."),
        ] {
            let simulation = try EngineSimulation(.auto) { $0.finalFailure = rule }
            let wall = simulation.now.wall
            simulation.setNetwork(.online, metered: true)
            simulation.enqueue("a") { ($0.expiresAt, $0.unmeteredOnly) = (wall + 2_000, true) }
            simulation.enqueue("a") { $0.notBefore = wall + 5_000 }
            try simulation.settle()
            #expect(simulation.text(of: 2) == text)
        }
    }
}
