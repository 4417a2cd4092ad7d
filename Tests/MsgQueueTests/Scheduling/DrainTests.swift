import Testing

@testable import MsgQueue

@Suite struct DrainTests {
    @Test func Q7_a_drain_sends_everything_and_reports() throws {
        let simulation = try Simulation(.manual, direct: false)
        simulation.preload(Array(repeating: "a", count: 3) + Array(repeating: "b", count: 3))
        try simulation.settle()
        #expect(simulation.starts.isEmpty, "in manual mode nothing is sent automatically")
        simulation.drain()
        try simulation.run()
        #expect(simulation.starts == Array(1...6))
        #expect(simulation.reports == [Report(stop: .empty, sent: 6)])
    }

    @Test func Q7_a_drain_of_nothing_ends_at_once() throws {
        let simulation = try Simulation(.manual)
        simulation.drain()
        try simulation.settle()
        #expect(simulation.reports == [Report(stop: .empty)])
    }

    @Test func A6_a_second_request_joins_the_first() throws {
        let simulation = try Simulation(.manual)
        simulation.preload(["a", "b"])
        #expect(simulation.drain())
        try simulation.settle()
        #expect(!simulation.drain())
        #expect(!simulation.drain(batch: 1))
        try simulation.run()
        #expect(simulation.reports == [Report(stop: .empty, sent: 2)])
        #expect(simulation.drain(), "after its end another drain begins")
    }

    @Test func M8_a_batch_ends_the_drain_and_the_next_continues() throws {
        let simulation = try Simulation(.manual)
        simulation.preload((0..<12).map { $0 % 2 == 0 ? "a" : "b" })
        for expected in [5, 5, 2] {
            simulation.drain(batch: 5)
            try simulation.run()
            #expect(simulation.reports.last?.sent == Int64(expected))
        }
        #expect(simulation.reports.map(\.stop) == [.batch, .batch, .empty])
        #expect(simulation.reports.map(\.remaining) == [7, 2, 0])
        #expect(simulation.starts == Array(1...12))
    }

    @Test func M8_a_batch_counts_attempts_not_successes() throws {
        let simulation = try Simulation(.manual)
        simulation.preload(["a", "b", "c"])
        simulation.drain(batch: 2)
        try simulation.run { $0 == 1 ? .reject() : .sent }
        #expect(simulation.reports == [Report(stop: .batch, sent: 1, failed: 1, remaining: 1, remainingFailed: 1)])
    }

    @Test func M8_a_drain_without_a_batch_uses_the_option() throws {
        let simulation = try Simulation(.manual) { $0.drainBatch = 2 }
        simulation.preload(["a", "a", "a"])
        simulation.drain()
        try simulation.run()
        #expect(simulation.reports == [Report(stop: .batch, sent: 2, remaining: 1)])
    }

    @Test func Q18_a_message_queued_for_a_retry_ends_the_drain_as_waiting() throws {
        let simulation = try Simulation(.manual, backoff: .ladder([1_000]))
        simulation.preload(["a", "a", "b"])
        simulation.drain()
        try simulation.run { $0 == 1 ? .retry() : .sent }
        #expect(simulation.reports == [Report(stop: .waiting, sent: 1, remaining: 2)])
        // In manual mode the next drain sends it when it is due.
        simulation.advance(1_000)
        try simulation.settle()
        #expect(simulation.starts == [1, 3])
        simulation.drain()
        try simulation.run()
        #expect(simulation.starts == [1, 3, 1, 2])
    }

    @Test func M11_an_offline_outcome_stops_the_drain_and_uses_up_no_retry() throws {
        let simulation = try Simulation(.manual, maxInFlight: 2)
        simulation.preload(["a", "b", "c"])
        simulation.drain()
        try simulation.settle()
        try simulation.answer(1, .offline)
        try simulation.settle()
        #expect(simulation.reports.isEmpty, "an attempt in progress belongs to the drain")
        #expect(simulation.inFlight == [2])
        try simulation.answer(2, .sent)
        try simulation.settle()
        #expect(simulation.reports == [Report(stop: .offline, sent: 1, remaining: 2)])
        #expect(simulation.starts == [1, 2])
        #expect(simulation.row(1)?.progress.attempts == 0)
        #expect(simulation.row(1)?.progress.retriesUsed == 0)
    }

