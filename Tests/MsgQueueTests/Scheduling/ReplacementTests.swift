import Testing

@testable import MsgQueue

/// Replaced and dropped messages in the schedule.
@Suite struct ReplacementTests {
    @Test func F5_a_replaced_message_is_not_attempted_and_its_delay_is_gone() throws {
        let simulation = try Simulation(.auto, backoff: .ladder([60_000]))
        simulation.goOnline()
        simulation.advance(1_000)
        let old = simulation.enqueue("a", key: "k")[0]
        try simulation.settle()
        try simulation.answer(old, .retry(.server))
        let behind = simulation.enqueue("a")[0]
        try simulation.settle()
        #expect(simulation.inFlight == [])
        #expect(simulation.enqueue("a", key: "k") == [old])
        try simulation.settle()
        #expect(simulation.inFlight == [old])
        try simulation.answer(old, .sent)
        try simulation.settle()
        #expect(simulation.inFlight == [behind])
    }

    @Test func F5_a_manual_request_ends_with_its_message() throws {
        let simulation = try Simulation(.manual, direct: false)
        simulation.goOnline()
        let first = simulation.enqueue("a")[0]
        let old = simulation.enqueue("a", key: "k")[0]
        #expect(simulation.sendNow(first) == nil)
        try simulation.settle()
        #expect(simulation.sendNow(old) == nil)
        simulation.enqueue("a", key: "k")
        try simulation.answer(first, .sent)
        try simulation.settle()
        #expect(simulation.inFlight == [])
        simulation.drain()
        try simulation.settle()
        #expect(simulation.inFlight == [old])
    }

    @Test func F5_the_first_one_is_sent_directly_and_those_behind_it_are_not() throws {
        for mode in [Mode.manual, .ask] {
            let simulation = try Simulation(mode)
            simulation.goOffline()
            let first = simulation.enqueue("a", key: "k")[0]
            simulation.enqueue("a", count: 40)
            let last = simulation.enqueue("a", key: "l")[0]
            simulation.goOnline()
            try simulation.settle()
            #expect(simulation.enqueue("a", key: "l") == [last])
            try simulation.settle()
            #expect(simulation.inFlight == [], "others are before it")
            #expect(simulation.enqueue("a", key: "k") == [first])
            try simulation.settle()
            #expect(simulation.inFlight == [first])
            try simulation.answer(first, .sent)
            try simulation.settle()
            #expect(simulation.inFlight == [])
        }
    }

    @Test func F5_a_message_of_a_retry_all_that_is_replaced_keeps_the_order_in_mode_auto() throws {
        let simulation = try Simulation(.auto, backoff: .ladder([]))
        simulation.goOnline()
        simulation.advance(1_000)
        for key in ["k", "l", "m"] { simulation.enqueue("a", key: key) }
        try simulation.run { _ in .reject() }
        #expect(simulation.retryAll() == 3)
        let replaced = simulation.enqueue("a", key: "k")
        try simulation.run()
        #expect(replaced == [1])
        #expect(simulation.starts.suffix(3) == [1, 2, 3])
    }

    @Test func F6_a_dropped_message_is_not_attempted() throws {
        let simulation = try Simulation(.auto) { ($0.limitMessages, $0.onFull) = (2, .dropOldest) }
        simulation.goOffline()
        simulation.enqueue("a", count: 2)
        simulation.enqueue("b")
        #expect(simulation.count(.dropped(1)) == 1)
        simulation.goOnline()
        simulation.advance(1_000)
        try simulation.run()
        #expect(simulation.starts == [2, 3])
    }

    @Test func F6_a_full_queue_changes_nothing() throws {
        let simulation = try Simulation(.manual, direct: false) { ($0.limitMessages, $0.onFull) = (2, .dropOldest) }
        simulation.enqueue("a", count: 2)
        #expect(simulation.enqueue("b", count: 3) == [])
        #expect(simulation.store.queued == [1, 2])
        try simulation.settle()
    }
}
