import Testing

@testable import MsgQueue

@Suite struct OnDemandTests {
    @Test(arguments: [Mode.auto, .ask, .manual])
    func Q6_send_now_overtakes_everything(mode: Mode) throws {
        let simulation = try Simulation(mode, direct: false)
        simulation.preload(["a", "a", "a", "b"])
        simulation.sendNow(3)
        try simulation.settle()
        #expect(simulation.inFlight == [3])
        try simulation.answer(3, .sent)
        simulation.drain()
        try simulation.run()
        #expect(simulation.starts == [3, 1, 2, 4])
    }

    @Test func Q6_send_now_waits_until_its_conversation_is_free() throws {
        let simulation = try Simulation(.auto, maxInFlight: 4)
        simulation.preload(["a", "a", "a", "b"])
        try simulation.settle()
        simulation.sendNow(3)
        try simulation.settle()
        #expect(simulation.inFlight == [1, 4])
        try simulation.answer(1, .sent)
        try simulation.settle()
        #expect(simulation.inFlight == [4, 3])
    }

    @Test func Q6_a_request_is_kept_when_the_end_of_an_earlier_one_is_stored_later() throws {
        let simulation = try Simulation(.manual)
        simulation.preload(["a"])
        simulation.sendNow(1)
        simulation.breakStore()
        simulation.goOffline()
        try simulation.settle()
        simulation.goOnline()
        #expect(simulation.sendNow(1) == nil)
        simulation.mendStore()
        simulation.advance(120_000)
        try simulation.settle()
        #expect(simulation.inFlight == [1])
    }

    @Test func Q6_several_are_sent_in_the_order_of_the_calls() throws {
        let simulation = try Simulation(.manual)
        simulation.preload(["a", "b", "c"])
        for sequence in [3, 1, 2] { simulation.sendNow(Int64(sequence)) }
        try simulation.run()
        #expect(simulation.starts == [3, 1, 2])
    }

    @Test func Q6_a_message_that_fails_after_send_now_returns_to_its_place() throws {
        let simulation = try Simulation(.manual, backoff: .ladder([100, 100]))
        simulation.preload(["a", "a", "a"])
        simulation.sendNow(2)
        try simulation.run { _ in .retry() }
        simulation.advance(100)
        simulation.drain()
        try simulation.run()
        #expect(simulation.starts == [2, 1, 2, 3])
    }

    @Test func Q6_send_now_ignores_not_before_and_unmetered_only() throws {
        let simulation = try Simulation(.auto)
        simulation.goOnline(metered: true)
        simulation.advance(500)
        let wall = simulation.now.wall
        simulation.enqueue("a") { message in
            message.notBefore = wall + 1_000_000
            message.unmeteredOnly = true
        }
        try simulation.settle()
        #expect(simulation.starts.isEmpty)
        simulation.sendNow(1)
        try simulation.settle()
        #expect(simulation.inFlight == [1])
    }

    @Test(arguments: [Mode.auto, .ask, .manual])
    func R15_send_now_while_offline_ends_at_once_and_the_message_stays_queued(mode: Mode) throws {
        let simulation = try Simulation(mode)
        simulation.goOffline()
        simulation.enqueue("a", count: 2)
        #expect(simulation.sendNow(2) == nil)
        #expect(simulation.count(.unreachable(2, .queued)) == 1)
        #expect(!simulation.scheduler.requests.contains(2))
        #expect(simulation.sendNow(2) == nil, "it may be requested again")
        simulation.goOnline()
        simulation.advance(500)
        try simulation.run()
        #expect(simulation.starts == (mode == .auto ? [1, 2] : []))
    }

    @Test(arguments: [Mode.ask, .manual])
    func R15_a_retry_while_offline_fails_again_at_once(mode: Mode) throws {
        let simulation = try Simulation(mode)
        simulation.enqueue("a")
        try simulation.run { _ in .reject() }
        simulation.goOffline()
        #expect(simulation.retry(1) == nil)
        #expect(simulation.count(.unreachable(1, .failed)) == 1)
        simulation.goOnline()
        simulation.advance(500)
        try simulation.run()
        #expect(simulation.starts == [1])
        #expect(simulation.status(1) == .failed)
        #expect(simulation.store[1]?.progress.attempts == 1, "an attempt that was not sent is not counted")
    }

    @Test func R15_in_mode_auto_a_retry_while_offline_is_queued_and_sent_in_its_place() throws {
        let simulation = try Simulation(.auto)
        simulation.enqueue("a", count: 2)
        try simulation.run { $0 == 1 ? .reject() : .offline }
        simulation.goOffline()
        simulation.retry(1)
        #expect(simulation.status(1) == .queued)
        simulation.restart()
        simulation.goOnline()
        simulation.advance(500)
        try simulation.run()
        #expect(simulation.starts == [1, 2, 1, 2])
    }

    @Test func R15_a_waiting_request_ends_when_the_connection_is_lost() throws {
        let simulation = try Simulation(.manual)
        simulation.enqueue("a", count: 2)
        try simulation.settle()
        simulation.sendNow(2)
        try simulation.settle()
        #expect(simulation.inFlight == [1], "its conversation is busy")
        simulation.goOffline()
        try simulation.settle()
        #expect(simulation.count(.unreachable(2, .queued)) == 1)
        try simulation.answer(1, .sent)
        simulation.goOnline()
        try simulation.run()
        #expect(simulation.starts == [1])
    }

