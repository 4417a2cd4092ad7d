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
        try bench.transaction { store in for number in 1...5 { try store.write(line(UInt32(number)), of: 1) } }
        try bench.reopen(clean: false)
        #expect(try bench.store.attempts(of: row) == (1...5).map { line($0) })
        #expect(try bench.store.lastAttempt(of: 1) == line(5))
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
            try store.write(line(1), of: 1)
            try store.update(row, to: progress)
        }
        let ledger = try bench.store.attempts(of: try #require(try bench.row(1)))
        #expect(ledger.map(\.number) == [1, 2])
        #expect(
            ledger.last
                == Attempt(number: 2, startedAt: 50, duration: 9, result: .sent, kind: .none, code: 201, text: "", arrival: .yes))
    }

    @Test func X2_beyond_a_thousand_attempts_the_oldest_are_removed() throws {
        let bench = try StoreBench()
        let row = try bench.add()
        try bench.transaction { store in for number in 1...1_010 { try store.write(line(UInt32(number)), of: 1) } }
        #expect(try bench.store.attempts(of: row).map(\.number) == Array(11...1_010))
    }

    @Test func X2_a_long_text_is_cut() throws {
        let bench = try StoreBench()
        let row = try bench.add()
        try bench.transaction { try $0.write(line(1, String(repeating: "x", count: 100_000)), of: 1) }
        #expect(try bench.store.attempts(of: row).first.map { $0.text.count <= 600 } == true)
    }
}
