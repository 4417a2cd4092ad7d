import Testing

@testable import MsgQueue

@Suite struct LedgerTests {
    private func line(_ number: UInt32, _ text: String = "") -> Attempt {
        Attempt(
            number: number, startedAt: Int64(number) * 10, duration: number % 2 == 0 ? nil : 7, result: .retry, kind: .network,
            code: -5, text: text, arrival: .perhaps)
    }

    @Test func X2_attempts_are_kept_in_order_across_a_reopen() throws {
        let bench = try StoreBench()
        let row = try bench.add()
        try bench.transaction { store in for number in 1...5 { try store.outcomes.write(line(UInt32(number)), of: 1) } }
        try bench.reopen(clean: false)
        #expect(try bench.store.attempts.list(of: row) == (1...5).map { line($0) })
        #expect(try bench.store.attempts.last(of: 1) == line(5))
    }

    @Test func X2_a_success_is_the_last_attempt() throws {
        let bench = try StoreBench()
        let row = try bench.add()
        var progress = row.progress
        progress.status = .sent
        progress.attempts = 2
        progress.lastAttemptAt = 50
        progress.sentAt = 60
        progress.sentDuration = 9
        progress.sentCode = 201
        try bench.transaction { store in
            try store.outcomes.write(line(1), of: 1)
            try store.messages.update(row, to: progress)
        }
        let ledger = try bench.store.attempts.list(of: try #require(try bench.row(1)))
        #expect(ledger.map(\.number) == [1, 2])
        #expect(
            ledger.last
                == Attempt(number: 2, startedAt: 50, duration: 9, result: .sent, kind: .none, code: 201, text: "", arrival: .yes))
    }

    @Test func X2_the_first_the_last_and_the_last_interrupted_attempt_are_kept() throws {
        let bench = try StoreBench()
        let row = try bench.add()
        func interrupted(_ number: UInt32) -> Attempt {
            Attempt(
                number: number, startedAt: 1, duration: nil, result: .unknown, kind: .unknown, code: 0, text: "", arrival: .perhaps)
        }
        try bench.transaction { store in
            for number in UInt32(1)...1_010 {
                try store.outcomes.write([7, 20].contains(number) ? interrupted(number) : line(number), of: 1)
            }
        }
        #expect(try bench.store.attempts.list(of: row).map(\.number) == [1, 2, 3, 4, 20] + Array(951...1_010))
        // A store of an earlier build may have more.
        try bench.transaction { _ in
            _ = try bench.rows(
                "WITH n(n) AS (VALUES(100) UNION ALL SELECT n + 1 FROM n WHERE n < 900) INSERT INTO attempt SELECT 1, n, 0, 0, 2, 0, 0, 0, '' FROM n"
            )
        }
        try bench.transaction { try $0.outcomes.write(line(1_011), of: 1) }
        #expect(try bench.store.attempts.list(of: row).map(\.number) == [1, 2, 3, 4, 20] + Array(952...1_011))
    }

    @Test func X2_F6_rooms_of_the_ledger() {
        #expect(LedgerRule.room(excess: 512 << 10, isDiskFull: false) == .ample)
        #expect(LedgerRule.room(excess: 512 << 10 + 1, isDiskFull: false) == .little)
        #expect(LedgerRule.room(excess: Int64.min, isDiskFull: true) == .little)
        #expect(LedgerRule.room(excess: 768 << 10, isDiskFull: true) == .little)
        #expect(LedgerRule.room(excess: Int64.max, isDiskFull: false) == .none)
        #expect(LedgerRule.removed(before: 64, .little) == nil)
        #expect(LedgerRule.removed(before: 65, .ample) == 5...5)
        #expect(LedgerRule.removed(before: 1, .none) == nil)
        #expect(LedgerRule.removed(before: 9, .none) == 1...8)
    }

    @Test func X2_a_long_text_is_cut() throws {
        let bench = try StoreBench()
        let row = try bench.add()
        try bench.transaction { try $0.outcomes.write(line(1, String(repeating: "x", count: 100_000)), of: 1) }
        // Each of these characters has four bytes.
        try bench.transaction { try $0.outcomes.write(line(2, String(repeating: "🐟", count: 200)), of: 1) }
        #expect(try bench.store.attempts.list(of: row).map(\.text.utf8.count) == [511, 508])
    }
}
