import Foundation
import MsgQueue
import MsgQueueSimulation
import Testing

/// The example in the documentation, and a test that it is the one below.
@Suite struct ExampleTests {
    @Test func X10_a_host_tests_its_own_retry_policy_and_transport() throws {
        // example
        // The options under test.
        let delays: [Duration] = [.seconds(2), .seconds(10), .seconds(60), .seconds(300), .seconds(900)]
        var options = MessageQueue.Options(mode: .auto, backoff: .ladder(delays))
        options.jitter = 0.2

        // A scripted receiver: unavailable for a minute; after that every tenth reply is lost.
        func send(_ delivery: MessageQueue.Delivery, at time: VirtualTime, _ random: inout SeededGenerator) -> Simulation.Reply {
            if time < .seconds(60) { return .answer(.http(503), after: .milliseconds(200)) }
            if random.fraction() < 0.1 { return .noAnswer(accepted: true) }
            return .answer(.http(200), after: .milliseconds(80))
        }

        var problems: [String] = []
        for seed in 1...100 {
            let simulation = try Simulation(seed: UInt64(seed), options: options)
            simulation.transport = { [unowned simulation] delivery, time in send(delivery, at: time, &simulation.random) }
            for number in 1...20 { try simulation.enqueue("\(number)", conversation: number % 2 == 0 ? "ana" : "ben") }
            simulation.setConnectivity(.offline, at: .seconds(90))
            simulation.setConnectivity(.online, at: .seconds(150))
            simulation.crash(at: .write(simulation.report.writes + seed))
            try simulation.run(until: .seconds(10_800))

            let report = simulation.report
            if !report.lost.isEmpty { problems.append("seed \(seed): lost \(report.lost)") }
            if !report.overtaking.isEmpty { problems.append("seed \(seed): not in order: \(report.overtaking)") }
            if report.counts.sent != 20 { problems.append("seed \(seed): \(report.counts.failed) failed") }
            if report.wastedAttempts > 40 { problems.append("seed \(seed): \(report.wastedAttempts) wasted attempts") }
        }
        print("\(problems.count) problems")
        // end of the example
        #expect(problems.isEmpty)
    }

    @Test func X10_the_documentation_shows_this_example() throws {
        let article = try text("Sources/MsgQueueSimulation/MsgQueueSimulation.docc/MsgQueueSimulation.md")
        let program = try #require(article.components(separatedBy: "```swift\n").dropFirst().first?.components(separatedBy: "```").first)
        let source = try text("Tests/MsgQueueSimulationTests/ExampleTests.swift")
        let between = source.components(separatedBy: "        // example\n").dropFirst().first?.components(separatedBy: "        // end of")
        let indent = String(repeating: " ", count: 8)
        let lines = try #require(between?.first).components(separatedBy: "\n").map { $0.hasPrefix(indent) ? String($0.dropFirst(8)) : $0 }
        #expect(program == "import MsgQueue\nimport MsgQueueSimulation\n\n" + lines.joined(separator: "\n"))
    }

    /// Reads a file of the package: three folders above this file.
    private func text(_ path: String) throws -> String {
        var root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        for _ in 0..<3 { root.deleteLastPathComponent() }
        return try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }
}
