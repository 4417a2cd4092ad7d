import MsgQueue
import MsgQueueSimulation
import Testing

/// The simulation kit through its public interface.
@Suite struct SimulationTests {
    private let options = MessageQueue.Options(mode: .auto)

    @Test func X10_time_is_virtual_and_delays_are_exact() throws {
        let simulation = try Simulation(options: options) { _, _ in .answer(.http(503), after: .milliseconds(100)) }
        let id = try simulation.enqueue("hello")
        #expect(simulation.nextEvent == .zero || simulation.nextEvent == nil, "nothing has run yet")
        try simulation.run(until: .seconds(86_400))
        let report = simulation.report
        #expect(report.time == .seconds(86_400) && simulation.wallTime.secondsSince1970 == 1_700_000_000 + 86_400)
        // Each delay begins at the answer before.
        #expect(report.attempts.map(\.startedAt) == [.zero, .milliseconds(5_100), .milliseconds(35_200), .milliseconds(155_300)])
        #expect(report.attempts.map(\.number) == [1, 2, 3, 4] && report.wastedAttempts == 4)
        #expect(report.statuses == [id: .failed] && report.counts.failed == 1)
        #expect(report.accepted.isEmpty && report.lost.isEmpty && report.sentTwice.isEmpty)
    }

    @Test func X10_connectivity_is_scripted() throws {
        let simulation = try Simulation(options: options) { _, _ in .answer(.sent, after: .milliseconds(10)) }
        simulation.setConnectivity(.offline)
        simulation.setConnectivity(.online, at: .seconds(60))
        for text in ["a", "b", "c"] { try simulation.enqueue(text, conversation: "ana", id: text) }
        try simulation.run(until: .seconds(60))
        #expect(simulation.report.attempts.isEmpty && simulation.report.counts.queued == 3)
        #expect(simulation.nextEvent == .milliseconds(60_500), "the connection has to last")
        try simulation.run(until: .seconds(61))
        #expect(simulation.report.accepted == ["ana": ["a", "b", "c"]])
        #expect(simulation.report.attempts.map(\.startedAt) == [60_500, 60_510, 60_520].map { .milliseconds($0) })
    }

    @Test func X10_a_lost_answer_sends_twice_under_the_same_id() throws {
        let simulation = try Simulation(options: options) { delivery, _ in
            delivery.attempt == 1 ? .noAnswer(accepted: true) : .answer(.sent)
        }
        let id = try simulation.enqueue("hello", conversation: "ana")
        try simulation.run(until: .seconds(60))
        let report = simulation.report
        #expect(report.sentTwice == [id] && report.accepted == ["ana": [id]])
        #expect(report.attempts.map(\.startedAt) == [.zero, .seconds(35)], "after the time-out and the first delay")
        #expect(report.attempts[0].outcome == nil && report.attempts[1].outcome == .sent)
        #expect(report.statuses[id] == .sent)
    }

    @Test func Q23_a_drain_includes_the_failed_messages() throws {
        var manual = MessageQueue.Options(mode: .manual)
        manual.direct = false
        let simulation = try Simulation(options: manual) { delivery, _ in delivery.attempt == 1 ? .answer(.reject()) : .answer(.sent) }
        let ids = try simulation.enqueue([MessageQueue.Draft("a", conversation: "ana"), MessageQueue.Draft("b", conversation: "ben")])
        try simulation.drain()
        try simulation.run(until: .seconds(10))
        #expect(ids.map { simulation.status(of: $0) } == [.failed, .failed])
        try simulation.drain()
        try simulation.drain(conversation: "ana", includeFailed: true)
        try simulation.run(until: .seconds(20))
        #expect(ids.map { simulation.status(of: $0) } == [.sent, .failed])
        #expect(simulation.report.drains.map(\.putBack) == [0, 0, 1] && simulation.report.drains.last?.sent == 1)
    }