    @Test func M11_a_drain_while_offline_ends_at_once() throws {
        let simulation = try Simulation(.manual)
        simulation.preload(["a"])
        simulation.goOffline()
        simulation.drain()
        try simulation.settle()
        #expect(simulation.reports == [Report(stop: .offline, remaining: 1)])
    }

    @Test func M11_losing_the_link_ends_the_drain_and_attempts_in_progress_may_succeed() throws {
        let simulation = try Simulation(.manual)
        simulation.preload(["a", "a"])
        simulation.drain()
        try simulation.settle()
        simulation.goOffline()
        try simulation.settle()
        #expect(simulation.reports.isEmpty, "an attempt in progress belongs to the drain")
        try simulation.answer(1, .sent)
        try simulation.settle()
        #expect(simulation.reports == [Report(stop: .offline, sent: 1, remaining: 1)])
        simulation.goOnline()
        try simulation.settle()
        #expect(simulation.starts == [1])
        #expect(simulation.status(1) == .sent)
    }

    @Test func Q19_a_drain_of_only_paused_conversations_stops_as_paused() throws {
        let simulation = try Simulation(.manual, direct: false)
        simulation.enqueue("a", count: 20)
        simulation.pause("a")
        simulation.drain()
        try simulation.run()
        simulation.enqueue("b")
        simulation.drain()
        try simulation.run()
        #expect(
            simulation.reports == [Report(stop: .paused, remaining: 20), Report(stop: .paused, sent: 1, remaining: 20)])
        // A message with a later not_before is another reason.
        simulation.enqueue("c") { $0.notBefore = simulation.now.wall + 60_000 }
        simulation.drain()
        try simulation.run()
        #expect(simulation.reports.last?.stop == .waiting)
        simulation.pause("c")
        simulation.drain()
        try simulation.run()
        #expect(simulation.reports.last?.stop == .paused)
    }

    // MARK: One conversation

    @Test(arguments: [Mode.auto, .ask, .manual])
    func Q19_a_drain_of_one_conversation_sends_and_counts_only_that(mode: Mode) throws {
        let simulation = try Simulation(mode, direct: false) { $0.sendInBackground = false }
        simulation.setBackground(true)
        simulation.preload((0..<40).map { $0 % 2 == 0 ? "a" : "b" })
        simulation.drain("b")
        try simulation.run()
        let even: [Int64] = (0..<20).map { 2 * $0 + 2 }
        #expect(simulation.starts == even)
        #expect(simulation.reports == [Report(stop: .empty, sent: 20)])
        simulation.drain("c")
        try simulation.run()
        #expect(simulation.reports.last == Report(stop: .empty))
        #expect(simulation.store.queued.count == 20)
    }

    @Test func Q19_a_drain_of_another_scope_begins_after_the_current_one() throws {
        let simulation = try Simulation(.manual, direct: false)
        simulation.preload(["a", "b", "c", "a", "b"])
        #expect(simulation.drain("b"))
        try simulation.settle()
        #expect(!simulation.drain("b"), "it joins")
        #expect(simulation.drain("c"))
        #expect(simulation.drain())
        #expect(!simulation.drain("a"), "the drain of all conversations includes it")
        try simulation.run()
        #expect(simulation.starts == [2, 5, 3, 1, 4])
        #expect(simulation.reports.map(\.sent) == [2, 1, 2])
        #expect(simulation.reports.map(\.stop) == [.empty, .empty, .empty])
    }

    @Test func Q19_a_drain_of_one_conversation_waits_for_a_slot_and_not_for_others() throws {
        let simulation = try Simulation(.manual, direct: false, maxInFlight: 1)
        simulation.preload(["a", "b"])
        simulation.sendNow(1)
        try simulation.settle()
        simulation.drain("b")
        try simulation.settle()
        #expect(simulation.reports.isEmpty)
        try simulation.answer(1, .sent)
        try simulation.run()
        #expect(simulation.reports == [Report(stop: .empty, sent: 1)])
    }

    @Test func Q19_a_drain_of_one_conversation_includes_messages_enqueued_meanwhile() throws {
        let simulation = try Simulation(.manual, direct: false)
        simulation.preload(["a", "b"])
        simulation.drain("a")
        try simulation.settle()
        simulation.enqueue(["b", "a"])
        try simulation.run()
        #expect(simulation.starts == [1, 4])
        #expect(simulation.reports == [Report(stop: .empty, sent: 2)])
    }

    @Test func Q19_a_drain_of_one_conversation_stops_as_paused_or_waiting() throws {
        let simulation = try Simulation(.manual, direct: false, backoff: .ladder([1_000]))
        simulation.preload(["a", "b"])
        simulation.pause("a")
        simulation.drain("a")
        try simulation.run()
        simulation.drain("b")
        try simulation.run { _ in .retry() }
        simulation.goOffline()
        simulation.drain("b")
        try simulation.settle()
        #expect(simulation.reports.map(\.stop) == [.paused, .waiting, .offline])
        #expect(simulation.reports.map(\.remaining) == [1, 1, 1])
    }

    @Test func Q19_a_drain_of_one_conversation_does_not_answer_the_prompt() throws {
        let simulation = try Simulation(.ask, direct: false)
        simulation.preload(["a", "b"])
        try simulation.settle()
        #expect(simulation.count(.prompt) == 1)
        simulation.drain("a")
        try simulation.run()
        #expect(simulation.count(.promptWithdrawn) == 0)
        simulation.drain()
        try simulation.run()
        #expect(simulation.count(.promptWithdrawn) == 1)
        #expect(simulation.starts == [1, 2])
    }

    // MARK: Retries and batches

    @Test func M12_due_retries_need_no_trigger_and_do_not_count_against_the_batch() throws {
        let simulation = try Simulation(.auto, direct: false) { $0.drainBatch = 5 }
        simulation.enqueue(["a", "b", "c", "d"])
        try simulation.run { _ in .retry(.server) }
        for _ in 0..<20 {
            guard let deadline = simulation.deadline else { break }
            simulation.advance(max(deadline - simulation.now.mono, 1))
            try simulation.run { _ in .retry(.server) }
        }
        #expect(simulation.starts.count == 16, "four attempts of each")
        simulation.enqueue("e")
        try simulation.run()
        #expect(simulation.starts.last == 5, "one attempt of the batch is left")
    }

    @Test func M12_a_drains_batch_does_not_count_due_retries() throws {
        let simulation = try Simulation(.manual, backoff: .ladder([1_000]))
        simulation.preload(["a", "b", "c", "d", "e", "f"])
        simulation.drain(batch: 2)
        try simulation.run { _ in .retry() }
        simulation.advance(1_000)
        simulation.drain(batch: 2)
        try simulation.run()
        #expect(simulation.starts == [1, 2, 1, 2, 3, 4])
        #expect(simulation.reports.last == Report(stop: .batch, sent: 4, remaining: 2))
    }

    @Test func M12_in_mode_ask_a_failure_is_final_at_once_and_the_others_are_sent() throws {
        let simulation = try Simulation(.ask, direct: false)
        simulation.preload(Array(repeating: "a", count: 5))
        simulation.drain()
        try simulation.run { $0 == 1 ? .retry() : .sent }
        #expect(simulation.reports == [Report(stop: .empty, sent: 4, failed: 1, remainingFailed: 1)])
    }

    @Test(arguments: [true, false], ["drain", "send now", "retry all"])
    func M12_a_ladder_in_mode_ask_runs_by_itself_however_the_attempt_began(isStrict: Bool, way: String) throws {
        let simulation = try Simulation(.ask, direct: false, backoff: .ladder([300, 300])) { $0.strictOrder = isStrict }
        simulation.preload(["a"])
        if way == "retry all" {
            simulation.drain()
            try simulation.run { _ in .reject() }
        }
        switch way {
        case "drain": simulation.drain()
        case "send now": simulation.sendNow(1)
        default: simulation.retryAll()
        }
        let before = simulation.starts.count
        for _ in 0..<3 {
            try simulation.run { _ in .retry(.server) }
            simulation.advance(300)
        }
        #expect(simulation.starts.count - before == 3)
        #expect(simulation.status(1) == .failed)
    }

    @Test(arguments: [nil, "a"] as [Name?])
    func M12_in_mode_ask_messages_behind_a_retry_follow_it(scope: Name?) throws {
        let simulation = try Simulation(.ask, direct: false, backoff: .ladder([200]))
        simulation.preload(Array(repeating: "a", count: 40))
        simulation.drain(scope)
        try simulation.run { $0 == 1 ? .retry(.server) : .sent }
        #expect(simulation.reports.map(\.stop) == [.waiting])
        simulation.enqueue("a")
        simulation.advance(200)
        try simulation.run()
        #expect(simulation.starts == [1] + Array(1...40))
        #expect(simulation.queued == [41], "it was enqueued after the drain")
    }

    @Test func Q7_a_drain_ends_at_its_timeout_with_its_report_so_far() throws {
        let simulation = try Simulation(.manual)
        simulation.preload(["a", "a"])
        simulation.drain(timeout: 1_000)
        try simulation.settle()
        #expect(simulation.deadline == simulation.now.mono + 1_000)
        simulation.advance(1_000)
        try simulation.settle()
        #expect(simulation.reports == [Report(stop: .timeout, remaining: 2)])
        try simulation.run()
        #expect(simulation.starts == [1], "afterwards nothing is sent automatically")
    }

    @Test func Q7_the_longest_timeout_works() throws {
        let simulation = try Simulation(.manual)
        simulation.preload(["a"])
        let drain = simulation.scheduler.drain(batch: 0, timeout: .max, simulation.now)
        #expect(drain.begins)
        #expect(simulation.scheduler.session?.deadline == .max)
    }

    @Test func Q18_the_report_includes_calls_on_demand_during_the_drain() throws {
        let simulation = try Simulation(.manual)
        simulation.preload(["a", "a"])
        simulation.drain()
        try simulation.settle()
        simulation.sendNow(2)
        try simulation.run()
        #expect(simulation.reports == [Report(stop: .empty, sent: 2)])
    }

    @Test func close_ends_the_drain_and_starts_nothing_more() throws {
        let simulation = try Simulation(.auto)
        simulation.preload(["a", "a"])
        simulation.drain()
        try simulation.settle()
        simulation.close()
        try simulation.settle()
        #expect(simulation.reports == [Report(stop: .closed, remaining: 2)])
        try simulation.answer(1, .sent)
        try simulation.settle()
        #expect(simulation.starts == [1])
    }

    @Test func Q12_a_store_that_refuses_writes_ends_the_drain_and_delays_further_attempts() throws {
        let simulation = try Simulation(.auto)
        simulation.preload(["a", "a"])
        simulation.drain()
        simulation.breakStore()
        try simulation.settle()
        #expect(simulation.reports.map(\.stop) == [.storage])
        #expect(simulation.starts.isEmpty)
        simulation.mendStore()
        simulation.advance(249)
        try simulation.settle()
        #expect(simulation.starts.isEmpty)
        simulation.advance(1)
        try simulation.run()
        #expect(simulation.starts == [1, 2])
    }

    @Test func Q12_the_scheduler_does_not_spin_while_the_store_refuses_writes() throws {
        let simulation = try Simulation(.auto, backoff: .ladder([100]))
        simulation.preload(["a", "b"])
        try simulation.settle()
        try simulation.answer(1, .retry())
        try simulation.settle()
        simulation.breakStore()
        try simulation.answer(2, .sent)
        // Message 1 falls due while the store refuses writes.
        simulation.advance(150)
        try simulation.settle()
        #expect(simulation.deadline == simulation.scheduler.gate.storageRetryAt)
    }
}
