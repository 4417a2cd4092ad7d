import Testing

@testable import MsgQueue

/// The counts that every change updates, compared with a recount.
@Suite struct CountsTests {
    private func recount(_ bench: StoreBench) throws -> [String: Counts] {
        var counts: [String: Counts] = [:]
        let rows = try bench.rows("SELECT hex(conversation), status, count(*), sum(body_size) FROM message GROUP BY conversation, status")
        for row in rows {
            let numbers = row.dropFirst().map { $0.flatMap { Int64($0) } ?? -1 }
            let status = try #require(MessageStatus(rawValue: Int32(numbers[0])))
            counts[row[0] ?? "", default: Counts()].add(status, amount: numbers[1], bytes: numbers[2])
        }
        return counts
    }

    private func hex(_ name: Name) -> String {
        name.text.utf8.map { ($0 < 16 ? "0" : "") + String($0, radix: 16, uppercase: true) }.joined()
    }

    private func check(_ bench: StoreBench, _ names: [Name], _ what: String) throws {
        let expected = try recount(bench)
        let total = expected.values.reduce(Counts(), +)
        #expect(bench.store.counts.totals == total, "\(what)")
        for name in names {
            #expect(try bench.store.counts.counts(of: name) == expected[hex(name)] ?? Counts(), "\(what), \(name.text)")
        }
    }

    private struct ChangedMind: Error {}

    @Test(arguments: 1...12)
    func Q2_counts_equal_a_recount_after_random_changes(seed: UInt64) throws {
        var random = SeededGenerator(seed)
        let bench = try StoreBench()
        // Two of them look the same but have other bytes.
        let names: [Name] = ["", "ana", "ben", "caf\u{e9}", "cafe\u{301}"]
        for step in 0..<60 {
            let isKept = random.chance(75)
            do {
                try bench.transaction { store in
                    for _ in 0..<random.int(1...5) { try change(bench, store, names, &random) }
                    if !isKept { throw ChangedMind() }
                }
            } catch is ChangedMind {}
            if random.chance(20) { try bench.store.foldNow() }
            if random.chance(8) { try bench.reopen(clean: random.chance(50)) }
            try check(bench, names, "seed \(seed), step \(step)")
        }
    }

    private func change(_ bench: StoreBench, _ store: Store, _ names: [Name], _ random: inout SeededGenerator) throws {
        let sequences = try bench.rows("SELECT seq FROM message").compactMap { $0[0].flatMap { Int64($0) } }
        guard random.chance(55), !sequences.isEmpty, let row = try store.messages.row(at: random.pick(sequences), .outline) else {
            _ = try bench.insert(random.pick(names), random.bytes(random.pick([0, 1, 100, 1_024, 1_025, 3_000])))
            return
        }
        switch random.int(0...9) {
        case 0..<5:
            var progress = row.progress
            let statuses: [MessageStatus] = [.queued, .sent, .delivered, .read, .failed]
            progress.status = random.pick(statuses.filter { $0 == row.progress.status || StatusRule.allows(row.progress.status, $0) })
            progress.attempts += 1
            try store.messages.update(row, to: progress)
        case 5..<7: try store.messages.delete(row)
        case 7: if row.progress.status.isUnsent { try replace(row, random.bytes(random.int(0...2_000)), store) }
        case 8: _ = try store.deleteUnsent(of: random.chance(80) ? random.pick(names) : nil)
        default: if random.chance(50) { try store.foldNow() } else { try store.outcomes.markDamaged(row.sequence) }
        }
    }

    private func replace(_ row: Row, _ body: [UInt8], _ store: Store) throws {
        try body.withUnsafeBytes { try store.messages.replaceContent(of: row, by: MessageChange(body: $0), now: 7) }
    }

    @Test func Q2_a_rollback_across_a_fold_leaves_the_counts_as_they_were() throws {
        let bench = try StoreBench()
        for _ in 0..<4 { try bench.add("ana", [1]) }
        #expect(throws: ChangedMind.self) {
            try bench.transaction { store in
                _ = try bench.insert("ana", [1, 2])
                try store.foldNow()
                _ = try bench.insert("ana", [1, 2, 3])
                let row = try #require(try store.messages.row(at: 1, .none))
                try store.messages.delete(row)
                throw ChangedMind()
            }
        }
        try check(bench, ["ana"], "after the rollback")
        #expect(bench.store.counts.totals.queued == 4)
        try bench.store.foldNow()
        try check(bench, ["ana"], "after the next fold")
        try bench.add("ana")
        try bench.reopen(clean: false)
        try check(bench, ["ana"], "after a crash")
    }

    @Test func Q17_names_that_look_equal_are_counted_and_cleared_separately() throws {
        let bench = try StoreBench()
        let (composed, decomposed): (Name, Name) = ("caf\u{e9}", "cafe\u{301}")
        try bench.add(composed, [1])
        try bench.add(decomposed, [1, 2])
        #expect(try bench.store.counts.counts(of: composed).unsentBytes == 1)
        #expect(try bench.store.counts.counts(of: decomposed).unsentBytes == 2)
        let removed = try bench.transaction { try $0.deleteUnsent(of: composed) }
        #expect(removed == 1)
        #expect(try bench.store.queue.queued(after: 0, limit: 9).map(\.conversation) == [decomposed])
    }

    @Test func Q17_clear_keeps_sent_messages_and_those_being_sent() throws {
        let bench = try StoreBench()
        for _ in 0..<600 { try bench.add("ana") }
        try bench.transaction { store in
            try store.attempts.begin(attempt: 1, of: 5, at: 1)
            let row = try #require(try store.messages.row(at: 6, .none))
            var progress = row.progress
            progress.status = .sent
            try store.messages.update(row, to: progress)
        }
        let removed = try bench.transaction { try $0.deleteUnsent(of: nil) }
        #expect(removed == 598)
        #expect(try bench.rows("SELECT seq FROM message ORDER BY seq") == [["5"], ["6"]])
        try check(bench, ["ana"], "cleared")
    }

    /// The sums that an opening after a crash computes keep one name, not all of them.
    @Test func F9_names_that_are_not_in_order_are_found_by_their_neighbours() throws {
        let bench = try StoreBench()
        let statement = try Statement("SELECT column1 FROM (VALUES (''), ('a'), ('ab'), ('b'), ('b'), ('a'), ('é'))", bench.store.database)
        defer { statement.finalize() }
        var last: [UInt8]?
        var answers: [Bool] = []
        try statement.forEach { () throws(QueueError) in
            answers.append(statement.follows(0, &last))
            return true
        }
        #expect(answers == [true, true, true, true, false, false, true])
        #expect(last == Array("é".utf8))
    }

    @Test func F9_the_counts_of_many_conversations_are_summed_after_a_crash() throws {
        let bench = try StoreBench()
        try bench.transaction { _ in for number in 0..<3_000 { _ = try bench.insert(Name("c\(number)"), [1, 2]) } }
        try bench.store.foldNow()
        try bench.reopen(clean: false)
        #expect(bench.store.counts.totals.queued == 3_000 && bench.store.counts.totals.unsentBytes == 6_000)
        #expect(try bench.store.differences() == [])
    }
}