    @Test func X10_a_late_success_counts() throws {
        let simulation = try Simulation(options: options) { _, _ in .answer(.sent, after: .seconds(32)) }
        let id = try simulation.enqueue("hello")
        try simulation.run(until: .seconds(31))
        #expect(simulation.status(of: id) == .queued)
        try simulation.run(until: .seconds(33))
        #expect(simulation.status(of: id) == .sent && simulation.report.attempts.count == 1)
    }

    @Test func X10_drains_prompts_and_calls_on_demand_behave_as_in_the_queue() throws {
        var manual = MessageQueue.Options(mode: .manual)
        manual.direct = false
        let simulation = try Simulation(options: manual) { delivery, _ in delivery.text == "bad" ? .answer(.reject()) : .answer(.sent) }
        let ids = try simulation.enqueue([
            MessageQueue.Draft("good"), MessageQueue.Draft("bad", conversation: "ben"), MessageQueue.Draft("left", conversation: "cem"),
        ])
        try simulation.run(until: .seconds(10))
        #expect(simulation.report.attempts.isEmpty)
        try simulation.drain(batch: 2)
        try simulation.run(until: .seconds(20))
        #expect(simulation.report.drains.map(\.stop) == [.batch])
        #expect(simulation.report.drains.first?.sent == 1 && simulation.report.drains.first?.failed == 1)
        #expect(ids.map { simulation.status(of: $0) } == [.sent, .failed, .queued])
        try simulation.sendNow(ids[2])
        simulation.transport = { _, _ in .answer(.sent) }
        #expect(try simulation.retryAll() == 1)
        try simulation.run(until: .seconds(30))
        #expect(simulation.report.counts.sent == 3)
        #expect(throws: MessageQueue.Error.self) { try simulation.retry(ids[0]) }
        #expect(throws: MessageQueue.Error.self) { try simulation.enqueue("x", id: ids[0]) }

        let ask = try Simulation(options: MessageQueue.Options(mode: .ask)) { _, _ in .answer(.sent) }
        ask.setConnectivity(.offline)
        try ask.enqueue("hello")
        ask.setConnectivity(.online, at: .seconds(5))
        ask.at(.seconds(7)) { try $0.drain() }
        try ask.run(until: .seconds(6))
        #expect(ask.report.prompts == 1 && ask.report.counts.queued == 1)
        try ask.run(until: .seconds(8))
        #expect(ask.report.drains.map(\.stop) == [.empty] && ask.report.counts.sent == 1)
    }

    @Test func X10_expiry_and_not_before_follow_virtual_time() throws {
        let simulation = try Simulation(options: MessageQueue.Options(mode: .manual)) { _, _ in .answer(.sent) }
        simulation.setConnectivity(.offline)
        let start = simulation.wallTime
        let short = try simulation.enqueue(MessageQueue.Draft("short", expiresAt: start + .seconds(10)))
        let later = try simulation.enqueue(MessageQueue.Draft("later", conversation: "ben", notBefore: start + .seconds(60)))
        try simulation.run(until: .seconds(9))
        #expect(simulation.status(of: short) == .queued)
        try simulation.run(until: .seconds(10))
        #expect(simulation.status(of: short) == .failed)
        simulation.setConnectivity(.online)
        try simulation.drain()
        try simulation.run(until: .seconds(59))
        #expect(simulation.status(of: later) == .queued)
    }

