import MsgQueue
import MsgQueueSimulation
import Testing

/// Many clients of one receiver. The table of the documentation is compared by `Tests/check_simulation.py`, with 10,000 of them.
@Suite struct FleetTests {
    private func recover(jitter: Double, seed: UInt64 = 0) throws -> Fleet.Report {
        var options = MessageQueue.Options(mode: .auto)
        options.jitter = jitter
        return try Fleet(clients: 500, options: options, receiver: .init(capacity: 10, backlog: 20)).recover(seed: seed)
    }

    @Test func X10_only_jitter_spreads_clients_that_reconnect_together() throws {
        let together = try recover(jitter: 0)
        #expect(together.peak == 500 && together.attempts == together.sent + together.wasted)
        #expect(together.sent < 100 && together.failed == 500 - together.sent, "each wave arrives at once")
        #expect(together.drained != nil)
        let spread = try recover(jitter: 0.5)
        #expect(spread.sent > 400 && spread.wasted < together.wasted)
        #expect(spread.sent + spread.failed == 500)
        #expect(try recover(jitter: 0.5) == spread, "the same seed")
        #expect(try recover(jitter: 0.5, seed: 1_000_000) != spread)
    }

    @Test func F3_F4_a_rate_and_a_ramp_spread_the_messages_of_each_client() throws {
        func recover(_ rate: Double?, ramp: Duration? = nil) throws -> Fleet.Report {
            var options = MessageQueue.Options(mode: .auto)
            (options.jitter, options.ratePerSecond, options.rampUp) = (0.2, rate, ramp)
            return try Fleet(clients: 200, messages: 5, options: options, receiver: .init(capacity: 100, backlog: 20)).recover()
        }
        let free = try recover(nil)
        let limited = try recover(1)
        let ramped = try recover(10, ramp: .seconds(20))
        #expect(limited.peak <= 200 && free.peak > 2 * limited.peak && ramped.peak < free.peak)
        #expect(limited.sent + limited.failed == 1_000 && ramped.sent + ramped.failed == 1_000)
    }

    @Test func X10_a_receiver_with_enough_capacity_is_used_at_its_capacity() throws {
        let report = try Fleet(clients: 100, messages: 3, receiver: .init(capacity: 10, backlog: 1_000, latency: .zero)).recover()
        #expect(report.sent == 300 && report.wasted == 0 && report.failed == 0)
        // The connection has to last for online_debounce, half a second.
        #expect(report.lastSent == .milliseconds(30_500) && report.drained == report.lastSent)
    }

    @Test func X10_numbers_out_of_range_are_refused() {
        #expect(throws: MessageQueue.Error.self) { try Fleet(clients: 0, receiver: .init(capacity: 1, backlog: 1)).recover() }
        #expect(throws: MessageQueue.Error.self) { try Fleet(clients: 1, receiver: .init(capacity: 0, backlog: 1)).recover() }
        #expect(throws: MessageQueue.Error.self) { try Fleet(clients: 1, messages: -1, receiver: .init(capacity: 1, backlog: 1)).recover() }
    }
}
