import Testing

@testable import MsgQueue

/// The indexes of queued messages are compared in steps, while messages are added and removed.
@Suite struct QueuedComparisonTests {
    private func filled(_ count: Int) throws -> StoreBench {
        let bench = try StoreBench()
        try bench.transaction { _ in
            for number in 0..<count { _ = try bench.insert(Name("c\(number % 7)")) }
        }
        bench.close()
        try bench.reopen()
        return bench
    }

    /// Runs all steps, with `change` between them; false: the indexes differ.
    private func compare(_ store: Store, _ change: () throws -> Void = {}) throws -> (fits: Bool, steps: Int) {
        var steps = 0
        while !store.checks.areIndexesCompared {
            steps += 1
            guard store.checks.compareIndexes() == nil else { return (false, steps) }
            try change()
        }
        return (true, steps)
    }

    @Test func D10_consistent_indexes_are_compared_once_in_short_steps() throws {
        let bench = try filled(9_000)
        let result = try compare(bench.store)
        #expect(result.fits)
        // Two indexes, 2,000 entries at a time; the conversations and their index in the last step or after it.
        #expect((10...12).contains(result.steps), "\(result.steps)")
        #expect(bench.store.checks.compareIndexes() == nil, "nothing is left to compare")
    }

    @Test func F9_the_comparison_gives_way_to_those_who_change_the_store() throws {
        var passes: [Int] = []
        for isInUse in [false, true] {
            let bench = try EngineBench { ($0.mode, $0.direct) = (.manual, false) }
            try Array("hello".utf8).withUnsafeBytes { body in
                let draft = BorrowedDraft(
                    id: nil, conversation: "ana", body: body, metadata: [], notBefore: 0, expiresAt: 0, unmeteredOnly: false)
                _ = try bench.engine.enqueue(DraftBatch(count: 9_000) { places in places.map { _ in draft } })
            }
            try bench.reopen()
            var count = 0
            while count < 1_000, try !bench.withStore({ $0.checks.areIndexesCompared }) {
                if isInUse { try bench.enqueue() }
                try bench.pass(5)
                count += 1
            }
            passes.append(count)
        }
        #expect(passes[0] <= 20 && (40..<1_000).contains(passes[1]), "\(passes)")
    }

    @Test func F8_D10_a_step_does_not_read_a_long_conversation_from_its_start() throws {
        let bench = try StoreBench()
        try bench.transaction { _ in for _ in 0..<30_000 { _ = try bench.insert("ana") } }
        bench.close()
        try bench.reopen()
        var steps: [Int] = []
        while !bench.store.checks.areIndexesCompared {
            var fits = false
            steps.append(DatabaseWork.count(bench.store) { fits = bench.store.checks.compareIndexes() == nil })
            #expect(fits)
        }
        #expect(steps.count > 20)
        #expect(try #require(steps.max()) < 2 * steps[0], "\(steps)")
    }

    @Test(arguments: 1...8)
    func D10_changes_between_the_steps_are_not_reported_as_damage(seed: UInt64) throws {
        let bench = try filled(9_000)
        var random = SeededGenerator(seed)
        let result = try compare(bench.store) {
            for _ in 0..<40 {
                let sequence = Int64(random.next() % 9_000) + 1
                guard let row = try bench.row(sequence, .none) else { continue }
                do {
                    try bench.transaction { store in
                        switch random.next() % 4 {
                        case 0: try store.messages.delete(row)
                        case 1: _ = try bench.insert(Name("c\(sequence % 9)"))
                        case 2:
                            var progress = row.progress
                            progress.status = row.progress.status == .queued ? .failed : .queued
                            try store.messages.update(row, to: progress)
                        default:
                            try store.messages.delete(row)
                            throw QueueError(.busy, "rolled back")
                        }
                    }
                } catch let error as QueueError where error.code == .busy {}
            }
            try bench.store.foldNow()
        }
        #expect(result.fits)
        #expect(result.steps > 5)
    }

    @Test(arguments: ["message_ordered", "message_waiting"])
    func D10_a_message_missing_in_one_index_is_detected(index: String) throws {
        let bench = try filled(9_000)
        bench.close()
        do {
            let plain = try PlainDatabase(bench.directory.store)
            let indexes = "type = 'index' AND tbl_name = 'message'"
            for sql in [
                "PRAGMA writable_schema = 1", "CREATE TEMP TABLE kept AS SELECT * FROM sqlite_schema WHERE \(indexes)",
                "DELETE FROM sqlite_schema WHERE \(indexes) AND name <> '\(index)'", "PRAGMA writable_schema = RESET",
                "UPDATE message SET status = 2 WHERE seq = 4321", "PRAGMA writable_schema = 1",
                "DELETE FROM sqlite_schema WHERE \(indexes)", "PRAGMA writable_schema = RESET",
                "UPDATE message SET status = 0 WHERE seq = 4321", "PRAGMA writable_schema = 1",
                "INSERT INTO sqlite_schema SELECT * FROM kept", "PRAGMA writable_schema = RESET",
            ] { try plain.rows(sql) }
        }
        try bench.reopen()
        if bench.store.repair == nil { #expect(try !compare(bench.store).fits) }
        #expect(bench.store.rebuildIndexes())
        #expect(try bench.store.queue.queued(after: 4320, limit: 1).first?.head.sequence == 4321)
    }
}
