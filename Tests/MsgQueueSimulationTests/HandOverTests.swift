import Testing

@testable import MsgQueue
@testable import MsgQueueSimulation

/// A host that hands messages over from rows of its own, and whose process ends at each commit of the queue.
@Suite struct HandOverTests {
    /// What becomes of the messages that the queue has when the process has ended.
    struct Fate: Sendable, CustomTestStringConvertible {
        let testDescription: String
        var reply: Simulation.Reply?
        var change: @Sendable (inout MessageQueue.Options) -> Void = { _ in }
        var happen: @Sendable (Simulation, [String]) throws -> Void = { _, _ in }
    }

    private static let fates = [
        Fate(testDescription: "queued"),
        Fate(testDescription: "sending", reply: .noAnswer()),
        Fate(testDescription: "sent", reply: .answer(.sent, after: .milliseconds(10))),
        Fate(testDescription: "pruned", reply: .answer(.sent, after: .milliseconds(10)), change: { $0.keepSent = 0 }),
        Fate(testDescription: "failed", reply: .answer(.reject(), after: .milliseconds(10))),
        Fate(testDescription: "discarded", reply: .answer(.reject(), after: .milliseconds(10)), change: { $0.refused = .discard }),
        Fate(testDescription: "deleted", happen: { simulation, ids in for id in ids { try simulation.delete(id) } }),
        Fate(testDescription: "cleared", happen: { simulation, _ in try simulation.clear() }),
        Fate(
            testDescription: "replaced",
            happen: { simulation, ids in
                for id in ids {
                    try simulation.enqueue([MessageQueue.Draft("newer", conversation: "ana", id: "new \(id)", replaceKey: id)])
                }
            }),
    ]
    private static let all = (1...5).map { "m\($0)" }

    /// Takes over up to two rows. Returns how many.
    private func collect(_ rows: inout [String], _ simulation: Simulation) throws(QueueError) -> Int {
        let look = try simulation.calling { engine throws(QueueError) in try HandOverCalls(engine).handedOver(by: "host") }
        rows.removeAll { id in look.entries.contains { $0.id == id && $0.refusal == nil } }
        try simulation.calling { engine throws(QueueError) in try HandOverCalls(engine).end(look) }
        let drafts = rows.prefix(2).map { MessageQueue.Draft("body of \($0)", conversation: "ana", id: $0, replaceKey: $0) }
        let errors = try simulation.calling { engine throws(QueueError) in
            try MessageQueue.Draft.withBorrowed(drafts) { batch throws(QueueError) in
                try HandOverCalls(engine).takeOver(look, count: batch.count) { index throws(QueueError) in
                    HandedDraft(try batch.draft(at: index))
                }
            }
        }
        for (draft, error) in zip(drafts, errors) where error == nil || error?.code == .duplicate { rows.removeAll { $0 == draft.id } }
        try simulation.calling { engine throws(QueueError) in try HandOverCalls(engine).end(look) }
        return drafts.count
    }

    private func present(_ simulation: Simulation) -> Set<String> { Set(Self.all.filter { simulation.status(of: $0) != nil }) }

    @Test(arguments: fates, [false, true])
    func T3_a_crash_at_each_commit_takes_each_message_over_once(fate: Fate, isOnDisk: Bool) throws {
        var number = 1
        while try crashes(at: number, isOnDisk, fate) { number += 1 }
        #expect(number > 5)
    }

    /// Returns whether the process ended while messages were taken over.
    private func crashes(at number: Int, _ isOnDisk: Bool, _ fate: Fate) throws -> Bool {
        var options = MessageQueue.Options(mode: .auto)
        options.rememberIDs = .zero
        fate.change(&options)
        let simulation = try Simulation(options: options)
        var rows = Self.all
        simulation.crash(at: .write(simulation.disk.commits + number, isOnDisk: isOnDisk))
        do throws(QueueError) { while try collect(&rows, simulation) > 0 {} } catch {
            guard error.code == .unknown else { throw error }
        }
        let hasCrashed = simulation.report.crashes > 0
        simulation.disk.fate = { _, _ in .stored }
        let before = present(simulation)
        if let reply = fate.reply { simulation.transport = { _, _ in reply } }
        try simulation.run(until: .seconds(2))
        try fate.happen(simulation, before.sorted())
        let between = present(simulation)
        simulation.transport = nil
        while try collect(&rows, simulation) > 0 {}
        // What the process that ended had stored is what the fate made of it; the rest is there now.
        let expected = between.union(Set(Self.all).subtracting(before))
        #expect(rows.isEmpty && present(simulation) == expected, "commit \(number): \(before) \(between) \(present(simulation))")
        let left = try simulation.calling { engine throws(QueueError) in try HandOverCalls(engine).handedOver(by: "host").entries }
        #expect(left.isEmpty)
        return hasCrashed
    }
}
