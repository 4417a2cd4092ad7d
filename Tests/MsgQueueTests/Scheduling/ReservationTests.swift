import Testing

@testable import MsgQueue

/// Attempts that are reserved before their common commit, and withdrawn if the store rejects it.
@Suite struct ReservationTests {
    /// Reserves the attempt that starts next.
    private func reserve(_ simulation: EngineSimulation) throws -> Core.Reservation? {
        try simulation.settle(starts: 0)
        let now = simulation.now
        let queued = Int64(simulation.queued.count)
        guard case .start(let conversation, let sequence, let hand) = simulation.scheduler.next(now, queued: queued),
            case .start(let start) = simulation.core.admit(simulation.row(sequence), sequence, conversation, hand, now),
            simulation.core.canWithdraw(start)
        else { return nil }
        return simulation.core.reserve(start)
    }

    @Test(arguments: [Mode.auto, .manual], [1, 2, 3])
    func A10_withdrawn_attempts_start_again_in_the_same_order(mode: Mode, count: Int) throws {
        let simulation = try EngineSimulation(mode, direct: false, maxInFlight: 3)
        simulation.preload(["ana", "ana", "ben", "eva", "ben"])
        if mode == .manual { simulation.drain() }
        var reserved: [Core.Reservation] = []
        for _ in 0..<count { reserved.append(try #require(try reserve(simulation))) }
        #expect(reserved.map(\.start.flight.sequence) == Array([1, 3, 4].prefix(count)))
        for reservation in reserved.reversed() { simulation.core.withdraw(reservation, simulation.now) }
        #expect(simulation.flights.isEmpty)
        try simulation.run()
        #expect(simulation.starts.sorted() == [1, 2, 3, 4, 5])
        #expect(simulation.starts.prefix(3) == [1, 3, 4])
        #expect(simulation.queued.isEmpty)
    }

    @Test func F2_a_withdrawn_attempt_does_not_count_as_a_turn() throws {
        let simulation = try EngineSimulation(.auto, direct: false, maxInFlight: 3)
        simulation.enqueue("ana")
        simulation.enqueue("ben") { $0.priority = 5 }
        let turns = simulation.scheduler.chooser.turns
        let reservation = try #require(try reserve(simulation))
        #expect(reservation.start.flight.sequence == 2)
        #expect(simulation.scheduler.chooser.turns != turns, "the oldest message was passed over")
        simulation.core.withdraw(reservation, simulation.now)
        #expect(simulation.scheduler.chooser.turns == turns)
        try simulation.run()
        #expect(simulation.starts == [2, 1])
    }

    @Test func M12_a_withdrawn_attempt_uses_up_no_part_of_a_batch() throws {
        let simulation = try EngineSimulation(.manual, direct: false, maxInFlight: 3)
        simulation.preload(["ana", "ben", "eva"])
        simulation.drain(batch: 2)
        let reservation = try #require(try reserve(simulation))
        simulation.core.withdraw(reservation, simulation.now)
        try simulation.run()
        #expect(simulation.starts == [1, 2])
    }

    @Test func M8_a_withdrawn_attempt_uses_up_nothing_of_the_automatic_batch() throws {
        let simulation = try EngineSimulation(.auto, direct: false, maxInFlight: 3) { $0.drainBatch = 2 }
        simulation.preload(["ana", "ben", "eva"])
        let reservation = try #require(try reserve(simulation))
        simulation.core.withdraw(reservation, simulation.now)
        try simulation.run()
        #expect(simulation.starts == [1, 2])
    }

    @Test func A10_a_message_sent_directly_starts_again_without_a_drain() throws {
        let simulation = try EngineSimulation(.manual, direct: true, maxInFlight: 3)
        simulation.goOnline()
        simulation.enqueue("ana")
        let reservation = try #require(try reserve(simulation))
        simulation.core.withdraw(reservation, simulation.now)
        try simulation.run()
        #expect(simulation.starts == [1])
    }

    @Test func Q16_a_revoked_attempt_starts_again_and_counts_nowhere() throws {
        let simulation = try EngineSimulation(.auto, direct: false, maxInFlight: 3)
        simulation.preload(["ana", "ben"])
        let start = try #require(try reserve(simulation)).start
        _ = simulation.core.began(start)
        #expect(simulation.core.statistics.snapshot(simulation.now).attempts == 1)
        _ = simulation.core.scheduler.gate.flights.countTimeout(of: start.flight.token, from: simulation.now.mono + 50)
        let deadline = try #require(simulation.flights.first).deadline
        #expect(deadline == start.flight.deadline + 50)
        let effects = simulation.core.revoked(start, simulation.now)
        #expect(effects.count == 1 && simulation.core.revoked(start, simulation.now).isEmpty)
        #expect(simulation.core.statistics.snapshot(simulation.now).attempts == 0)
        try simulation.run()
        #expect(simulation.starts.sorted() == [1, 2])
    }

    @Test func Q16_calls_that_wait_are_made_only_while_their_messages_may_be_sent() throws {
        let simulation = try EngineSimulation(.auto, direct: false, maxInFlight: 3)
        simulation.preload(["ana", "ben"])
        let flight = try #require(try reserve(simulation)).start.flight
        func mayCall() -> Bool { simulation.scheduler.gate.mayCall(flight, simulation.now) }
        #expect(mayCall())
        simulation.pause("ben")
        #expect(mayCall())
        simulation.pause("ana")
        #expect(!mayCall())
        simulation.resume("ana")
        #expect(mayCall())
        simulation.pause()
        #expect(!mayCall())
        simulation.resume()
        simulation.goOffline()
        #expect(!mayCall())
    }

    /// Its call may still be made, so that the rate counts it all the time.
    @Test func Q7_an_attempt_that_times_out_before_its_call_counts_against_the_rate() throws {
        let simulation = try EngineSimulation(.auto, direct: false, maxInFlight: 3) {
            ($0.ratePerSecond, $0.rateBurst, $0.attemptTimeout) = (0.001, 1, 1_000)
        }
        simulation.preload(["ana", "ben"])
        simulation.advance(1_100_000)
        let start = try #require(try reserve(simulation)).start
        _ = simulation.core.began(start)
        func isOpen() -> Bool { simulation.core.scheduler.flights.pace?.isOpen(at: simulation.now.mono) ?? true }
        #expect(!isOpen())
        simulation.advance(2_000)
        _ = simulation.core.timedOut(start.flight.token, simulation.now, random: 0)
        #expect(!isOpen())
        simulation.core.called(start, at: simulation.now.mono)
        #expect(!isOpen())
        simulation.core.scheduler.callReturned(start.flight.token, simulation.now)
        #expect(!isOpen())
        simulation.advance(1_001_000)
        #expect(isOpen())
    }
}
