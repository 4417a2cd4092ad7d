import Testing

@testable import MsgQueue

/// F9: outside mode auto a drain uses what the one before has read of the store.
@Suite struct KeptIndexTests {
    /// Runs a drain. Returns the work of SQLite.
    private func drain(_ simulation: Simulation, batch: Int = 0) throws -> Int {
        try DatabaseWork.count(simulation.context.store) {
            simulation.drain(batch: batch)
            try simulation.run()
        }
    }

    @Test(arguments: [Mode.manual, .ask]) func F9_a_drain_reads_scheduled_messages_once(mode: Mode) throws {
        let simulation = try Simulation(mode, direct: false)
        let due = simulation.now.wall + 3_600_000
        let scheduled = (0..<3_000).map { Name("scheduled \($0 % 5)") }
        simulation.preload(scheduled) { $0.notBefore = due }
        simulation.preload(["plain"])
        var work = [try drain(simulation)]
        #expect(simulation.starts == [3_001])
        for _ in 0..<2 {
            let later = simulation.enqueue(["plain", "scheduled 1", "other"])
            work.append(try drain(simulation))
            #expect(simulation.starts.suffix(3) == later[...])
        }
        // Some 30 instructions read a message. The scan leaves most of them out; a conversation with a message that is due is read once.
        #expect(work[0] < 20_000 && work[1] < 30_000 && work[2] < work[1] / 10, "\(work)")
        #expect(simulation.reports.last?.stop == .waiting && simulation.reports.last?.remaining == Int64(scheduled.count))
        // When their time has come, they are sent in their order.
        simulation.advance(3_600_000)
        _ = try drain(simulation)
        #expect(Set(simulation.starts).count == 3_007)
        #expect(simulation.reports.last?.stop == .empty)
    }

    @Test(arguments: [Mode.manual, .ask]) func F9_a_drain_of_few_messages_goes_on_where_the_one_before_ended(mode: Mode) throws {
        let simulation = try Simulation(mode, direct: false)
        let due = simulation.now.wall + 3_600_000
        simulation.preload((0..<1_000).map { Name("scheduled \($0 % 50)") }) { $0.notBefore = due }
        simulation.preload((0..<300).map { Name("plain \($0)") })
        let first = try drain(simulation, batch: 2)
        for number in stride(from: Int64(1_003), to: 1_021, by: 2) {
            let later = try drain(simulation, batch: 2)
            #expect(later < first / 5, "\(first), then \(later)")
            #expect(simulation.starts.suffix(2) == [number, number + 1])
        }
        // What changes between two drains is noticed, where they have read and where they have not.
        let added = simulation.enqueue(["scheduled 1", "plain 200", "another"])
        simulation.delete(1_021)
        simulation.advance(3_600_000)
        _ = try drain(simulation)
        #expect(Set(simulation.starts) == Set(1...1_300).union(added).subtracting([1_021]))
        #expect(simulation.reports.last?.stop == .empty)
    }

    @Test func F9_a_drain_does_not_wait_for_what_the_one_before_skipped() throws {
        let simulation = try Simulation(.manual, direct: false)
        simulation.preload(["a", "b"])
        simulation.drain()
        try simulation.run { _ in .skipped }
        let tried = simulation.starts.count
        #expect(tried >= 2 && simulation.reports.last?.stop == .waiting)
        simulation.drain()
        try simulation.run()
        #expect(simulation.starts.suffix(2) == [1, 2] && simulation.starts.count == tried + 2)
        #expect(simulation.reports.last?.stop == .empty)
    }

    @Test func F9_messages_that_change_between_two_drains_are_sent() throws {
        let simulation = try Simulation(.manual, direct: false, backoff: .ladder([]))
        let due = simulation.now.wall + 60_000
        simulation.preload(Array(repeating: "a", count: 40)) { $0.notBefore = due }
        simulation.preload(Array(repeating: "b", count: 40))
        simulation.drain()
        try simulation.run { $0 == 41 ? .reject() : .sent }
        #expect(simulation.reports.last?.failed == 1)
        simulation.delete(1)
        simulation.retryAll()
        simulation.enqueue("a")
        simulation.advance(60_000)
        _ = try drain(simulation)
        #expect(simulation.reports.last?.stop == .empty)
        #expect(Set(simulation.starts) == Set(2...81))
    }
}
