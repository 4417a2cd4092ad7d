import Testing

@testable import MsgQueue

/// F9: a few messages with a priority let a drain read their conversations, not all. The checker compares each attempt with the order of all
/// queued messages.
@Suite struct FewPrioritiesTests {
    private func conversations(_ count: Int, _ prefix: String = "c") -> [Name] { (0..<count).map { Name("\(prefix)\($0)") } }

    /// Returns the work of SQLite.
    private func drain(_ simulation: Simulation, batch: Int) throws -> Int {
        try DatabaseWork.count(simulation.context.store) {
            simulation.drain(batch: batch)
            try simulation.run()
        }
    }

    @Test func F9_with_one_priority_no_drain_reads_more_in_more_conversations() throws {
        var work: [[Int]] = []
        for count in [600, 6_000] {
            let simulation = try Simulation(.manual, direct: false)
            simulation.preload(conversations(count))
            simulation.preload(["urgent"]) { $0.priority = 1 }
            work.append(try (0..<4).map { _ in try drain(simulation, batch: 2) })
            #expect(simulation.starts == [Int64(count) + 1, 1, 2, 3, 4, 5, 6, 7])
        }
        for (few, many) in zip(work[0], work[1]) { #expect(many < 2 * few, "\(work)") }
    }

    /// The first message of the conversation with a priority is an older one without.
    @Test(arguments: [Mode.auto, .manual]) func F9_a_priority_counts_when_its_message_has_become_the_first(mode: Mode) throws {
        let simulation = try Simulation(mode, direct: false)
        simulation.preload(["a"] + conversations(600) + ["a", "b", "b"]) { message in
            if message.sequence > 601 { message.priority = message.sequence == 603 ? -1 : 1 }
        }
        simulation.drain()
        try simulation.run()
        #expect(simulation.starts == [1, 602] + Array(2...601) + [603, 604])
    }

    @Test func F9_messages_of_low_priority_wait_for_those_that_were_not_read() throws {
        let simulation = try Simulation(.auto)
        simulation.preload(["low"]) { $0.priority = -1 }
        simulation.preload(conversations(600))
        try simulation.run()
        // One of 8 attempts goes to the oldest.
        #expect(simulation.starts == Array(2...8) + [1] + Array(9...601))
    }

    @Test(arguments: [1_024, 1_025]) func F9_with_too_many_priorities_every_conversation_is_read(count: Int) throws {
        let simulation = try Simulation(.manual, direct: false)
        simulation.preload(conversations(300))
        simulation.preload(conversations(count, "urgent")) { $0.priority = Int32($0.sequence % 3) + 1 }
        simulation.drain(batch: 3)
        try simulation.run()
        #expect(simulation.starts == [302, 305, 308])
        #expect(simulation.scheduler.lanes.reading.surveys == (count > 1_024))
    }

    /// Where the scan has not been yet.
    @Test(arguments: [false, true]) func F9_a_priority_that_comes_during_a_drain_is_found_before_the_scan(isFirst: Bool) throws {
        let simulation = try Simulation(.auto)
        simulation.preload(conversations(600))
        if isFirst { simulation.preload(["urgent"]) { $0.priority = 1 } }
        try simulation.settle()
        // Behind one that was not read, and with no other.
        simulation.enqueue(["c550", "new"]) { $0.priority = 2 }
        try simulation.run()
        #expect(Set(simulation.starts) == Set(1...(isFirst ? 603 : 602)))
    }

    @Test func F9_a_failed_message_with_a_priority_is_found_when_it_is_queued_again() throws {
        for isRetriedAll in [false, true] {
            let simulation = try Simulation(.manual, direct: false, backoff: .ladder([]))
            simulation.preload(conversations(700))
            simulation.preload(["urgent", "second"]) { $0.priority = 3 }
            simulation.drain(batch: 3)
            try simulation.run { $0 == 701 ? .reject() : .sent }
            #expect(simulation.starts == [701, 702, 1])
            if isRetriedAll { simulation.retryAll() } else { simulation.retry(701) }
            simulation.drain(batch: 2)
            try simulation.run()
            #expect(simulation.starts.contains(701) && simulation.starts.suffix(4).filter { $0 == 701 }.count == 1)
            #expect(simulation.starts.last.map { $0 <= 3 } == true)
        }
    }

    @Test func F9_a_replacement_with_a_priority_is_found_before_the_scan() throws {
        let simulation = try Simulation(.manual, direct: false)
        simulation.preload(conversations(700))
        simulation.enqueue(["late"], key: "k")
        simulation.drain(batch: 1)
        try simulation.run()
        simulation.enqueue(["late"], key: "k") { $0.priority = 4 }
        simulation.drain(batch: 2)
        try simulation.run()
        #expect(simulation.starts == [1, 701, 2])
    }

    @Test func F9_an_edited_time_of_a_message_with_a_priority_is_noticed() throws {
        let simulation = try Simulation(.manual, direct: false)
        let due = simulation.now.wall + 3_600_000
        simulation.preload(conversations(700))
        simulation.preload(["later"]) { ($0.priority, $0.notBefore) = (1, due) }
        simulation.drain(batch: 1)
        try simulation.run()
        #expect(simulation.starts == [1])
        simulation.advance(3_600_000)
        simulation.drain(batch: 2)
        try simulation.run()
        #expect(simulation.starts == [1, 701, 2])
    }
}
