import Testing

@testable import MsgQueue

/// Pruning by age, and the memory of ids, below the engine.
@Suite struct PruningTests {
    /// Prunes until nothing is due, and returns the number of steps.
    @discardableResult
    private func prune(_ bench: StoreBench, since: Int64, limit: Int = Pruning.limit) throws -> (steps: Int, oldest: Int64?) {
        for steps in 1...1_000 {
            let step = try bench.transaction {
                try $0.pruning.prune(keepCount: nil, keepSince: since, forgetBefore: 0, now: bench.now, limit: limit, damaged: { _ in })
            }
            if case .finished(let oldest) = step { return (steps, oldest) }
        }
        throw QueueError(.internal, "pruning does not end")
    }

    private func send(_ bench: StoreBench, _ row: Row, at time: Int64) throws {
        var progress = row.progress
        progress.status = .sent
        progress.sentAt = time
        try bench.store.messages.update(row, to: progress, from: .sending)
    }

    /// Messages are sent in a random order after random times: those that are due are removed, and no others.
    @Test(arguments: 1...12)
    func H9_every_message_that_is_too_old_is_removed(seed: UInt64) throws {
        let bench = try StoreBench()
        var random = SeededGenerator(seed)
        var sentAt: [Int64: Int64] = [:]
        var queued: [Row] = []
        for _ in 0..<20 {
            try bench.transaction { store in
                for _ in 0..<random.int(0...120) {
                    bench.now += random.int64(0...10)
                    queued.append(try bench.insert("a"))
                }
                if random.int(0...1) == 0 { try store.counts.fold() }
                for _ in 0..<random.int(0...80) where !queued.isEmpty {
                    let row = queued.remove(at: random.int(0...queued.count - 1))
                    bench.now += random.int64(0...10)
                    try send(bench, row, at: bench.now)
                    sentAt[row.sequence] = bench.now
                }
            }
            let since = bench.now - random.int64(0...2_000)
            let (_, oldest) = try prune(bench, since: since, limit: random.int(4...Pruning.limit))
            sentAt = sentAt.filter { $0.value >= since }
            let left = try bench.rows("SELECT seq FROM message WHERE status = 2 ORDER BY seq").compactMap { Int64($0[0] ?? "") }
            #expect(left == sentAt.keys.sorted())
            // The next pruning is not planned too late.
            if let first = sentAt.values.min() { #expect(try #require(oldest) <= first) }
        }
    }

    /// Commits of outcomes may add to those in excess as fast as steps remove them.
    @Test func H9_messages_that_are_too_old_are_removed_before_those_in_excess() throws {
        let bench = try StoreBench()
        let begin = bench.now
        let rows = try bench.transaction { _ in try (0..<20).map { _ in try bench.insert("a") } }
        let last = try #require(rows.last)
        bench.now = begin + 10_000
        try bench.transaction { _ in
            for row in rows { try send(bench, row, at: row.sequence == last.sequence ? begin : bench.now) }
        }
        _ = try bench.transaction {
            try $0.pruning.prune(keepCount: 10, keepSince: begin + 5_000, forgetBefore: 0, now: bench.now, limit: 8, damaged: { _ in })
        }
        let left = try bench.rows("SELECT seq FROM message ORDER BY seq").compactMap { Int64($0[0] ?? "") }
        #expect(!left.contains(last.sequence) && left.count > 10)
    }

    /// Steps of pruning between other changes: in the end the limit holds, and without deletions the newest messages are kept.
    @Test(arguments: 1...12)
    func H9_the_newest_messages_are_kept_whatever_changes_between_the_steps(seed: UInt64) throws {
        let bench = try StoreBench()
        var random = SeededGenerator(seed)
        let keep = random.int64(0...60)
        let deletes = seed % 2 == 0
        func prune(_ limit: Int) throws -> Pruning.Step {
            try bench.transaction {
                try $0.pruning.prune(
                    keepCount: keep, keepSince: seed % 3 == 0 ? 1 : nil, forgetBefore: 0, now: bench.now, limit: limit,
                    damaged: { Issue.record("\($0)") })
            }
        }
        func history() throws -> [Int64] {
            try bench.rows("SELECT seq FROM message WHERE status IN (2, 3, 4) ORDER BY seq").compactMap { Int64($0[0] ?? "") }
        }
        var all: [Int64] = []
        for _ in 0..<30 {
            try bench.transaction { store in
                let rows = try (0..<random.int(0...60)).map { _ in try bench.insert(Name("c\(random.int(0...7))")) }
                if random.int(0...2) > 0 { try store.counts.fold() }
                for row in rows {
                    try send(bench, row, at: bench.now)
                    all.append(row.sequence)
                }
            }
            for _ in 0..<random.int(0...3) { _ = try prune(random.int(1...20)) }
            guard let chosen = try history().randomElement(using: &random) else { continue }
            try bench.transaction { store in
                let row = try #require(try store.messages.row(at: chosen, .none))
                if deletes, random.int(0...1) == 0 { return try store.messages.delete(row) }
                var progress = row.progress
                progress.status = progress.status == .sent ? .delivered : .read
                if row.progress.status != .read { try store.messages.update(row, to: progress) }
            }
            if random.int(0...5) == 0 {
                // What a transaction that is rolled back has removed is still there.
                try bench.store.begin()
                _ = try bench.store.pruning.pruneExcess(keepCount: keep, now: bench.now, limit: 5) { Issue.record("\($0)") }
                bench.store.rollback()
            }
        }
        while try prune(16) == .hasMore {}
        let left = try history()
        if deletes { #expect(left.count <= keep) } else { #expect(left == all.suffix(Int(keep))) }
        #expect(bench.store.counts.totals.history == Int64(left.count))
        try bench.transaction { store in
            try store.history.settle()
            #expect(try store.differences() == [])
            #expect(try store.counts.sum() + store.counts.counters.unfolded.values.reduce(Counts(), +) == store.counts.totals)
        }
    }

    @Test func H9_pruning_does_not_read_queued_messages_or_recent_history() throws {
        let bench = try StoreBench()
        for part in 0..<4 {
            try bench.transaction { store in
                for _ in 0..<500 {
                    let row = try bench.insert("a")
                    if part % 2 == 1 { try send(bench, row, at: bench.now) }
                }
                try store.counts.fold()
            }
        }
        #expect(try prune(bench, since: bench.now - 1_000).steps == 1)
        bench.now += 3_600_000
        #expect(try prune(bench, since: bench.now - 7_200_000).steps == 1)
        #expect(bench.store.counts.totals.sent == 1_000)
    }

    @Test func H2_ids_of_removed_messages_are_remembered_without_loss() throws {
        let bench = try StoreBench()
        let own = MessageID.make(sequence: 7, now: bench.now, random: 0x1234_5678_9abc)
        // Another queue may have made an id with the same sequence number.
        let other = MessageID.make(sequence: 7, now: bench.now, random: 0x1234_5678_9abd)
        let third = MessageID.make(sequence: 7, now: bench.now + 1, random: 0x1234_5678_9abc)
        let names = [own, other, third, "order-7", own.uppercased()]
        try bench.transaction { store in
            for (index, name) in names.enumerated() {
                try store.recentIDs.add(name, of: 7, isReceived: index % 2 == 1, now: 1_000 + Int64(index))
            }
        }
        for (index, name) in names.enumerated() {
            #expect(try bench.store.recentIDs.isReceived(name, since: 1_000 + Int64(index)) == (index % 2 == 1))
            #expect(try bench.store.recentIDs.isReceived(name, since: 1_001 + Int64(index)) == nil)
        }
        let unknown = MessageID.make(sequence: 7, now: bench.now, random: 0x1235_5678_9abc)
        #expect(try bench.store.recentIDs.isReceived(unknown, since: 0) == nil)
        let stored = try bench.rows("SELECT seq, high, low FROM recent_own")
        #expect(stored.count == 1)
        let numbers = stored[0].map { Int64($0 ?? "") ?? 0 }
        #expect(RecentIDs.id(sequence: numbers[0], high: numbers[1], low: numbers[2]) == own)
        // A message with the same id is removed again.
        try bench.transaction { try $0.recentIDs.add(own, of: 7, isReceived: true, now: 5_000) }
        #expect(try bench.store.recentIDs.isReceived(own, since: 5_000) == true)
        while try bench.transaction({ try $0.recentIDs.forget(before: 1_003, limit: 1) }) {}
        for (index, name) in names.enumerated() {
            #expect(try (bench.store.recentIDs.isReceived(name, since: 0) != nil) == (index == 0 || index >= 3), "\(name)")
        }
    }

    /// Ids of this form that the host chose have random numbers in place of the sequence number, and may be forgotten in any order.
    @Test func H2_only_ids_that_the_queue_generated_are_stored_as_numbers() throws {
        let bench = try StoreBench()
        let foreign = MessageID.make(sequence: 123_456_789, now: bench.now, random: 4711)
        try bench.transaction { store in
            for id in [foreign, MessageID.make(sequence: 8, now: bench.now, random: 1)] {
                try store.recentIDs.add(id, of: 8, isReceived: false, now: bench.now)
            }
        }
        #expect(try bench.rows("SELECT id FROM recent") == [[foreign]])
        #expect(try bench.rows("SELECT seq FROM recent_own") == [["8"]])
        #expect(try bench.store.recentIDs.isReceived(foreign, since: 0) == false)
    }

    @Test func H2_damaged_rows_of_the_memory_of_ids_harm_no_others() throws {
        let bench = try StoreBench()
        let own = MessageID.make(sequence: 7, now: bench.now, random: 4711)
        try bench.transaction { try $0.recentIDs.add(own, of: 7, isReceived: false, now: 5_000) }
        _ = try bench.rows(
            """
            INSERT INTO recent_own VALUES(-9223372036854775808, 0, 0, 0), (3, 1, -1, 0), (1099511627775, 3, 9223372036854775807, 5),
            (9223372036854775807, -1, -1, 9223372036854775807)
            """)
        while try bench.transaction({ try $0.recentIDs.forget(before: 1_000, limit: 1) }) {}
        #expect(try bench.store.recentIDs.isReceived(own, since: 5_000) == false)
        try bench.reopen()
        #expect(try bench.store.recentIDs.isReceived(own, since: 5_000) == false)
        bench.close()
        let target = bench.directory.file("salvaged")
        try MessageQueue.salvage(from: bench.directory.store, to: target)
        let store = try Store(path: target, options: Options())
        defer { store.close(clean: true) }
        #expect(try store.recentIDs.isReceived(own, since: 5_000) == false)
    }

    /// Messages that wait long are removed later than those after them.
    @Test func H2_ids_are_forgotten_in_whatever_order_the_messages_were_removed() throws {
        let bench = try StoreBench()
        try bench.transaction { store in
            for number: Int64 in 1...3_000 {
                let goneAt: Int64 = number <= 2_000 && number % 2 == 1 ? 2_000 : 1_000
                try store.recentIDs.add(
                    MessageID.make(sequence: number, now: bench.now, random: 1), of: number, isReceived: false, now: goneAt)
            }
        }
        var calls = 0
        while try bench.rows("SELECT count(*) FROM recent_own") != [["1000"]] {
            _ = try bench.transaction { try $0.recentIDs.forget(before: 2_000, limit: 128) }
            calls += 1
            try #require(calls < 100)
        }
        #expect(try bench.rows("SELECT DISTINCT gone_at FROM recent_own") == [["2000"]])
        let commits = bench.store.commits
        for _ in 0..<10 { #expect(try !bench.transaction { try $0.recentIDs.forget(before: 2_000, limit: 128) }) }
        #expect(bench.store.commits == commits, "a call that forgets nothing changes no file")
    }

    /// Messages whose entries in the index of the history are not written yet are removed, too.
    @Test func H9_the_last_messages_that_were_sent_are_removed_by_their_age() throws {
        let bench = try StoreBench()
        let rows = try bench.transaction { store in
            let rows = try (0..<10).map { _ in try bench.insert("a") }
            try store.counts.fold()
            return rows
        }
        try bench.transaction { store in
            for row in rows {
                try store.attempts.begin(attempt: 1, of: row.sequence, at: bench.now)
                var progress = row.progress
                (progress.status, progress.attempts, progress.sentAt) = (.sent, 1, bench.now)
                try store.outcomes.end(row, Resolution(fate: .sent, progress: progress))
            }
        }
        #expect(bench.store.history.unsettled.count == 10)
        try prune(bench, since: bench.now + 1)
        #expect(bench.store.counts.totals == Counts() && bench.store.history.unsettled.isEmpty)
        for table in ["message", "in_flight", "history", "history_in"] {
            #expect(try bench.rows("SELECT count(*) FROM \(table)") == [["0"]], "\(table)")
        }
    }
}
