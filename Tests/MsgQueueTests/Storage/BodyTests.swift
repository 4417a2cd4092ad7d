import Testing

@testable import MsgQueue

/// Bodies of up to 1 KiB are stored in their row, larger ones in another table.
@Suite struct BodyTests {
    private func bytes(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) } }

    private func edit(_ bench: StoreBench, _ body: [UInt8]) throws {
        let row = try #require(try bench.row(1, .none))
        try bench.transaction { store in
            try body.withUnsafeBytes { try store.messages.replaceContent(of: row, by: MessageChange(body: $0), now: 5) }
        }
    }

    @Test(arguments: [0, 1, 1_023, 1_024, 1_025, 4_096, 65_536, 1 << 20])
    func M1_bodies_of_every_size_are_kept(size: Int) throws {
        let bench = try StoreBench()
        try bench.add("ana", bytes(size))
        for clean in [true, false] {
            #expect(try bench.row(1)?.body == bytes(size))
            #expect(bench.store.counts.totals.unsentBytes == Int64(size))
            try bench.reopen(clean: clean)
        }
        #expect(try bench.rows("SELECT count(*) FROM large_body") == [[size > 1_024 ? "1" : "0"]])
    }

    @Test func Q6_an_edit_across_the_size_limit_leaves_no_row_and_keeps_the_place() throws {
        let bench = try StoreBench()
        try bench.add("ana", bytes(10))
        try bench.add("ana", bytes(20))
        let id = try #require(try bench.row(1)).id
        for (index, size) in [5_000, 10, 1_025, 1_024, 0, 3_000, 2_000, 1].enumerated() {
            try edit(bench, bytes(size))
            let row = try #require(try bench.row(1))
            #expect(row.body == bytes(size))
            #expect(row.id == id)
            #expect(row.editedAt == 5 + Int64(index))
            #expect(try bench.rows("SELECT count(*) FROM large_body") == [[size > 1_024 ? "1" : "0"]])
            #expect(bench.store.counts.totals.unsentBytes == Int64(size) + 20)
            #expect(try bench.store.queue.queued(after: 0, limit: 9).map(\.head.sequence) == [1, 2])
        }
        try bench.reopen(clean: false)
        #expect(try bench.row(1)?.body == bytes(1))
        #expect(bench.store.counts.totals.unsentBytes == 21)
    }

    @Test func R4_a_deleted_message_leaves_no_row() throws {
        let bench = try StoreBench()
        let row = try bench.add("ana", bytes(5_000), id: "mine")
        try bench.transaction { store in
            try store.attempts.begin(attempt: 1, of: 1, at: 1)
            let line = Attempt(
                number: 1, startedAt: 1, duration: 1, result: .retry, kind: .server, code: 1, text: "secret", arrival: .perhaps)
            try store.outcomes.write(line, of: 1)
        }
        try bench.transaction { try $0.messages.delete(row) }
        for table in ["message", "large_body", "attempt", "in_flight"] {
            #expect(try bench.rows("SELECT count(*) FROM \(table)") == [["0"]], "\(table)")
        }
        #expect(try bench.store.messages.sequence(of: "mine") == nil)
    }
}
