import Testing

@testable import MsgQueue

/// History in virtual time: pruning, and the times of receipts.
@Suite struct HistoryTests {
    private func record(_ id: String, in bench: EngineBench) throws {
        let body = Array("hello".utf8)
        _ = try body.withUnsafeBytes { bytes in
            try bench.engine.record(
                BorrowedDraft(
                    id: id, conversation: "ana", body: bytes, metadata: [], notBefore: 0, expiresAt: 0, unmeteredOnly: false),
                sender: "Ana")
        }
    }

    private func ids(_ bench: EngineBench) throws -> [String] {
        try bench.engine.list(Filter(statuses: .all, limit: 1000)).map(\.id)
    }

    /// Advances the clock and prunes the whole history.
    private func prune(_ bench: EngineBench, after milliseconds: Int64 = 60_000) throws {
        bench.clock.advance(milliseconds)
        for _ in 0..<3 { try bench.reportClock() }
    }

    @Test func H2_H4_recorded_messages_get_into_the_indexes_without_an_enqueue() throws {
        let bench = try EngineBench()
        for number in 0..<2 * Int(Store.foldEvery) + 1 { try record("r\(number)", in: bench) }
        #expect(bench.engine.context.store.state.unfoldedRows == 1)
        #expect(try bench.engine.conversations(before: 0, limit: 9).map(\.counts.unread) == [2 * Store.foldEvery + 1])
        #expect(try ids(bench).count == 1_000)
    }

    @Test func H9_unlimited_history_is_never_pruned() throws {
        let bench = try EngineBench {
            $0.keepSent = nil
            $0.keepSentFor = nil
        }
        for number in 0..<120 {
            try bench.enqueue(id: "m\(number)")
            try record("r\(number)", in: bench)
            try bench.engine.mark("r\(number)", as: .read)
        }
        try bench.poll()
        try prune(bench, after: 100 * 365 * Options.day)
        #expect(try ids(bench).count == 240)
        #expect(try bench.engine.counts(nil).sent == 120)
    }

    @Test func H9_each_limit_works_without_the_other() throws {
        let byCount = try EngineBench {
            $0.keepSent = 3
            $0.keepSentFor = nil
        }
        for number in 0..<5 { try byCount.enqueue(id: "m\(number)") }
        try byCount.poll()
        try prune(byCount, after: 100 * 365 * Options.day)
        #expect(try ids(byCount) == ["m2", "m3", "m4"])

        let byAge = try EngineBench {
            $0.keepSent = nil
            $0.keepSentFor = Options.day
        }
        try byAge.enqueue(id: "old")
        try byAge.poll()
        try byAge.pass(Options.day)
        try byAge.enqueue(id: "new")
        try byAge.poll()
        try prune(byAge)
        #expect(try ids(byAge) == ["new"])
    }

    /// The clock may have been set back since a message was sent.
    @Test func H1_messages_that_are_kept_for_no_time_are_removed_at_any_time() throws {
        let bench = try EngineBench { $0.keepSentFor = 0 }
        try bench.enqueue(id: "m")
        try bench.poll()
        bench.clock.shiftWall(-3_600_000)
        try prune(bench)
        #expect(try ids(bench) == [])
        let before = try EngineBench()
        try before.enqueue(id: "m")
        try before.poll()
        before.clock.shiftWall(-3_600_000)
        try before.reopen { $0.keepSentFor = 0 }
        try prune(before)
        #expect(try ids(before) == [])
    }

    /// While attempts follow one another quickly, what is due at a time does not remove messages, too.
    @Test func H9_F9_excess_messages_are_removed_by_no_further_commit_while_time_passes() throws {
        let bench = try EngineBench {
            $0.mode = .manual
            $0.direct = false
            $0.keepSent = 400
        }
        let store = bench.engine.context.store
        for number in 0..<1_000 { try bench.enqueue("hello", Name("c\(number % 3)")) }
        bench.answer(by: { [clock = bench.clock] _ in
            clock.advance(1)
            return .sent
        })
        let commits = store.commits
        try bench.drain()
        #expect(bench.deliveries.count == 1_000)
        #expect(store.commits - commits <= 2_001)
        #expect(try bench.engine.counts(nil).sent <= 400 + 25 * 3 / 2 + 1)
        try prune(bench, after: 100)
        #expect(try bench.engine.counts(nil).sent == 400)
    }

