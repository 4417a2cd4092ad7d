import Testing

@testable import MsgQueue

/// F2: priorities and expiries between conversations.
@Suite struct PriorityTests {
    private typealias Ranked = (conversation: Name, priority: Int32)

    private func preload(_ simulation: Simulation, _ messages: [Ranked]) {
        var next = messages.makeIterator()
        simulation.preload(messages.map(\.conversation)) { $0.priority = next.next()?.priority ?? 0 }
    }

    /// Messages in conversations with this prefix, in rotation.
    private func spread(_ count: Int, over conversations: Int, _ prefix: String, _ priority: Int32 = 0) -> [Ranked] {
        (0..<count).map { (Name("\(prefix)\($0 % conversations)"), priority) }
    }

    @Test func F2_the_conversation_with_the_highest_priority_is_next() throws {
        let simulation = try Simulation(.auto)
        preload(simulation, [("a", 0), ("b", -5), ("c", 7), ("d", 100), ("e", 7), ("f", -100)])
        try simulation.run()
        #expect(simulation.starts == [4, 3, 5, 1, 2, 6])
    }

    @Test func F2_the_order_within_a_conversation_does_not_change() throws {
        let simulation = try Simulation(.auto)
        preload(simulation, [("a", 0), ("a", 100), ("b", 5), ("b", 1), ("a", 3)])
        try simulation.run()
        #expect(simulation.starts == [3, 4, 1, 2, 5], "only the first message of a conversation counts")
    }

    @Test(arguments: [Mode.auto, .manual, .ask])
    func F2_priorities_hold_from_the_first_attempt_after_a_restart(mode: Mode) throws {
        let simulation = try Simulation(mode, direct: false)
        preload(simulation, spread(900, over: 300, "c") + [("urgent", 1)] + spread(100, over: 100, "c"))
        simulation.restart()
        if mode != .auto { simulation.drain() }
        try simulation.run()
        #expect(simulation.starts == [901] + Array(1...900) + Array(902...1_001))
    }

    /// While the rate permits no attempt, choosing again and again uses up no turn.
    @Test(arguments: [Int64(0), 60_000])
    func F2_with_a_rate_the_choice_is_made_when_an_attempt_is_permitted(ramp: Int64) throws {
        let simulation = try Simulation(.auto, direct: false, maxInFlight: 4) { options in
            (options.ratePerSecond, options.rampUp, options.onlineDebounce) = (1, ramp, 0)
        }
        preload(simulation, spread(8, over: 8, "c"))
        simulation.goOnline()
        for number in 0..<4 {
            try simulation.run()
            simulation.advance(50)
            simulation.enqueue(Name("live\(number)")) { $0.priority = Int32(number) }
        }
        try simulation.run()
        #expect(simulation.starts.isEmpty)
        while simulation.starts.count < 6 {
            simulation.advance(10)
            try simulation.run()
        }
        #expect(simulation.starts == [1, 12, 2, 11, 3, 10], "the backlog and the highest priority of the live messages in turn")
    }

    @Test func F2_messages_of_low_priority_wait_for_all_others() throws {
        let simulation = try Simulation(.auto)
        preload(simulation, spread(600, over: 3, "low", -1) + spread(40, over: 20, "c"))
        try simulation.settle()
        try simulation.run()
        // One of 8 attempts goes to the oldest.
        #expect(simulation.starts.prefix(40).count { $0 <= 600 } == 5)
        #expect(simulation.starts.filter { $0 > 600 } == Array(601...640))
    }

    /// More conversations than are read before the first attempt.
    @Test func F2_with_very_many_conversations_sending_begins_before_all_are_known() throws {
        let simulation = try Simulation(.auto)
        simulation.checker.isDisabled = true
        preload(simulation, spread(2_999, over: 2_999, "c") + [("last", 9)])
        try simulation.settle()
        #expect(simulation.scheduler.lanes.count < 3_000)
        try simulation.run()
        #expect(Set(simulation.starts) == Set(1...3_000))
        #expect(simulation.starts.firstIndex(of: 3_000) ?? .max <= 4)
        #expect(simulation.scheduler.lanes.count == 0)
    }

    /// The first message with a priority arrives while the store is being read in the order of age.
    @Test(arguments: [true, false])
    func F2_the_first_priority_may_come_during_a_drain(direct: Bool) throws {
        let simulation = try Simulation(.auto, direct: direct)
        simulation.preload((0..<600).map { Name("c\($0 % 150)") })
        try simulation.settle()
        #expect(!simulation.scheduler.lanes.isRanked)
        simulation.enqueue(["c5", "new", "new"]) { $0.priority = 5 }
        try simulation.run()
        #expect(simulation.scheduler.lanes.isRanked)
        #expect(simulation.starts.count == 603)
        #expect(simulation.starts.prefix(5) == [1, 2, 602, 3, 603])
        #expect(simulation.queued.isEmpty)
    }

