import Testing

@testable import MsgQueue

/// Many messages in one transaction: the same rows, index entries and counts as messages inserted one by one.
@Suite struct BulkInsertionTests {
    private struct Draft {
        let conversation: Name
        let body: [UInt8]
        let id: String?
        let metadata: [(key: String, value: String)]
    }

    private func drafts(_ count: Int, seed: UInt64) -> [Draft] {
        var random = SeededGenerator(seed)
        return (0..<count).map { number in
            Draft(
                conversation: Name(["a", "b", "", "a conversation with a longer name"][random.int(0...3)]),
                body: random.bytes(random.chance(5) ? random.int(1_025...5_000) : random.int(0...300)),
                id: random.chance(8) ? "named-\(number)" : nil, metadata: random.chance(8) ? [("k", "v\(number)")] : [])
        }
    }

    private func insert(_ drafts: [Draft], _ bench: StoreBench) throws -> [Row] {
        // The bodies must stay where they are until the bulk insertion ends.
        let memory = drafts.map { draft in
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: draft.body.count, alignment: 1)
            copy.copyBytes(from: draft.body)
            return copy
        }
        defer { for copy in memory { copy.deallocate() } }
        var rows: [Row] = []
        for (number, draft) in drafts.enumerated() {
            let borrowed = BorrowedDraft(
                id: draft.id, conversation: draft.conversation, body: UnsafeRawBufferPointer(memory[number]), metadata: draft.metadata,
                notBefore: 0, expiresAt: 0, unmeteredOnly: false)
            rows.append(try bench.store.insertion.insert(borrowed, now: bench.now, random: UInt64(number)))
        }
        try bench.store.insertion.endBulk()
        return rows
    }

    private func check(_ bench: StoreBench, _ rows: [Row], _ drafts: [Draft]) throws {
        for (row, draft) in zip(rows, drafts) {
            let found = try #require(try bench.row(row.sequence))
            #expect(found.id == row.id && found.conversation == draft.conversation && found.body == draft.body)
            #expect(try found.metadata().map(\.value) == draft.metadata.map(\.value))
        }
    }

    @Test(arguments: [64, 65, 127, 128, 700])
    func W3_messages_in_bulk_are_stored_like_single_ones(count: Int) throws {
        let drafts = drafts(count, seed: UInt64(count))
        let (bulk, single) = (try StoreBench(), try StoreBench())
        for number in 0..<3 {
            try bulk.add(Name("before-\(number)"))
            try single.add(Name("before-\(number)"))
        }
        var rows: [Row] = []
        try bulk.transaction { store in
            try store.insertion.beginBulk()
            rows = try insert(drafts, bulk)
        }
        for draft in drafts { try single.add(draft.conversation, draft.body, id: draft.id, metadata: draft.metadata) }
        try single.transaction { try $0.counts.fold() }
        try check(bulk, rows, drafts)
        for bench in [bulk, single] {
            #expect(bench.store.counts.totals == single.store.counts.totals)
            #expect(bench.store.state.unfoldedRows == 0)
        }
        let counts = "SELECT * FROM conversation ORDER BY name"
        #expect(try bulk.rows(counts) == single.rows(counts))
        #expect(try bulk.store.queue.queued(after: 0, limit: 2_000).count == count + 3)
        bulk.close(clean: false)
        let report = try MessageQueue.check(path: bulk.directory.store)
        #expect(report.isSound && report.whole == UInt64(count + 3), "\(report.text)")
        try bulk.reopen()
        try check(bulk, rows, drafts)
        #expect(bulk.store.counts.totals == single.store.counts.totals)
    }

    @Test func Q3_nothing_of_a_bulk_insertion_stays_after_an_error() throws {
        struct Refusal: Error {}
        let bench = try StoreBench()
        try bench.add("a", [1])
        let before = (bench.store.counts.totals, bench.store.state.lastSequence)
        #expect(throws: Refusal.self) {
            try bench.transaction { store in
                try store.insertion.beginBulk()
                _ = try insert(drafts(200, seed: 7), bench)
                throw Refusal()
            }
        }
        #expect(bench.store.counts.totals == before.0 && bench.store.state.lastSequence == before.1)
        #expect(try bench.rows("SELECT count(*) FROM message") == [["1"]])
        try bench.add("a", [2])
        #expect(try bench.store.counts.counts(of: "a").queued == 2)
        #expect(try bench.store.queue.queued(after: 0, limit: 10).count == 2)
    }
}
