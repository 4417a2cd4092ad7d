import Testing

@testable import MsgQueue

/// A message in the place of another one of its key, below the engine.
@Suite struct StoreReplacingTests {
    private func insert(_ bench: StoreBench, _ key: String?, _ body: [UInt8], replacing old: Row? = nil) throws -> Row {
        try body.withUnsafeBytes { bytes in
            let draft = BorrowedDraft(
                id: nil, conversation: "a", body: bytes, metadata: [], notBefore: 0, expiresAt: 0, unmeteredOnly: false, replaceKey: key)
            guard let old else { return try bench.store.insertion.insert(draft, now: bench.now, random: 7) }
            return try bench.store.messages.replace(old, by: draft, DraftTimes(draft), now: bench.now + 1, random: 8)
        }
    }

    private func replaceable(_ bench: StoreBench, _ row: Row) throws -> Row? {
        try bench.store.messages.replaceable(row.sequence, "k", "a")
    }

    /// Small bodies and those of `large_body`, before and after a fold.
    @Test(arguments: [false, true], [(10, 20), (10, 5_000), (5_000, 10), (5_000, 6_000)])
    func F5_row_counts_and_indexes_are_those_of_the_new_message(isFolded: Bool, sizes: (Int, Int)) throws {
        let bench = try StoreBench()
        try bench.add("a", [1])
        let old = try bench.transaction { _ in try insert(bench, "k", [UInt8](repeating: 1, count: sizes.0)) }
        try bench.transaction { store in
            if isFolded { try store.counts.fold() }
            try store.outcomes.write(
                Attempt(number: 1, startedAt: 1, duration: 1, result: .retry, kind: .server, code: 1, text: "", arrival: .no),
                of: old.sequence)
        }
        try bench.add("a", [2])
        let found = try #require(try replaceable(bench, old))
        let new = try bench.transaction { _ in try insert(bench, "k", [UInt8](repeating: 2, count: sizes.1), replacing: found) }
        #expect(new.sequence == old.sequence && new.id != old.id)
        let row = try #require(try bench.row(new.sequence))
        #expect(row.id == new.id && row.body == [UInt8](repeating: 2, count: sizes.1) && row.replaceKey == "k")
        #expect(try bench.store.queue.queued(withKey: "k", in: "a") == [old.sequence])
        #expect(try bench.store.attempts.last(of: new.sequence) == nil)
        #expect(try !bench.store.messages.contains(old.id) && bench.store.recentIDs.isReceived(old.id, since: 0) == false)
        #expect(bench.store.counts.totals.queued == 3 && bench.store.counts.totals.unsentBytes == Int64(sizes.1 + 2))
        #expect(try bench.store.counts.counts(of: "a") == bench.store.counts.totals)
        #expect(try bench.rows("SELECT count(*) FROM large_body") == [[sizes.1 > 1_024 ? "1" : "0"]])
        bench.close(clean: false)
        let report = try MessageQueue.check(path: bench.directory.store)
        #expect(report.isSound && report.whole == 3, "\(report.text)")
        try bench.reopen()
        #expect(bench.store.counts.totals.queued == 3 && bench.store.counts.totals.unsentBytes == Int64(sizes.1 + 2))
    }

    /// Otherwise a page by time reads past all replaced messages.
    @Test(arguments: [false, true])
    func F5_replaced_messages_bring_the_messages_in_order_to_an_end(isInBulk: Bool) throws {
        let bench = try StoreBench()
        let rows = try bench.transaction { _ in try (0..<100).map { try insert(bench, "k\($0)", [1]) } }
        try bench.store.foldNow()
        try bench.transaction { store in
            if isInBulk { store.insertion.bulk = BulkInsertion() }
            for row in rows.prefix(2) {
                for _ in 0..<3 { _ = try bench.insert("b", [2]) }
                _ = try insert(bench, row.replaceKey, [2], replacing: row)
            }
            try store.insertion.endBulk()
        }
        let plain = try bench.rows("SELECT count(*) FROM message WHERE time_at = 0").first?.first ?? nil
        #expect(plain.flatMap { Int($0) } ?? 99 <= 103 - 2 - 2 * 32)
        #expect(try bench.rows("SELECT 1 FROM message WHERE time_at = 0 AND seq >= \(bench.store.times.plainEnd)") == [])
        let places = try bench.store.pages.page(Filter(limit: 1_000, order: .time), sending: []) { _ in }.map(\.sequence)
        #expect(Set(places) == Set(1...106))
        #expect(try bench.store.differences() == [])
    }

    @Test func F5_a_rollback_restores_the_old_message() throws {
        struct Refusal: Error {}
        let bench = try StoreBench()
        let old = try bench.transaction { _ in try insert(bench, "k", [1, 2, 3]) }
        let before = bench.store.counts.totals
        let found = try #require(try replaceable(bench, old))
        #expect(throws: Refusal.self) {
            try bench.transaction { _ in
                _ = try insert(bench, "k", [4], replacing: found)
                throw Refusal()
            }
        }
        #expect(bench.store.counts.totals == before)
        #expect(try bench.row(old.sequence)?.body == [1, 2, 3])
        #expect(try bench.store.recentIDs.isReceived(old.id, since: 0) == nil)
    }

    @Test func F5_a_damaged_message_is_left() throws {
        let bench = try StoreBench()
        let old = try bench.transaction { _ in try insert(bench, "k", [1, 2, 3]) }
        try bench.transaction { try $0.database.execute("UPDATE message SET body = x'010204'") }
        #expect(try replaceable(bench, old) == nil)
    }

    @Test func F5_a_lookup_uses_the_index_of_keys() throws {
        let bench = try StoreBench()
        let plan = try bench.rows(
            """
            EXPLAIN QUERY PLAN SELECT seq FROM message INDEXED BY message_replace
            WHERE conversation = 'a' AND replace_key = 'k' AND replace_key IS NOT NULL AND status = 0 ORDER BY seq
            """)
        let text = plan.compactMap(\.last).compactMap { $0 }.joined()
        #expect(text.contains("message_replace (conversation=? AND replace_key=?)") && !text.contains("SORT"), "\(text)")
    }
}