    /// Messages in excess of the limit are removed by the commits of outcomes, not by further ones.
    @Test(arguments: [0, 1, 32, 100])
    func H9_excess_messages_are_removed_by_the_commits_of_outcomes(limit: Int64) throws {
        let bench = try EngineBench {
            $0.mode = .manual
            $0.direct = false
            $0.keepSent = limit
        }
        let store = bench.engine.context.store
        for number in 0..<200 { try bench.enqueue("hello", Name("c\(number % 3)"), id: number % 2 == 0 ? "m\(number)" : nil) }
        let all = try ids(bench)
        let commits = store.commits
        try bench.drain()
        #expect(bench.deliveries.count == 200)
        // The beginning and the outcome of each attempt, and the fold.
        #expect(store.commits - commits <= 401)
        let kept = Int(limit + min(64, limit / 16))
        #expect(try ids(bench).count <= kept && ids(bench) == Array(all.suffix(ids(bench).count)))
        try prune(bench)
        #expect(try ids(bench) == Array(all.suffix(Int(limit))))
        for session in 0..<2 {
            #expect(try bench.engine.counts(nil).sent == limit)
            #expect(try bench.engine.conversations(before: 0, limit: 10).reduce(0) { $0 + $1.counts.sent } == limit)
            // The removed ids are remembered.
            for number in stride(from: 0, to: 200, by: 2) { #expect(refusal { try bench.enqueue(id: "m\(number)") } == .duplicate) }
            if session == 0 { try bench.reopen() }
        }
        bench.close()
        #expect(try MessageQueue.check(path: bench.directory.store).isSound)
    }

    /// If removing a sent message fails, its outcome is stored all the same, and sending continues.
    @Test(arguments: [0, 1])
    func H9_an_outcome_is_stored_when_nothing_can_be_removed(limit: Int64) throws {
        let bench = try EngineBench {
            $0.mode = .manual
            $0.direct = false
            $0.keepSent = limit
        }
        for number in 0..<6 { try bench.enqueue(id: "m\(number)") }
        try bench.drain(batch: 2)
        for table in ["recent", "recent_own"] {
            try bench.withStore { try $0.database.execute("ALTER TABLE \(table) RENAME TO \(table)_damaged") }
        }
        try bench.drain()
        #expect(bench.texts.count == 6)
        #expect(try bench.engine.counts(nil).sent == 4 + limit && bench.engine.counts(nil).queued == 0)
        #expect(bench.events.contains { if case .storage(.some) = $0 { true } else { false } })
        for table in ["recent", "recent_own"] {
            try bench.withStore { try $0.database.execute("ALTER TABLE \(table)_damaged RENAME TO \(table)") }
        }
        try prune(bench)
        #expect(try ids(bench).count == limit)
        for number in 0..<6 { #expect(refusal { try bench.enqueue(id: "m\(number)") } == .duplicate) }
    }

    @Test func H9_unread_messages_are_kept_and_age_from_when_they_are_read() throws {
        let bench = try EngineBench { $0.keepSentFor = Options.day }
        try record("r1", in: bench)
        try record("r2", in: bench)
        try prune(bench, after: 1_000 * Options.day)
        #expect(try ids(bench) == ["r1", "r2"])
        try bench.engine.mark("r1", as: .read)
        try prune(bench)
        #expect(try ids(bench) == ["r1", "r2"], "the time begins when it is marked as read")
        try prune(bench, after: Options.day)
        #expect(try ids(bench) == ["r2"])
        #expect(try bench.engine.counts(nil).unread == 1)
    }

    @Test func H9_the_times_of_receipts_never_go_back() throws {
        let bench = try EngineBench()
        let id = try bench.enqueue()
        try bench.poll()
        let sentAt = try bench.engine.message(id: id).sentAt
        #expect(try bench.engine.message(id: id).deliveredAt == 0)
        // The clock is set back before each receipt.
        bench.clock.shiftWall(-3_600_000)
        try bench.engine.mark(id, as: .delivered)
        #expect(try bench.engine.message(id: id).deliveredAt == sentAt)
        bench.clock.shiftWall(7_200_000)
        try bench.engine.mark(id, as: .delivered)
        #expect(try bench.engine.message(id: id).deliveredAt == sentAt, "a second receipt changes nothing")
        bench.clock.shiftWall(-7_200_000)
        try bench.engine.mark(id, as: .read)
        let message = try bench.engine.message(id: id)
        #expect((message.sentAt, message.deliveredAt, message.readAt) == (sentAt, sentAt, sentAt))
    }

    @Test func H9_receipts_in_every_order_have_their_times() throws {
        for order: [MessageStatus] in [[.delivered, .read], [.read, .delivered], [.delivered, .delivered, .read, .read, .delivered]] {
            let bench = try EngineBench()
            let id = try bench.enqueue()
            try bench.poll()
            var first: [MessageStatus: Int64] = [:]
            for receipt in order {
                try bench.pass(1_000)
                if first[receipt] == nil { first[receipt] = bench.clock.wall }
                try bench.engine.mark(id, as: receipt)
            }
            let message = try bench.engine.message(id: id)
            #expect(message.status == .read)
            #expect(message.readAt == first[.read])
            #expect(message.deliveredAt == (order.first == .read ? 0 : first[.delivered]))
            try bench.reopen()
            #expect(try bench.engine.message(id: id).readAt == message.readAt)
        }
    }

    @Test func an_idle_queue_wakes_only_for_ids_that_it_remembers() throws {
        let bench = try EngineBench {
            $0.mode = .manual
            $0.keepSentFor = nil
        }
        // The comparison of the indexes and the search for free space take some steps after a change.
        func wait() throws -> Int64? {
            for _ in 0..<100 { try bench.pass(1_000) }
            let deadline = bench.engine.context.lock.withLock { bench.engine.poll?.deadline ?? 0 }
            return deadline == Int64.max ? nil : deadline - bench.clock.ports.mono()
        }
        #expect(try wait() == nil)
        try bench.enqueue("1")
        try bench.drain()
        #expect(try wait() == nil)
        try bench.engine.delete(bench.deliveries[0].id)
        #expect(try (1...60_000).contains(wait() ?? 0))
        // It has forgotten them.
        try bench.reopen { $0.rememberIDs = 0 }
        #expect(try wait() == nil)
    }

    @Test func H9_the_public_api_has_the_times_and_the_retries() async throws {
        let directory = TemporaryDirectory()
        var options = MessageQueue.Options(mode: .manual, backoff: .ladder([.seconds(600)]))
        options.direct = false
        options.keepSent = nil
        options.keepSentFor = nil
        let queue = try MessageQueue(path: directory.store, options: options) { delivery in
            delivery.text == "refused" ? .retry(.server, code: 503) : .sent
        }
        let (sent, refused) = (try queue.enqueue("sent"), try queue.enqueue("refused", conversation: "ben"))
        try await queue.drain()
        try queue.mark(sent, as: .delivered)
        try queue.mark(sent, as: .read)
        let message = try queue.message(id: sent)
        let times = [try #require(message.sentAt), try #require(message.deliveredAt), try #require(message.readAt)]
        #expect(times.sorted() == times)
        #expect(message.retriesUsed == 0)
        #expect(try queue.message(id: refused).retriesUsed == 1)
        try await queue.close()
    }
}
