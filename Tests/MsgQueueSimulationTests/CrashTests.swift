import MsgQueue
import Testing

@testable import MsgQueueSimulation

/// Processes that end at a commit, of every kind that the engine makes.
///
/// Each seed is played twice: without a crash, to learn what each of its commits writes, and with crashes at commits of those kinds that had
/// the fewest crashes so far. A kind is the set of tables that a commit changed, and how.
@Suite struct CrashTests {
    private static let seeds = RandomSimulationTests.seeds(usually: 200)

    /// How many seeds made commits of a kind, and how many crashes it had before it was stored and after.
    private struct Kind {
        var seeds = 0
        var (before, after) = (0, 0)

        /// Whether it must have had a crash on both sides.
        var isCovered: Bool { seeds < 4 || before > 0 && after > 0 }
    }

    private static func name(_ writes: Set<SimulatedDisk.Write>) -> String {
        writes.isEmpty ? "tables without row numbers" : writes.map { "\($0.operation) \($0.table)" }.sorted().joined(separator: ", ")
    }

    @Test func X16_a_crash_at_every_kind_of_write_loses_nothing_and_keeps_the_order() throws {
        var kinds: [String: Kind] = [:]
        for seed in Self.seeds {
            var written: [String] = []
            _ = try RandomScript(seed: seed, crashes: .none).play { simulation in
                simulation.disk.fate = { _, writes in
                    written.append(Self.name(writes))
                    return .stored
                }
            }
            for kind in Set(written) { kinds[kind, default: Kind()].seeds += 1 }
            let places = Self.places(in: written, kinds)
            var left = Dictionary(places.map { ($0.number, $0.isStored) }, uniquingKeysWith: { first, _ in first })
            let run = try RandomScript(seed: seed, crashes: .none).play { simulation in
                simulation.disk.fate = { number, writes in
                    guard let isStored = left.removeValue(forKey: number) else { return .stored }
                    if isStored {
                        kinds[Self.name(writes), default: Kind()].after += 1
                    } else {
                        kinds[Self.name(writes), default: Kind()].before += 1
                    }
                    return .crash(isStored: isStored)
                }
            }
            #expect(run.report.crashes == places.count - left.count)
            RandomSimulationTests.check(run, seed)
        }
        print("Crashes before and after each kind of write:")
        for (name, kind) in kinds.sorted(by: { $0.key < $1.key }) { print("  \(kind.before), \(kind.after): \(name)") }
        #expect(kinds.filter { !$0.value.isCovered }.keys.sorted() == [], "kinds without a crash on both sides")
    }

    @Test func X16_refused_commits_lose_nothing_and_keep_the_order() throws {
        var refused = 0
        for seed in Self.seeds where seed % 4 == 1 {
            var random = SeededGenerator(seed: seed &+ 70_000)
            let run = try RandomScript(seed: seed, crashes: .none).play { simulation in
                simulation.disk.fate = { [unowned simulation] _, _ in
                    guard simulation.time < .seconds(3_600), Int.random(in: 0..<12, using: &random) == 0 else { return .stored }
                    refused += 1
                    return .refused
                }
            }
            RandomSimulationTests.check(run, seed)
        }
        #expect(refused > 0 || !Self.seeds.contains { $0 % 4 == 1 })
    }

    /// The process ends when the removal of a message is stored, the next one while it recovers the other message.
    @Test func X16_a_message_that_was_discarded_before_two_crashes_is_not_reported_as_lost() throws {
        func simulation(_ crashes: [Simulation.CrashPoint]) throws -> Simulation {
            var options = MessageQueue.Options(mode: .auto)
            (options.maxInFlight, options.maxRetries, options.exhausted) = (2, 0, .discard)
            let simulation = try Simulation(options: options) { delivery, _ in
                delivery.text == "bad" ? .answer(.retry(), after: .seconds(1)) : .answer(.sent, after: .seconds(2))
            }
            for crash in crashes { simulation.crash(at: crash) }
            try simulation.enqueue([MessageQueue.Draft("bad", conversation: "ana"), MessageQueue.Draft("good", conversation: "ben")])
            try simulation.run(until: .milliseconds(999))
            return simulation
        }
        let writes = try simulation([]).report.writes
        let crashed = try simulation([.write(writes + 1, isOnDisk: true), .write(writes + 2)])
        #expect(crashed.report.attempts.count == 2)
        try crashed.run(until: .seconds(60))
        #expect(crashed.report.crashes == 2 && crashed.report.lost.isEmpty)
        #expect(Array(crashed.report.statuses.values) == [.sent])
    }

    @Test func Q12_an_outcome_that_the_store_refused_is_written_without_another_event() throws {
        let simulation = try Simulation(options: MessageQueue.Options(mode: .manual)) { _, _ in .noAnswer() }
        let id = try simulation.enqueue("hello")
        try simulation.run(until: .seconds(29))
        let next = simulation.disk.commits + 1
        simulation.disk.fate = { number, _ in number == next ? .refused : .stored }
        try simulation.run(until: .seconds(31))
        #expect(simulation.disk.commits > next && simulation.status(of: id) == .failed)
    }

    /// The outcome of the second attempt is not stored when that of the first one arrives.
    @Test func X8_a_late_success_after_a_refused_commit_is_counted_once() throws {
        let simulation = try Simulation(options: MessageQueue.Options(mode: .auto, backoff: .ladder([.seconds(5)]))) { delivery, _ in
            .answer(.sent, after: delivery.attempt == 1 ? .milliseconds(36_100) : .seconds(1))
        }
        try simulation.enqueue("hello")
        try simulation.run(until: .milliseconds(35_999))
        let next = simulation.disk.commits + 1
        simulation.disk.fate = { number, _ in number == next ? .refused : .stored }
        try simulation.run(until: .seconds(60))
        #expect(simulation.report.attempts.count == 2 && simulation.disk.commits > next)
        #expect(simulation.report.counts.queued == 0 && simulation.report.counts.sent == 1)
    }

    /// It is being sent when it is cleared, so that the recovery deletes it.
    @Test func X16_a_message_that_was_cleared_before_a_crash_is_not_reported_as_lost() throws {
        let simulation = try Simulation { _, _ in .noAnswer() }
        let id = try simulation.enqueue("hello")
        try simulation.run(until: .seconds(1))
        try simulation.clear()
        #expect(simulation.status(of: id) == .sending)
        simulation.crash()
        #expect(simulation.status(of: id) == nil && simulation.report.lost.isEmpty)
    }

    /// The first commit of the kind with the fewest crashes, and up to two after it.
    private static func places(in written: [String], _ kinds: [String: Kind]) -> [(number: Int, isStored: Bool)] {
        func rank(_ name: String) -> (Int, Int, String) {
            let kind = kinds[name] ?? Kind()
            return (min(kind.before, kind.after), kind.seeds, name)
        }
        func place(_ name: String, after first: Int) -> (number: Int, isStored: Bool)? {
            let kind = kinds[name] ?? Kind()
            guard let index = written[first...].firstIndex(of: name) else { return nil }
            return (index + 1, kind.after < kind.before)
        }
        let names = Set(written).sorted { rank($0) < rank($1) }
        guard let name = names.first, let first = place(name, after: 0) else { return [] }
        return [first] + names.dropFirst().lazy.compactMap { place($0, after: first.number) }.prefix(2)
    }
}
