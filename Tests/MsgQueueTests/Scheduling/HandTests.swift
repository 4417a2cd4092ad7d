import Testing

@testable import MsgQueue

@Suite struct HandTests {
    @Test(arguments: [Mode.auto, .ask, .manual])
    func Q6_send_now_goes_before_everything(mode: Mode) throws {
        let simulation = Simulation(mode, direct: false)
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
        let simulation = Simulation(.auto, maxInFlight: 4)
        simulation.preload(["a", "a", "a", "b"])
        try simulation.settle()
        simulation.sendNow(3)
        try simulation.settle()
        #expect(simulation.inFlight == [1, 4])
        try simulation.answer(1, .sent)
        try simulation.settle()
        #expect(simulation.inFlight == [4, 3])
    }

    @Test func Q6_several_go_in_the_order_of_asking() throws {
        let simulation = Simulation(.manual)
        simulation.preload(["a", "b", "c"])
        for sequence in [3, 1, 2] { simulation.sendNow(Int64(sequence)) }
        try simulation.run()
        #expect(simulation.starts == [3, 1, 2])
    }

    @Test func Q6_a_message_sent_out_of_its_turn_that_fails_returns_to_its_place() throws {
        let simulation = Simulation(.manual, backoff: .ladder([100, 100]))
        simulation.preload(["a", "a", "a"])
        simulation.sendNow(2)
        try simulation.run { _ in .retry() }
        simulation.advance(100)
        simulation.drain()
        try simulation.run()
        #expect(simulation.starts == [2, 1, 2, 3])
    }

    @Test func Q6_by_hand_no_time_and_no_link_of_its_own_keeps_it() throws {
        let simulation = Simulation(.auto)
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

    @Test func Q6_while_offline_it_goes_first_when_online() throws {
        let simulation = Simulation(.manual)
        simulation.goOffline()
        simulation.enqueue("a", count: 2)
        simulation.sendNow(2)
        try simulation.settle()
        #expect(simulation.starts.isEmpty)
        simulation.goOnline()
        try simulation.settle()
        #expect(simulation.inFlight == [2])
    }

    @Test func R11_ten_quick_retries_make_one_attempt() throws {
        let simulation = Simulation(.manual)
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

    @Test func R3_R8_a_retry_keeps_its_place_and_ends_as_sent_or_failed() throws {
        let simulation = Simulation(.auto)
        simulation.enqueue("a")
        try simulation.run { _ in .reject() }
        #expect(simulation.retry(1) == nil)
        try simulation.settle()
        #expect(simulation.flights.first.map { $0.deadline - simulation.now.mono } == 3_000)
        try simulation.answer(1, .retry(.server))
        try simulation.settle()
        #expect(simulation.status(1) == .failed, "by hand there is no ladder")
        simulation.advance(1_000_000)
        try simulation.settle()
        #expect(simulation.starts == [1, 1])
    }

    @Test func R8_a_retry_without_an_answer_ends_after_its_time() throws {
        let simulation = Simulation(.auto)
        simulation.enqueue("a")
        try simulation.run { _ in .reject() }
        simulation.retry(1)
        try simulation.settle()
        simulation.advance(3_000)
        try simulation.settle()
        #expect(simulation.status(1) == .failed)
    }

    @Test func R11_what_is_gone_or_sent_is_not_sent_again_by_a_wish_from_before() throws {
        let simulation = Simulation(.manual)
        simulation.goOffline()
        simulation.enqueue("a", count: 2)
        simulation.sendNow(1)
        simulation.sendNow(2)
        simulation.delete(1)
        simulation.goOnline()
        try simulation.run()
        #expect(simulation.starts == [2])
    }

    @Test func Q17_a_wish_for_what_was_cleared_is_forgotten() throws {
        let simulation = Simulation(.manual)
        simulation.goOffline()
        simulation.enqueue(["a", "b"])
        simulation.sendNow(1)
        simulation.sendNow(2)
        simulation.clear("a")
        simulation.goOnline()
        try simulation.run()
        #expect(simulation.starts == [2])
    }
}
