import Testing

@testable import MsgQueue

/// The steps in which many messages are deleted: between two of them other calls run.
@Suite struct RemovalTests {
    private func enqueue(_ bench: EngineBench, _ bodies: [Int]) throws {
        let draft = BorrowedDraft(
            id: nil, conversation: "ana", body: UnsafeRawBufferPointer(start: nil, count: 0), metadata: [], notBefore: 0, expiresAt: 0,
            unmeteredOnly: false)
        try [UInt8](repeating: 120, count: bodies.reduce(0, +)).withUnsafeBytes { bytes in
            try bodies.withUnsafeBufferPointer { sizes in _ = try bench.engine.enqueue(bytes, sizes: sizes, like: draft) }
        }
    }

    /// Deletes the conversation and returns how many messages each step deleted.
    private func steps(_ bench: EngineBench) throws -> [Int64] {
        var removal = Removals.Removal(.conversation("ana"))
        var steps: [Int64] = []
        var hasMore = true
        while hasMore {
            let before = removal.count
            hasMore = try bench.engine.changing { () throws(QueueError) in try bench.engine.removals.step(&removal) }
            steps.append(removal.count - before)
        }
        return steps
    }

    @Test func H13_a_step_deletes_at_most_64_messages() throws {
        let bench = try EngineBench { $0.mode = .manual }
        try enqueue(bench, Array(repeating: 10, count: 1000))
        let steps = try steps(bench)
        #expect(steps.reduce(0, +) == 1000 && steps.allSatisfy { $0 <= 64 })
        #expect(try bench.engine.counts(nil).queued == 0)
    }

    @Test func H13_a_step_ends_after_256_KiB_of_bodies() throws {
        let bench = try EngineBench { $0.mode = .manual }
        try enqueue(bench, Array(repeating: 100 << 10, count: 20))
        let steps = try steps(bench)
        #expect(steps.reduce(0, +) == 20 && steps.allSatisfy { $0 <= 3 })
    }
}
