import Testing

@testable import MsgQueue

/// The sums of the messages that may have to wait, which the store reads in steps and then updates.
@Suite struct UnsentSumsTests {
    /// What the sums must be, from the messages.
    private struct Expected: Equatable {
        var (later, unmetered, failed) = (UnsentSums.Sum(), UnsentSums.Sum(), UnsentSums.Sum())
        var (failedWaiting, retries) = (0, 0)

        init(_ bench: StoreBench, at now: Int64) throws {
            for number in 1...max(bench.store.state.lastSequence, 1) {
                guard let row = try bench.row(number, .none) else { continue }
                let (head, isLater) = (row.head, row.notBefore > now)
                if row.progress.status == .queued {
                    if isLater { later += .init(head) } else if row.unmeteredOnly { unmetered += .init(head) }
                    if !head.due.isNone { retries += 1 }
                } else if row.progress.status == .failed {
                    failed += .init(head)
                    if isLater || row.unmeteredOnly { failedWaiting += 1 }
                }
            }
        }

        init(_ sums: UnsentSums, at now: Int64) {
            (later, unmetered, failed) = (sums.all.later, sums.all.unmetered, sums.all.failed)
            let scheduled = sums.scheduledFailures.values.flatMap(\.values).count { $0.notBefore > now || $0.unmeteredOnly }
            failedWaiting = Int(sums.all.failedUnmetered.messages) + scheduled
            retries = sums.retries.values.reduce(0) { $0 + $1.count }
        }
    }

    private func readAll(_ bench: StoreBench, at now: Int64) throws -> Int {
        var steps = 1
        while try !bench.store.unsentSums.read(at: now) { steps += 1 }
        return steps
    }

    private func check(_ bench: StoreBench, at now: Int64, _ what: String) throws {
        let sums = bench.store.unsentSums.sums
        #expect(Expected(sums, at: now) == (try Expected(bench, at: now)), "\(what)")
        var all = UnsentSums.Part()
        var parts = UnsentSums.Sum()
        for part in sums.parts.values { parts += part.later }
        all = sums.all
        #expect(parts == all.later, "\(what): the sums by conversation")
    }

    /// A message with conditions at random.
    private func insert(_ bench: StoreBench, _ random: inout SeededGenerator, now: Int64) throws -> Row {
        let notBefore = random.next() % 3 == 0 ? now + Int64(random.next() % 9_000) - 3_000 : 0
        return try bench.insert(
            random.next() % 2 == 0 ? "ana" : "ben", [UInt8](repeating: 1, count: Int(random.next() % 90)), notBefore: notBefore,
            unmeteredOnly: random.next() % 4 == 0)
    }

    /// One change of a message at random.
    private func change(_ bench: StoreBench, _ row: Row, _ random: inout SeededGenerator, now: Int64) throws {
        var progress = row.progress
        switch random.next() % 6 {
        case 0: try bench.store.messages.delete(row)
        case 1:
            try [UInt8](repeating: 2, count: 33).withUnsafeBytes {
                try bench.store.messages.replaceContent(of: row, by: MessageChange(body: $0), now: 5)
            }
        case 2:
            progress.due = progress.due.isNone ? Due(at: now + 50, delay: 50) : Due()
            progress.status = .queued
            try bench.store.messages.update(row, to: progress)
        case 3:
            progress.status = row.progress.status == .failed ? .queued : .failed
            progress.endDelay()
            try bench.store.messages.update(row, to: progress)
        case 4: _ = try insert(bench, &random, now: now)
        default:
            progress.status = .failed
            try bench.store.messages.update(row, to: progress)
            throw QueueError(.busy, "rolled back")
        }
    }

    @Test(arguments: 1...6)
    func Q4_Q22_the_sums_follow_every_change_of_a_message(seed: UInt64) throws {
        let bench = try StoreBench()
        var random = SeededGenerator(seed)
        var now = bench.now
        try bench.transaction { store in
            for number in 0..<3_000 {
                let row = try insert(bench, &random, now: now)
                guard number % 4 == 0 else { continue }
                var progress = row.progress
                progress.status = .failed
                try store.messages.update(row, to: progress)
            }
        }
        // Changes between the steps of the first reading.
        for round in 0..<40 {
            let isComplete = try bench.store.unsentSums.read(at: now)
            if isComplete { try check(bench, at: now, "round \(round)") }
            for _ in 0..<20 {
                guard let row = try bench.row(Int64(random.next() % UInt64(bench.store.state.lastSequence)) + 1) else { continue }
                do { try bench.transaction { _ in try change(bench, row, &random, now: now) } } catch let error as QueueError {
                    guard error.code == .busy else { throw error }
                }
            }
            if round % 5 == 4 { now += Int64(random.next() % 2_000) }
            if round == 30 { now -= 1_500 }
        }
        _ = try readAll(bench, at: now)
        try check(bench, at: now, "at the end")
        try bench.transaction { _ = try $0.deleteUnsent(of: "ana") }
        try check(bench, at: now, "cleared")
        #expect(bench.store.unsentSums.sums.parts["ana"] == nil)
        try bench.reopen()
        _ = try readAll(bench, at: now)
        try check(bench, at: now, "opened again")
        #expect(try bench.store.differences() == [])
    }

    @Test func Q22_messages_become_due_in_steps_and_are_scheduled_again_when_the_clock_is_set_back() throws {
        let bench = try StoreBench()
        try bench.transaction { _ in
            for number in 0..<1_200 { _ = try bench.insert("ana", [1], notBefore: bench.now + Int64(number / 600) * 10 + 10) }
        }
        #expect(try readAll(bench, at: bench.now) > 2)
        #expect(bench.store.unsentSums.sums.all.later.messages == 1_200)
        #expect(try bench.store.queue.nextScheduled(after: bench.now) == bench.now + 10)
        #expect(try readAll(bench, at: bench.now + 10) == 2, "600 of them in two steps")
        #expect(bench.store.unsentSums.sums.all.later.messages == 600)
        _ = try readAll(bench, at: bench.now + 25)
        #expect(bench.store.unsentSums.sums.all.later.messages == 0 && bench.store.unsentSums.sums.parts.isEmpty)
        _ = try readAll(bench, at: bench.now + 5)
        #expect(bench.store.unsentSums.sums.all.later.messages == 1_200)
    }
}
