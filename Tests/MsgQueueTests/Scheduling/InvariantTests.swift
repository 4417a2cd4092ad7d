import Testing

@testable import MsgQueue

/// The random simulations check the invariants after each step. Here each of them is broken.
@Suite struct InvariantTests {
    private func sending() throws -> Core {
        let simulation = try EngineSimulation(.auto)
        simulation.preload(["ana", "ana", "ana", "ben"])
        simulation.answersInCall = true
        try simulation.settle()
        #expect(simulation.inFlight == [1])
        return simulation.core
    }

    @Test(arguments: 1...10) func a_broken_invariant_is_found(number: Int) throws {
        var core = try sending()
        #expect(core.brokenInvariant == nil)
        let flight = try #require(core.scheduler.flights.values.first)
        switch number {
        case 1: core.rowsInFlight = [:]
        case 2: core.scheduler.prompt.phase = .raised
        case 3: core.scheduler.lanes[flight.conversation] = nil
        case 4: core.scheduler.gate.flights[flight.token]?.batch = 77
        case 5:
            core.scheduler.gate.drains.pending = [
                DrainQueue.Session(number: 1, conversation: nil, deadline: nil, batch: 0, includesFailed: false)
            ]
        case 6: core.scheduler.gate.pauses.removals["ben"] = Pauses.Removal(isPausedAfterwards: true)
        case 7:
            let entry = ManualRequests.Entry(conversation: "ben", sequence: 4, hand: .sendNow)
            core.scheduler.requests.entries = [entry, entry]
        case 8: core.scheduler.lanes["ana"]?.upcoming.reverse()
        case 9: core.scheduler.lanes["ana"]?.last = 1
        default:
            let next = core.scheduler.lanes["ana"]?.upcoming ?? []
            core.scheduler.lanes["ana"]?.deferred = next
        }
        let broken = try #require(core.brokenInvariant)
        #expect(broken.hasPrefix("INV-\(number): "), "\(broken)")
    }
}
