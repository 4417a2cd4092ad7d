import Testing

@testable import MsgQueue
@testable import MsgQueueSimulation

/// The feed of changes of processes that end at a commit: what is stored and what the feed says of it never differ.
@Suite struct ChangeFeedTests {
    /// Follows the feed across processes, from one token to the next.
    private final class Follower {
        private var token: ChangeToken?
        /// The last change of each message.
        private var last: [String: StoredChange] = [:]
        /// All of a message, for the texts of failures.
        private var history: [String: String] = [:]
        private(set) var count: Int64 = 0
        private(set) var sent: [String: Int] = [:]

        /// Reads the next changes. Returns whether there were some.
        private func follow(_ simulation: Simulation, _ place: String) throws(QueueError) -> Bool {
            let page = try simulation.calling { engine throws(QueueError) in try engine.changes(after: token, limit: 100) }
            for change in page.changes {
                count += 1
                #expect(change.token.position == count, "\(place): a gap or a repeat")
                let before = last.updateValue(change, forKey: change.id)
                history[change.id, default: ""] += " \(change.at):\(change.kind)-\(change.status)-\(change.failure)-\(change.code)"
                if change.kind == .status {
                    // A message that somebody wants to send now, while offline, stays queued with that failure.
                    let isNew = before?.kind != .status || before?.status != change.status || change.failure != .none
                    #expect(isNew, "\(place): \(change.id) is \(change.status) twice:\(history[change.id] ?? "")")
                    if change.status == .sent { sent[change.id, default: 0] += 1 }
                } else {
                    #expect(before?.kind == .status, "\(place): \(change.id) is gone, but it was not there")
                }
            }
            token = page.next
            return !page.changes.isEmpty
        }

        /// Reads what is new, and compares the last change of each message with the store.
        func check(_ simulation: Simulation, _ place: String) throws {
            var statuses: [String: MessageStatus] = [:]
            while true {
                do throws(QueueError) {
                    while try follow(simulation, place) {}
                    statuses = simulation.report.statuses
                    // The process may have ended in between, and the next one has changed statuses.
                    if try !follow(simulation, place) { break }
                } catch { guard error.code == .unknown || error.code == .storage else { throw error } }
            }
            let present = last.values.filter { $0.kind == .status }
            #expect(statuses == Dictionary(uniqueKeysWithValues: present.map { ($0.id, $0.status) }), "\(place)")
        }
    }

    @Test(arguments: RandomSimulationTests.seeds(usually: 30))
    func T7_random_crashes_leave_a_change_for_each_status_that_is_stored(seed: UInt64) throws {
        let follower = Follower()
        var random = SeededGenerator(seed: seed &+ 90_000)
        var played: Simulation?
        var script = RandomScript(seed: seed)
        script.keepsChanges = true
        let run = try script.play { simulation in
            played = simulation
            for _ in 0..<100 {
                simulation.at(.milliseconds(Int64.random(in: 0...3_600_000, using: &random))) { try follower.check($0, "seed \(seed)") }
            }
        }
        RandomSimulationTests.check(run, seed)
        let simulation = try #require(played)
        try follower.check(simulation, "seed \(seed), at the end")
        #expect(follower.count > 0 || run.messages.isEmpty)
        for (id, status) in run.report.statuses where status == .sent { #expect(follower.sent[id] == 1, "seed \(seed): \(id)") }
    }

    /// A small host, whose process ends at each of its commits, before and after the commit was stored.
    @Test(arguments: [false, true])
    func T7_a_crash_at_each_commit_leaves_a_change_for_each_status_that_is_stored(isOnDisk: Bool) throws {
        var number = 1
        while try crashes(at: number, isOnDisk: isOnDisk) { number += 1 }
        #expect(number > 15)
    }

    /// Returns whether the process ended.
    private func crashes(at number: Int, isOnDisk: Bool) throws -> Bool {
        var options = MessageQueue.Options(mode: .auto, backoff: .ladder([.seconds(2)]))
        (options.keepChanges, options.maxInFlight) = (1_000, 2)
        let simulation = try Simulation(seed: 1, options: options) { delivery, _ in
            switch delivery.text {
            case "bad": .answer(.reject(), after: .milliseconds(200))
            case "late" where delivery.attempt == 1: .answer(.http(503), after: .milliseconds(200))
            default: .answer(.sent, after: .milliseconds(200))
            }
        }
        let (follower, place) = (Follower(), "commit \(number)")
        simulation.crash(at: .write(simulation.disk.commits + number, isOnDisk: isOnDisk))
        func attempt(_ body: () throws -> Void) throws {
            do { try body() } catch let error as MessageQueue.Error {
                guard [.unknown, .notFound, .busy, .conflict, .duplicate].contains(error.code) else { throw error }
            }
            try follower.check(simulation, place)
        }
        func enqueue(_ texts: [String], key: String? = nil) throws {
            try attempt {
                try simulation.enqueue(
                    texts.map { MessageQueue.Draft($0, conversation: $0 == "late" ? "ben" : "ana", id: $0, replaceKey: key) })
            }
        }
        try enqueue(["good", "bad", "late"])
        for step in 1...10 {
            try simulation.run(until: .milliseconds(Int64(step * 100)))
            try follower.check(simulation, place)
        }
        try attempt { try simulation.retry("bad") }
        try simulation.run(until: .seconds(10))
        simulation.setConnectivity(.offline)
        try enqueue(["old"], key: "k")
        try enqueue(["new"], key: "k")
        try enqueue(["other", "third"])
        try attempt { try simulation.delete("other") }
        try attempt { try simulation.clear(conversation: "ana") }
        simulation.setConnectivity(.online)
        try simulation.run(until: .seconds(20))
        try follower.check(simulation, place)
        return simulation.report.crashes > 0
    }
}
