import Testing

@testable import MsgQueue

/// The choice of a batch's messages and the effect of their outcomes.
@Suite struct BatchTests {
    private func simulation(
        _ mode: Mode = .auto, maxInFlight: Int = 1, backoff: Backoff = .automatic, _ options: (inout Options) -> Void = { _ in },
        _ limit: (inout BatchLimits) -> Void = { _ in }
    ) throws -> Simulation {
        var limits = BatchLimits()
        limit(&limits)
        var chosen = Options(mode: mode, backoff: backoff, maxInFlight: maxInFlight)
        options(&chosen)
        return try Simulation(chosen, batches: limits)
    }

    @Test func B1_messages_are_chosen_in_the_order_in_which_they_would_be_sent() throws {
        let simulation = try simulation {
            $0.liveShare = 0
        } _: {
            $0.maxMessages = 4
        }
        simulation.preload(["ana", "ben", "ana", "eva", "ana", "ben"])
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2, 3, 4])
        try simulation.run()
        #expect(simulation.starts == [1, 2, 3, 4, 5, 6])
    }

    @Test func F1_F2_live_messages_and_priorities_keep_their_share_within_a_batch() throws {
        let simulation = try simulation()
        simulation.preload(["a", "b", "c", "d"])
        simulation.enqueue("live") { $0.priority = 5 }
        simulation.enqueue("live")
        try simulation.settle()
        #expect(simulation.inFlight.count == 6)
        #expect(simulation.starts == [1, 5, 2, 6, 3, 4])
    }

    @Test func B1_max_batches_limits_the_batches_in_flight() throws {
        let simulation = try simulation(maxInFlight: 1) {
            $0.liveShare = 0
        } _: {
            ($0.maxMessages, $0.maxBatches) = (2, 2)
        }
        simulation.preload(["a", "b", "c", "d", "a", "e"])
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2, 3, 4])
        try simulation.answer(1, .sent)
        try simulation.settle()
        #expect(simulation.inFlight == [2, 3, 4], "the rest of a batch is in flight")
        try simulation.answer(2, .sent)
        try simulation.settle()
        #expect(simulation.inFlight == [3, 4, 5, 6])
        #expect(simulation.scheduler.flights.slotsTaken == 2 && simulation.scheduler.flights.slots == 2)
    }

    @Test(arguments: [(0, 4), (60_000, 1)])
    func B1_F4_a_ramp_limits_the_batches_in_flight(rampUp: Int64, batches: Int) throws {
        let simulation = try simulation {
            ($0.maxInFlight, $0.ratePerSecond, $0.rateBurst, $0.rampUp) = (8, 1_000, 100, rampUp)
        } _: {
            ($0.maxMessages, $0.maxBatches) = (1, 4)
        }
        simulation.preload(["a", "b", "c", "d", "e", "f"])
        simulation.advance(2_000)
        try simulation.settle()
        simulation.advance(2_000)
        try simulation.settle()
        #expect(simulation.inFlight.count == batches && simulation.scheduler.flights.slots == batches)
    }

    @Test func B1_a_conversation_longer_than_its_window_fills_a_batch() throws {
        let simulation = try simulation()
        simulation.preload(Array(repeating: "ana", count: 130))
        try simulation.settle()
        #expect(simulation.inFlight == Array(1...100))
        try simulation.run()
        #expect(simulation.starts == Array(1...130))
    }

    @Test func B1_nothing_is_sent_before_what_failed_before_it() throws {
        let simulation = try simulation(backoff: .ladder([1_000]))
        simulation.preload(Array(repeating: "ana", count: 5) + ["ben"])
        try simulation.settle()
        try simulation.answer(1, .sent)
        try simulation.answer(2, .retry())
        try simulation.answer(3, .skipped)
        try simulation.settle()
        #expect(simulation.inFlight == [4, 5, 6], "the others have no outcome yet")
        try simulation.answer(4, .skipped)
        try simulation.answer(6, .sent)
        try simulation.answer(5, .sent)
        try simulation.settle()
        #expect(simulation.inFlight.isEmpty)
        simulation.advance(1_000)
        try simulation.settle()
        #expect(simulation.inFlight == [2, 3, 4])
        #expect(simulation.row(3)?.progress.attempts == 0 && simulation.row(3)?.progress.retriesUsed == 0)
    }

    /// In relaxed order a message falls due while others behind it are chosen.
    @Test func B1_the_messages_of_a_conversation_are_in_order_also_if_one_falls_due_meanwhile() throws {
        let simulation = try simulation(backoff: .ladder([100])) { $0.strictOrder = false }
        simulation.enqueue("ana")
        try simulation.settle()
        try simulation.answer(1, .retry(.server))
        simulation.pause("ana")
        simulation.enqueue("ana", count: 5)
        simulation.advance(80)
        simulation.workTime = { 10 }
        simulation.resume("ana")
        try simulation.settle()
        #expect(simulation.starts == [1, 2, 3, 1, 4, 5, 6], "it fell due after two others were chosen")
        #expect(simulation.count(.called([1, 2, 3, 4, 5, 6])) == 1)
    }

    /// The receiver sees a batch when the transport is called: the time that passes before adds to no batch.
    @Test func F3_B1_a_batch_has_at_most_the_burst_however_long_its_choice_takes() throws {
        let simulation = try simulation {
            ($0.ratePerSecond, $0.rateBurst) = (1_000, 10)
        } _: {
            ($0.maxMessages, $0.maxBatches) = (100, 2)
        }
        simulation.preload(Array(repeating: "ana", count: 30))
        simulation.advance(5_000)
        simulation.workTime = { 7 }
        try simulation.settle()
        #expect(simulation.inFlight.count == 10)
    }

    @Test(arguments: [Mode.auto, .manual])
    func A11_a_direct_message_waits_in_the_background_as_in_the_foreground(mode: Mode) throws {
        let simulation = try simulation(mode)
        simulation.goOnline()
        simulation.advance(1_000)
        try simulation.settle()
        simulation.setBackground(true)
        let wall = simulation.now.wall
        simulation.enqueue("ana")
        simulation.enqueue("ben") { $0.notBefore = wall + 5_000 }
        try simulation.settle()
        try simulation.answer(1, .skipped)
        try simulation.settle()
        #expect(simulation.text(of: 1) == "The transport skipped it, so that it was not tried. It is tried in 1 s.")
        #expect(simulation.text(of: 2) == "It is scheduled to be sent in 5 s.")
        simulation.advance(1_000)
        try simulation.settle()
        #expect(simulation.inFlight == [1])
        try simulation.answer(1, .retry(.server))
        simulation.advance(4_000)
        try simulation.run()
        #expect(simulation.starts == [1, 1, 2], "what failed waits for a trigger")
    }

    @Test func R14_B1_the_skipped_messages_of_a_retry_all_wait_each_for_their_own_second() throws {
        let simulation = try simulation(.manual) {
            _ in
        } _: {
            $0.maxMessages = 2
        }
        simulation.preload(["ana", "ana", "ana"])
        simulation.drain()
        try simulation.run { _ in .reject() }
        simulation.retryAll()
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2])
        try simulation.answer(1, .skipped)
        simulation.advance(100)
        try simulation.answer(2, .skipped)
        try simulation.settle()
        let now = simulation.now.wall
        #expect(simulation.wait(of: 1)?.until == now + 900 && simulation.wait(of: 2)?.reason == .behind)
        simulation.delete(1)
        try simulation.settle()
        #expect(simulation.wait(of: 2)?.reason == .retrying && simulation.wait(of: 2)?.until == now + 1_000)
        #expect(simulation.wait(of: 3)?.reason == .behind)
        simulation.delete(2)
        try simulation.settle()
        #expect(simulation.inFlight == [3])
    }

    @Test func B1_a_skipped_message_is_tried_again_at_once_only_after_progress() throws {
        let simulation = try simulation()
        simulation.preload(["ana", "ben"])
        try simulation.settle()
        try simulation.answer(1, .skipped)
        try simulation.answer(2, .skipped)
        try simulation.settle()
        #expect(simulation.inFlight.isEmpty && simulation.deadline == simulation.now.mono + 1_000)
        #expect(simulation.wait(of: 1)?.reason == .retrying)
        #expect(simulation.text(of: 1) == "The transport skipped it, so that it was not tried. It is tried in 1 s.")
        simulation.advance(1_000)
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2])
        try simulation.answer(1, .sent)
        try simulation.answer(2, .skipped)
        try simulation.settle()
        #expect(simulation.inFlight == [2])
    }

    @Test(arguments: [Mode.manual, .ask])
    func B1_skipped_direct_messages_are_still_sent_directly(mode: Mode) throws {
        let simulation = try simulation(mode)
        simulation.enqueue("ana", count: 3)
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2, 3])
        try simulation.answer(1, .retry())
        try simulation.answer(2, .skipped)
        try simulation.answer(3, .skipped)
        try simulation.settle()
        #expect(simulation.status(1) == .failed)
        #expect(simulation.inFlight == [2, 3])
    }

    @Test func M8_skipped_messages_use_up_no_part_of_a_drain() throws {
        let simulation = try simulation(.manual) { $0.direct = false }
        simulation.preload(["ana", "ben", "eva"])
        simulation.drain(batch: 2)
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2])
        try simulation.answer(1, .sent)
        try simulation.answer(2, .skipped)
        try simulation.run()
        #expect(simulation.reports.map(\.sent) == [2] && simulation.reports.first?.stop == .batch)
        #expect(simulation.queued == [3])
    }

    @Test(arguments: [Mode.manual, .auto])
    func R14_skipped_messages_of_retry_all_are_sent(mode: Mode) throws {
        let simulation = try simulation(mode, backoff: .ladder([])) { $0.direct = false }
        simulation.preload(["ana", "ana", "ben"])
        if mode == .manual { simulation.drain() }
        try simulation.run { _ in .reject() }
        simulation.retryAll()
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2, 3])
        try simulation.answer(1, .sent)
        try simulation.answer(2, .skipped)
        try simulation.answer(3, .skipped)
        try simulation.settle()
        #expect(simulation.inFlight == [2, 3])
        try simulation.run()
        #expect(simulation.queued.isEmpty)
    }

    @Test(arguments: [Mode.manual, .ask, .auto])
    func R14_B1_skipped_messages_of_retry_all_wait_while_nothing_else_ends(mode: Mode) throws {
        let simulation = try simulation(mode, backoff: .ladder([])) { $0.direct = false }
        simulation.preload(["ana", "ana", "ben"])
        if mode != .auto { simulation.drain() }
        try simulation.run { _ in .reject() }
        simulation.retryAll()
        for _ in 0..<3 {
            try simulation.settle()
            #expect(simulation.inFlight == [1, 2, 3])
            for sequence in 1...3 { try simulation.answer(Int64(sequence), .skipped) }
            try simulation.settle()
            #expect(simulation.inFlight.isEmpty && simulation.deadline == simulation.now.mono + 1_000)
            #expect(simulation.text(of: 1) == "The transport skipped it, so that it was not tried. It is tried in 1 s.")
            #expect(simulation.wait(of: 2)?.reason == .behind)
            simulation.advance(1_000)
        }
        try simulation.settle()
        try simulation.answer(1, .skipped)
        try simulation.answer(2, .skipped)
        try simulation.answer(3, .sent)
        try simulation.settle()
        #expect(simulation.inFlight.isEmpty, "they ended before the other one")
        simulation.advance(1_000)
        try simulation.run()
        #expect(simulation.queued.isEmpty && simulation.scheduler.round == nil)
    }

    @Test func X1_a_skip_after_a_failure_is_the_reason_while_it_lasts_longer() throws {
        let simulation = try simulation(backoff: .ladder([2_000]))
        simulation.preload(["ana"])
        try simulation.settle()
        try simulation.answer(1, .retry())
        try simulation.settle()
        #expect(simulation.text(of: 1) == "The last attempt failed. It is tried again in 2 s.")
        simulation.advance(2_000)
        try simulation.settle()
        try simulation.answer(1, .skipped)
        try simulation.settle()
        #expect(simulation.text(of: 1) == "The transport skipped it, so that it was not tried. It is tried in 1 s.")
        #expect(simulation.row(1)?.progress.attempts == 1 && simulation.row(1)?.progress.retriesUsed == 1)
    }

    @Test(arguments: [Mode.auto, .ask, .manual])
    func R3_a_skipped_retry_leaves_the_message_as_it_was(mode: Mode) throws {
        let simulation = try simulation(mode, backoff: .ladder([]))
        simulation.enqueue("ana", count: 2)
        try simulation.settle()
        try simulation.answer(1, .reject())
        try simulation.answer(2, .sent)
        let before = simulation.row(1)?.progress
        #expect(before?.status == .failed && before?.attempts == 1)
        simulation.retry(1)
        try simulation.settle()
        #expect(simulation.inFlight == [1])
        try simulation.answer(1, .skipped)
        try simulation.settle()
        #expect(simulation.row(1)?.progress == before)
        #expect(simulation.core.statistics.snapshot(simulation.now).attempts == 2)
    }

    @Test(arguments: [Mode.auto, .manual])
    func B1_Q6_a_skipped_send_now_leaves_the_message_in_its_place(mode: Mode) throws {
        let simulation = try simulation(mode) { $0.direct = false }
        simulation.preload(["ana", "ana"])
        let before = simulation.row(2)?.progress
        simulation.sendNow(2)
        try simulation.settle()
        #expect(simulation.inFlight == [2])
        try simulation.answer(2, .skipped)
        try simulation.settle()
        #expect(simulation.row(2)?.progress == before)
        if mode == .manual {
            #expect(simulation.inFlight.isEmpty)
            simulation.drain()
        }
        try simulation.run()
        simulation.advance(1_000)
        try simulation.run()
        #expect(simulation.starts == [2, 1, 2])
    }

    @Test func B1_X3_messages_of_an_interrupted_batch_are_sent_one_by_one() throws {
        let simulation = try simulation()
        simulation.preload(["ana", "ben", "ana"])
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2, 3])
        simulation.restart()
        simulation.enqueue("eva", count: 2)
        simulation.preload(["dan"])
        var calls: [[Int64]] = []
        for _ in 0..<10 {
            try simulation.settle()
            guard !simulation.inFlight.isEmpty else { break }
            calls.append(simulation.inFlight)
            for sequence in simulation.inFlight { try simulation.answer(sequence, .sent) }
        }
        for sequence in 1...3 as ClosedRange<Int64> { #expect(calls.contains([sequence])) }
        #expect(calls.contains { $0.count > 1 })
        #expect(simulation.queued.isEmpty)
    }

    @Test func B1_X3_messages_of_an_interrupted_batch_stay_single_after_further_crashes() throws {
        let simulation = try simulation()
        simulation.preload(["ana", "ben", "eva"])
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2, 3])
        for _ in 0..<3 {
            simulation.restart()
            try simulation.settle()
            #expect(simulation.inFlight == [1])
        }
        // What was not transmitted is no attempt: it is alone again.
        try simulation.answer(1, .offline)
        simulation.restart()
        for _ in 1...2 {
            for sequence in 1...3 as ClosedRange<Int64> {
                try simulation.settle()
                #expect(simulation.inFlight == [sequence])
                try simulation.answer(sequence, .skipped)
            }
            try simulation.settle()
            #expect(simulation.inFlight.isEmpty)
            simulation.advance(1_000)
        }
    }

    @Test func B1_X3_a_message_that_was_tried_since_the_crash_is_batched_again() throws {
        let simulation = try simulation(backoff: .ladder([1_000, 1_000, 1_000]))
        simulation.preload(["ana", "ben"])
        try simulation.settle()
        simulation.restart()
        for sequence in 1...2 as ClosedRange<Int64> {
            try simulation.settle()
            #expect(simulation.inFlight == [sequence])
            try simulation.answer(sequence, .retry(.server))
        }
        try simulation.settle()
        simulation.advance(1_000)
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2])
    }

    @Test(arguments: [Mode.auto, .manual])
    func B1_X3_messages_held_after_a_crash_are_retried_one_by_one(mode: Mode) throws {
        let simulation = try simulation(mode) {
            $0.holdInterrupted = true
            $0.direct = false
        }
        simulation.preload(["ana", "ben"])
        if mode == .manual { simulation.drain() }
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2])
        simulation.restart()
        simulation.restart()
        #expect(simulation.status(1) == .failed && simulation.status(2) == .failed)
        simulation.retryAll()
        try simulation.settle()
        #expect(simulation.inFlight == [1])
        try simulation.answer(1, .sent)
        try simulation.settle()
        #expect(simulation.inFlight == [2])
    }

    @Test(arguments: [1, 2, 100])
    func B1_Q20_the_queue_says_that_the_transport_skipped_the_next_message(count: Int) throws {
        let simulation = try simulation(backoff: .ladder([5_000]))
        simulation.preload(["ben"])
        try simulation.settle()
        try simulation.answer(1, .retry(.server))
        try simulation.settle()
        simulation.advance(2_000)
        for number in 0..<count { simulation.enqueue(Name("c\(number)")) }
        try simulation.settle()
        for sequence in simulation.inFlight { try simulation.answer(sequence, .skipped) }
        try simulation.settle()
        #expect(simulation.inFlight.isEmpty)
        func text() -> String {
            let reasons = QueueReasons(simulation.scheduler, simulation.now)
            var wait = reasons.wait(queued: Int64(simulation.queued.count), hasStart: simulation.hasStart)
            let sample = QueueSample(simulation.queued(after: 0, limit: QueueSample.limit))
            if reasons.needsSample(wait) { wait = reasons.wait(wait, sample) }
            return Words.queue(wait, BannerFacts(), now: simulation.now.wall)
        }
        #expect(text() == "The transport skipped the next message, so that it was not tried. It is tried in 1 s.")
        for sequence in simulation.queued where sequence != 1 { simulation.delete(sequence) }
        try simulation.settle()
        #expect(text() == "The last attempt failed. The next one is in 3 s.")
    }

    @Test func B1_a_hung_batch_uses_no_slot() throws {
        let simulation = try simulation { $0.attemptTimeout = 1_000 }
        simulation.answersInCall = true
        simulation.preload(Array(repeating: "ana", count: 30))
        try simulation.settle()
        simulation.advance(1_000)
        try simulation.settle()
        #expect(simulation.hanging.count == 30 && simulation.scheduler.flights.slotsTaken == 0 && simulation.scheduler.flights.hung == 1)
        simulation.enqueue("ben")
        try simulation.settle()
        #expect(simulation.inFlight == [31])
    }

    @Test func B1_a_batch_waits_for_more_messages_and_not_when_it_is_full() throws {
        let simulation = try simulation { _ in
        } _: {
            ($0.maxMessages, $0.linger) = (3, 200)
        }
        simulation.preload(["ana", "ben"])
        try simulation.settle()
        let began = simulation.now.mono
        #expect(simulation.inFlight.isEmpty && simulation.deadline == began + 200)
        simulation.advance(150)
        simulation.enqueue("ana")
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2, 3])
        try simulation.run()
        simulation.enqueue("eva")
        try simulation.settle()
        #expect(simulation.inFlight.isEmpty)
        simulation.advance(199)
        try simulation.settle()
        #expect(simulation.inFlight.isEmpty)
        simulation.advance(1)
        try simulation.settle()
        #expect(simulation.inFlight == [4])
    }

    @Test(arguments: [true, false])
    func B1_messages_that_do_not_fit_into_a_batch_do_not_wait_twice(isSingle: Bool) throws {
        let simulation = try simulation { _ in
        } _: {
            ($0.linger, $0.singleConversation) = (200, isSingle)
            if !isSingle { $0.maxBytes = 1 }
        }
        simulation.preload(isSingle ? ["ana", "ben", "eva"] : ["ana", "ana", "ben"]) { $0.body = [1] }
        try simulation.settle()
        #expect(simulation.inFlight.isEmpty)
        simulation.advance(200)
        let began = simulation.now.mono
        try simulation.run()
        #expect(Set(simulation.starts) == [1, 2, 3] && simulation.now.mono == began)
        simulation.enqueue("ana")
        try simulation.settle()
        #expect(simulation.inFlight.isEmpty)
    }

    @Test func F3_the_rate_counts_the_messages_of_a_batch() throws {
        let simulation = try simulation { ($0.ratePerSecond, $0.rateBurst) = (10, 3) }
        simulation.preload(Array(repeating: "ana", count: 10))
        simulation.advance(1_000)
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2, 3])
        for sequence in 1...3 as ClosedRange<Int64> { try simulation.answer(sequence, .sent) }
        try simulation.settle()
        #expect(simulation.inFlight.isEmpty)
        simulation.advance(102)
        try simulation.settle()
        #expect(simulation.inFlight == [4])
    }

    @Test func B1_a_rejected_beginning_leaves_the_batch_as_it_was() throws {
        let simulation = try simulation { ($0.ratePerSecond, $0.rateBurst) = (1, 5) }
        simulation.preload(["ana", "ana", "ben"])
        simulation.advance(5_000)
        simulation.breakStore()
        try simulation.settle()
        #expect(simulation.flights.isEmpty)
        simulation.mendStore()
        simulation.advance(1_000)
        try simulation.settle()
        #expect(simulation.inFlight == [1, 2, 3], "the rate was not used up")
    }

    /// The connection becomes stable while a batch is chosen: then the oldest message is next, also of another conversation.
    @Test func Q8_B1_a_time_that_passes_while_a_batch_is_chosen_counts() throws {
        var limits = BatchLimits()
        limits.maxMessages = 100
        let simulation = try Simulation(Simulation.options(.auto, false, .automatic, 4) { $0.onlineDebounce = 500 }, batches: limits)
        simulation.goOffline()
        simulation.enqueue(["a", "a", "b", "a", "a"])
        try simulation.settle()
        simulation.goOnline()
        simulation.advance(450)
        simulation.workTime = { 30 }
        simulation.drain("a")
        try simulation.run()
        #expect(simulation.starts == [1, 2, 3, 4, 5])
    }
}