    @Test func X10_bad_input_is_refused() throws {
        var wrong = MessageQueue.Options()
        wrong.jitter = 2
        #expect(throws: MessageQueue.Error.self) { try Simulation(options: wrong) }
        let simulation = try Simulation()
        for draft in [
            MessageQueue.Draft("x", id: ""), MessageQueue.Draft("x", conversation: "a\u{1}"),
            MessageQueue.Draft("x", notBefore: .init(millisecondsSince1970: -1)),
        ] {
            #expect(throws: MessageQueue.Error.self) { try simulation.enqueue(draft) }
        }
        #expect(throws: MessageQueue.Error.self) {
            try simulation.enqueue([MessageQueue.Draft("x", id: "1"), MessageQueue.Draft("y", id: "1")])
        }
        #expect(throws: MessageQueue.Error.self) { try simulation.drain() }
        #expect(throws: MessageQueue.Error.self) { try simulation.retryAll() }
        #expect(throws: MessageQueue.Error.self) { try simulation.delete("none") }
        try simulation.run(until: .seconds(-5))
        #expect(simulation.time == .zero && simulation.report.statuses.isEmpty && simulation.nextEvent == nil)
    }

    @Test func X10_an_action_that_throws_ends_the_run_there() throws {
        struct Stop: Error {}
        let simulation = try Simulation { _, _ in .answer(.sent) }
        simulation.at(.seconds(3)) { _ in throw Stop() }
        #expect(throws: Stop.self) { try simulation.run(until: .seconds(10)) }
        #expect(simulation.time == .seconds(3))
        try simulation.run(until: .seconds(10))
        #expect(simulation.time == .seconds(10))
    }

    // MARK: Crashes

    @Test func X10_a_crash_at_any_write_loses_nothing_and_keeps_the_order() throws {
        func play(_ point: Simulation.CrashPoint?) throws -> Simulation.Report {
            let simulation = try Simulation(options: options) { delivery, _ in
                delivery.text == "b" && delivery.attempt == 1 ? .answer(.http(503), after: .milliseconds(20)) : .answer(.sent)
            }
            if let point { simulation.crash(at: point) }
            for text in ["a", "b", "c", "d"] {
                do throws(QueueError) { try simulation.enqueue(text, conversation: "ana", id: text) } catch {
                    #expect(error.code == .unknown)
                    // Whether it is in the store is not known; the same id may be enqueued again.
                    if simulation.status(of: text) == nil { try simulation.enqueue(text, conversation: "ana", id: text) }
                }
            }
            try simulation.run(until: .seconds(3_600))
            return simulation.report
        }
        let smooth = try play(nil)
        #expect(smooth.crashes == 0 && smooth.sentTwice.isEmpty && smooth.writes >= 10)
        var sentTwice = 0
        for write in 1...smooth.writes {
            for isOnDisk in [false, true] {
                let report = try play(.write(write, isOnDisk: isOnDisk))
                let what = "a crash at write \(write)\(isOnDisk ? ", on disk" : "")"
                #expect(report.crashes == 1, "\(what)")
                #expect(report.accepted == ["ana": ["a", "b", "c", "d"]] && report.overtaking.isEmpty, "\(what)")
                #expect(report.counts.sent == 4 && report.lost.isEmpty, "\(what)")
                #expect(report.sentTwice.count <= 1, "\(what)")
                sentTwice += report.sentTwice.count
            }
        }
        #expect(sentTwice > 0, "an attempt whose outcome was not on disk is made again")
    }

    @Test func X10_a_crash_during_an_attempt_interrupts_it() throws {
        let simulation = try Simulation(options: options) { _, _ in .answer(.sent, after: .seconds(2)) }
        let id = try simulation.enqueue("hello")
        simulation.crash(at: .time(.seconds(1)))
        try simulation.run(until: .seconds(10))
        let report = simulation.report
        #expect(report.crashes == 1 && report.attempts.map(\.number) == [1, 2] && report.sentTwice == [id])
        #expect(report.attempts[0].endedAt == nil && report.attempts[1].endedAt == .seconds(3))

        var held = options
        held.holdInterrupted = true
        let other = try Simulation(options: held) { _, _ in .answer(.sent, after: .seconds(2)) }
        let kept = try other.enqueue("hello")
        other.crash(at: .time(.seconds(1)))
        try other.run(until: .seconds(10))
        #expect(other.status(of: kept) == .failed && other.report.sentTwice.isEmpty)
    }
}
