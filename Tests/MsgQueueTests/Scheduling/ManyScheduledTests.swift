import Testing

@testable import MsgQueue

/// F9: messages that are scheduled for later are no obstacle on the way to those that can be sent. The scan leaves them out, and finds them
/// when their time has come.
@Suite struct ManyScheduledTests {
    private static let hour: Int64 = 3_600_000

    /// Runs what is due, for so long.
    private func pass(_ milliseconds: Int64, _ simulation: Simulation, step: Int64 = 1_000) throws {
        for _ in 0..<milliseconds / step {
            simulation.advance(step)
            try simulation.run()
        }
    }

    /// `scheduled` messages for the next hour, in `lanes` conversations, then some that can be sent.
    private func filled(
        _ mode: Mode, _ scheduled: Int = 600, lanes: Int = 60
    ) throws -> Simulation {
        let simulation = try Simulation(mode, direct: false)
        simulation.goOffline()
        let due = simulation.now.wall + Self.hour
        var number: Int64 = 0
        simulation.preload((0..<scheduled).map { Name("scheduled \($0 % lanes)") }) {
            number += 1
            $0.notBefore = due + number * 7 % 600 * 1_000
        }
        simulation.preload(["plain", "scheduled 1", "other"])
        // The indexes are compared after an opening.
        try pass(20_000, simulation)
        return simulation
    }

    /// Goes online, drains, and returns the work of SQLite.
    private func drain(_ simulation: Simulation, _ mode: Mode) throws -> Int {
        try DatabaseWork.count(simulation.context.store) {
            simulation.goOnline()
            simulation.advance(5_000)
            try simulation.run()
            if mode != .auto { simulation.drain() }
            try simulation.run()
        }
    }