    @Test func F2_a_replacement_has_a_priority_of_its_own() throws {
        let simulation = try Simulation(.manual, direct: false)
        simulation.enqueue(["a", "b", "c"], key: "k")
        simulation.enqueue(["c"], key: "k") { $0.priority = 9 }
        simulation.drain()
        try simulation.run()
        #expect(simulation.starts == [3, 1, 2])
    }

    // MARK: Starvation

    /// Messages of high priority arrive faster than they can be sent.
    @Test func F2_no_message_waits_forever() throws {
        let simulation = try Simulation(.auto)
        preload(simulation, spread(20, over: 4, "low", -100) + [("high", 100)])
        try simulation.settle()
        for number in 0..<400 {
            simulation.enqueue([Name("high\(number % 7)"), Name("high\(number % 5)")]) { $0.priority = 100 }
            let first = try #require(simulation.inFlight.first)
            try simulation.answer(first, .sent)
            try simulation.settle()
        }
        let low = simulation.starts.enumerated().filter { $0.element <= 20 }.map(\.offset)
        #expect(low.count == 20)
        // Half of the attempts are live; of the others one of 8 at least goes to the oldest.
        #expect(zip(low, low.dropFirst()).allSatisfy { $1 - $0 <= 16 })
    }

    @Test func F2_an_expired_message_does_not_count_as_the_oldest() throws {
        let simulation = try Simulation(.auto)
        let wall = simulation.now.wall
        simulation.preload(["expiring"]) { ($0.priority, $0.expiresAt) = (-1, wall + 1_000) }
        preload(simulation, [("oldest", 5), ("slow", -5)] + spread(10, over: 10, "c", 3) + [("top", 9)])
        try simulation.settle()
        simulation.advance(2_000)
        try simulation.run()
        // Message 2 is the oldest when it starts; the next turn of the oldest is after 7 others.
        #expect(simulation.starts == [14, 2] + Array(4...10) + [3] + Array(11...13))
    }

    // MARK: Expiries

    @Test func F2_of_equal_priorities_the_soonest_expiry_is_next() throws {
        for isOn in [true, false] {
            let simulation = try Simulation(.auto) { $0.soonestExpiryFirst = isOn }
            let wall = simulation.now.wall
            for (conversation, seconds, priority) in [("a", 0, 0), ("b", 90, 0), ("c", 60, 0), ("d", 10, -1), ("e", 0, 1)]
                as [(Name, Int64, Int32)]
            {
                simulation.preload([conversation]) { message in
                    message.expiresAt = seconds == 0 ? 0 : wall + seconds * 1_000
                    message.priority = priority
                }
            }
            try simulation.run()
            #expect(simulation.starts == (isOn ? [5, 3, 2, 1, 4] : [5, 1, 2, 3, 4]))
        }
    }

    /// One attempt takes a second.
    @Test func F2_fewer_messages_expire_when_the_soonest_expiry_is_first() throws {
        func expired(_ isOn: Bool) throws -> Int {
            let simulation = try Simulation(.auto) { $0.soonestExpiryFirst = isOn }
            let wall = simulation.now.wall
            simulation.preload((0..<40).map { Name("c\($0)") }) { $0.expiresAt = $0.sequence <= 30 ? 0 : wall + 1_000 * ($0.sequence - 26) }
            try simulation.settle()
            while let first = simulation.inFlight.first {
                simulation.advance(1_000)
                simulation.expireOverdue()
                try simulation.answer(first, .sent)
                try simulation.settle()
            }
            return simulation.entries.count { if case .expired = $0.entry { true } else { false } }
        }
        #expect(try expired(false) == 10)
        #expect(try expired(true) == 0)
    }

    // MARK: Explanations

    @Test func F2_X1_an_explanation_says_what_is_ahead() throws {
        let simulation = try Simulation(.auto) { $0.soonestExpiryFirst = true }
        preload(simulation, [("a", 0), ("b", 9), ("c", 5), ("d", 5)])
        simulation.preload(["e"]) { message in
            message.priority = 5
            message.expiresAt = simulation.now.wall + 60_000
        }
        try simulation.settle()
        #expect(simulation.inFlight == [2])
        func check(_ sequence: Int64, _ text: String, _ holder: Int64?) {
            #expect(simulation.text(of: sequence) == text)
            #expect(simulation.explain(sequence)?.holder == holder)
        }
        check(1, "Messages with a higher priority go first.", 5)
        check(3, "Messages that expire sooner go first.", 5)
        check(5, "It is next.", nil)
        try simulation.answer(2, .sent)
        try simulation.settle()
        #expect(simulation.inFlight == [5])
        check(3, "It is next.", nil)
        check(4, "It is next.", nil)
        check(1, "Messages with a higher priority go first.", 3)
    }
}