    @Test(arguments: [Mode.auto, .ask, .manual], ["a", nil] as [Name?])
    func R15_a_retry_while_paused_is_queued_on_disk(mode: Mode, scope: Name?) throws {
        let simulation = try Simulation(mode, direct: false)
        simulation.preload(["a"])
        simulation.drain()
        try simulation.run { _ in .reject() }
        simulation.pause(scope)
        #expect(simulation.retry(1) == nil)
        #expect(simulation.status(1) == .queued)
        #expect(!simulation.scheduler.requests.contains(1))
        #expect(simulation.retry(1) == .conflict, "it is queued already")
        try simulation.settle()
        simulation.resume(scope)
        try simulation.run()
        #expect(simulation.starts == (mode == .auto ? [1, 1] : [1]))
        simulation.drain()
        try simulation.run()
        #expect(simulation.starts == [1, 1])
        #expect(simulation.status(1) == .sent)
    }

    @Test(arguments: [Mode.auto, .ask, .manual], ["a", nil] as [Name?])
    func R15_send_now_while_paused_is_refused(mode: Mode, scope: Name?) throws {
        let simulation = try Simulation(mode, direct: false)
        simulation.pause(scope)
        simulation.enqueue("a")
        #expect(simulation.sendNow(1) == .conflict)
        simulation.resume(scope)
        try simulation.run()
        #expect(simulation.starts == (mode == .auto ? [1] : []))
    }

    @Test(arguments: ["a", nil] as [Name?])
    func R15_a_waiting_request_ends_with_a_pause(scope: Name?) throws {
        let simulation = try Simulation(.manual, direct: false)
        simulation.preload(["a", "a", "a"])
        simulation.sendNow(1)
        try simulation.run { _ in .reject() }
        simulation.sendNow(2)
        try simulation.settle()
        simulation.retry(1)
        simulation.sendNow(3)
        simulation.pause(scope)
        try simulation.settle()
        #expect(simulation.scheduler.requests.isEmpty)
        #expect(simulation.status(1) == .queued)
        simulation.resume(scope)
        try simulation.run()
        #expect(simulation.starts == [1, 2])
    }

    @Test func R15_an_expired_message_retried_while_offline_is_sent_when_online() throws {
        let simulation = try Simulation(.auto)
        simulation.goOffline()
        let wall = simulation.now.wall
        simulation.enqueue("a") { $0.expiresAt = wall + 100 }
        simulation.goOnline()
        simulation.advance(500)
        try simulation.settle()
        #expect(simulation.status(1) == .failed)
        simulation.goOffline()
        simulation.retry(1)
        simulation.goOnline()
        simulation.advance(500)
        try simulation.run()
        #expect(simulation.status(1) == .sent)
    }

    @Test func R11_ten_quick_retries_make_one_attempt() throws {
        let simulation = try Simulation(.manual)
        simulation.enqueue("a")
        try simulation.run { _ in .reject() }
        #expect(simulation.retry(1) == nil)
        for _ in 0..<9 { #expect(simulation.retry(1) == .busy) }
        try simulation.settle()
        for _ in 0..<10 { #expect(simulation.retry(1) == .busy) }
        try simulation.run()
        #expect(simulation.starts == [1, 1])
        #expect(simulation.retry(1) == .conflict)
    }

    @Test func R3_R8_a_retry_keeps_the_place_and_ends_as_sent_or_failed() throws {
        let simulation = try Simulation(.auto)
        simulation.enqueue("a")
        try simulation.run { _ in .reject() }
        #expect(simulation.retry(1) == nil)
        try simulation.settle()
        #expect(simulation.flights.first.map { $0.deadline - simulation.now.mono } == 3_000)
        try simulation.answer(1, .retry(.server))
        try simulation.settle()
        #expect(simulation.status(1) == .failed, "a retry on demand has no ladder")
        simulation.advance(1_000_000)
        try simulation.settle()
        #expect(simulation.starts == [1, 1])
    }

    @Test func R8_a_retry_without_an_answer_times_out() throws {
        let simulation = try Simulation(.auto)
        simulation.enqueue("a")
        try simulation.run { _ in .reject() }
        simulation.retry(1)
        try simulation.settle()
        simulation.advance(3_000)
        try simulation.settle()
        #expect(simulation.status(1) == .failed)
    }

    @Test func R11_an_earlier_request_does_not_send_a_deleted_or_sent_message() throws {
        let simulation = try Simulation(.manual, direct: false)
        simulation.enqueue("a", count: 3)
        simulation.sendNow(3)
        try simulation.settle()
        simulation.sendNow(1)
        simulation.sendNow(2)
        simulation.delete(1)
        try simulation.run()
        #expect(simulation.starts == [3, 2])
    }

    @Test func Q17_a_request_for_a_cleared_message_is_dropped() throws {
        let simulation = try Simulation(.manual, direct: false)
        simulation.enqueue(["a", "b"])
        simulation.sendNow(1)
        simulation.sendNow(2)
        simulation.clear("a")
        try simulation.run()
        #expect(simulation.starts == [2])
    }

    /// The store rejects the failure of a message that has expired. What a person asks for then depends on that.
    @Test(arguments: [true, false])
    func Q11_D9_a_change_of_an_expired_message_waits_until_its_failure_is_stored(isMended: Bool) throws {
        let simulation = try Simulation(.manual, direct: false)
        simulation.enqueue("a") { $0.expiresAt = simulation.now.wall + 1_000 }
        try simulation.settle()
        simulation.breakStore()
        simulation.advance(1_000)
        try simulation.settle()
        if isMended { simulation.mendStore() }
        #expect(simulation.sendNow(1) == (isMended ? .conflict : .storage))
        #expect(simulation.delete(1) == (isMended ? nil : .storage))
        simulation.mendStore()
        simulation.advance(60_000)
        try simulation.run()
        #expect(simulation.starts.isEmpty)
        #expect(simulation.store[1]?.progress.status == (isMended ? nil : .failed))
    }
}