    /// In mode ask the count of the prompt reads them, once.
    @Test(arguments: [Mode.auto, .manual]) func F9_a_drain_does_not_read_the_messages_that_are_scheduled_for_later(mode: Mode) throws {
        var work: [Int] = []
        for count in [1_000, 4_000] {
            let simulation = try filled(mode, count, lanes: count / 10)
            work.append(try drain(simulation, mode))
            #expect(simulation.starts == [1, 2, 3].map { Int64(count + $0) })
            if mode != .auto { #expect(simulation.reports.last?.stop == .waiting && simulation.reports.last?.remaining == Int64(count)) }
        }
        #expect(work[1] < work[0] * 11 / 10, "\(work)")
    }

    @Test func F9_what_is_enqueued_between_two_drains_is_read_only_as_far_as_needed() throws {
        let simulation = try filled(.manual, 1_000, lanes: 100)
        _ = try drain(simulation, .manual)
        let wall = simulation.now.wall
        for number in 0..<900 {
            simulation.enqueue([Name("scheduled \(number / 2)")]) { $0.notBefore = number % 3 == 0 ? wall + 3 * Self.hour : 0 }
        }
        let work = try DatabaseWork.count(simulation.context.store) {
            simulation.drain(batch: 2)
            try simulation.run()
        }
        #expect(simulation.starts.suffix(2) == [1_005, 1_006])
        simulation.drain()
        try simulation.run()
        let others: [Int64] = (1_004...1_903).filter { ($0 - 1_004) % 3 != 0 }
        #expect(simulation.starts == [1_001, 1_002, 1_003] + others)
        let all = try DatabaseWork.count(simulation.context.store) {
            simulation.drain()
            try simulation.run()
        }
        // Each of some 20 reads also passes over the rows that are not folded.
        #expect(work < 100_000, "\(work)")
        #expect(all < 1_000, "\(all)")
        try pass(3 * Self.hour, simulation, step: 60_000)
        simulation.drain()
        try simulation.run()
        #expect(simulation.starts.count == 1_903 && Set(simulation.starts).count == 1_903)
    }

    @Test func F9_X5_messages_that_were_left_out_are_sent_at_their_time() throws {
        let simulation = try filled(.auto)
        _ = try drain(simulation, .auto)
        #expect(try simulation.engine.state().reason == .scheduled)
        // Some of those that were left out are changed, and others enqueued behind them.
        #expect(simulation.delete(17) == nil)
        #expect(simulation.sendNow(18) == nil)
        try simulation.run()
        let added = simulation.enqueue(["scheduled 5", "new"])
        try simulation.run()
        let last: [Int64] = [18] + added
        #expect(Array(simulation.starts.suffix(3)) == last)
        try pass(Self.hour + 700_000, simulation, step: 10_000)
        #expect(simulation.starts.count == 600 - 1 + 3 + 2 && Set(simulation.starts).count == simulation.starts.count)
        #expect(simulation.context.store.counts.totals.queued == 0)
    }

    /// The older of two live messages goes first although the scan had found everything, and the older one is behind scheduled messages.
    @Test func F9_F1_a_live_message_behind_scheduled_ones_goes_before_younger_ones() throws {
        let simulation = try Simulation(.auto, direct: false) { $0.liveShare = 0.5 }
        let due = simulation.now.wall + Self.hour
        simulation.preload((0..<600).map { Name("scheduled \($0 % 60)") }) { $0.notBefore = due }
        simulation.preload((0..<6).map { _ in "old" })
        try simulation.settle()
        #expect(simulation.inFlight == [601])
        let live = simulation.enqueue(["scheduled 1", "x", "y"])
        try simulation.run()
        #expect(simulation.starts.filter { $0 > 606 } == live, "\(simulation.starts)")
        #expect(simulation.starts.count == 9)
    }

    @Test(arguments: Mode.allCases) func F9_many_messages_that_are_due_at_once_are_sent_in_order(mode: Mode) throws {
        let simulation = try Simulation(mode, direct: false)
        simulation.goOffline()
        let due = simulation.now.wall + Self.hour
        simulation.preload((0..<600).map { Name("c\($0 % 60)") }) { $0.notBefore = due }
        // More are due at once than are found by their time.
        simulation.scheduler.lanes.reading.mostScheduled = 100
        _ = try drain(simulation, mode)
        #expect(simulation.starts.isEmpty)
        try pass(Self.hour, simulation, step: 60_000)
        if mode != .auto { simulation.drain() }
        try simulation.run()
        #expect(simulation.starts == Array(1...600))
    }

    @Test func F9_a_drain_is_reported_as_paused_only_if_all_that_is_left_is_paused() throws {
        for isElsewhere in [false, true] {
            let simulation = try filled(.manual, lanes: 1)
            if isElsewhere { simulation.preload(["elsewhere"]) { $0.notBefore = simulation.now.wall + Self.hour } }
            simulation.pause("scheduled 0")
            _ = try drain(simulation, .manual)
            #expect(simulation.reports.last?.stop == (isElsewhere ? .waiting : .paused))
        }
        // Paused after they were left out.
        let simulation = try filled(.manual, lanes: 1)
        _ = try drain(simulation, .manual)
        #expect(simulation.reports.last?.stop == .waiting)
        simulation.pause("scheduled 0")
        simulation.drain()
        try simulation.run()
        #expect(simulation.reports.last?.stop == .paused)
    }

    @Test(arguments: [Self.hour, -Self.hour])
    func F9_X5_a_step_of_the_clock_changes_when_messages_that_were_left_out_are_due(step: Int64) throws {
        let simulation = try filled(.auto)
        _ = try drain(simulation, .auto)
        let sent = simulation.starts.count
        simulation.jumpWallClock(step + (step > 0 ? 700_000 : 0), isReported: true)
        try simulation.run()
        if step > 0 {
            #expect(simulation.starts.count == 603)
        } else {
            try pass(Self.hour + 700_000, simulation, step: 60_000)
            #expect(simulation.starts.count == sent)
            try pass(Self.hour, simulation, step: 60_000)
            #expect(simulation.starts.count == 603)
        }
    }

    @Test func F9_B1_a_batch_waits_for_more_messages_beside_scheduled_ones() throws {
        for count in [100, 600] {
            var limits = BatchLimits()
            (limits.maxMessages, limits.linger) = (20, 10_000)
            let simulation = try Simulation(Simulation.options(.auto, true, .automatic, 1) { _ in }, batches: limits)
            let due = simulation.now.wall + Self.hour
            simulation.preload((0..<count).map { Name("c\($0 % 3)") }) { $0.notBefore = due }
            simulation.goOnline()
            try pass(5_000, simulation)
            for conversation in ["c0", "c0", "c1"] as [Name] {
                simulation.enqueue(conversation)
                try pass(2_000, simulation)
            }
            #expect(simulation.starts.isEmpty, "\(count)")
            try pass(5_000, simulation)
            #expect(simulation.starts.count == 3, "\(count)")
        }
    }

    @Test func F9_a_message_that_is_scheduled_anew_is_sent_at_its_new_time() throws {
        let simulation = try filled(.auto)
        _ = try drain(simulation, .auto)
        // Before and after the others, and one without a time.
        let wall = simulation.now.wall
        let added = simulation.enqueue(["scheduled 7", "scheduled 8"]) { $0.notBefore = wall + 60_000 }
        try pass(59_000, simulation)
        #expect(simulation.starts.count == 3)
        try pass(2_000, simulation)
        #expect(simulation.starts.suffix(2) == added[...])
        simulation.restart()
        simulation.goOnline()
        try pass(Self.hour + 700_000, simulation, step: 30_000)
        #expect(simulation.context.store.counts.totals.queued == 0)
        #expect(Set(simulation.starts).count == 605)
    }
}
