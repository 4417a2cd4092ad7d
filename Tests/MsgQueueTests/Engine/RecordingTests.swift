import Testing

@testable import MsgQueue

/// Batches of recorded messages and of receipts in virtual time.
@Suite struct RecordingTests {
    /// Drafts with ids "r<number>", of which every third is one's own.
    private func batch(_ numbers: Range<Int>, time: Int64 = 0, named: Bool = true) -> DraftBatch {
        DraftBatch(count: numbers.count) { places in
            places.map { place in
                let number = numbers.lowerBound + place
                var draft = BorrowedDraft(
                    id: named ? "r\(number)" : nil, conversation: "ana", body: UnsafeRawBufferPointer(start: nil, count: 0), metadata: [],
                    notBefore: 7, expiresAt: 5, unmeteredOnly: true, replaceKey: "k", priority: 999,
                    time: time == 0 ? 0 : time + Int64(number))
                draft.sender = number % 3 == 0 ? nil : "Ana"
                return draft
            }
        }
    }

    private func ids(_ bench: EngineBench, _ statuses: StatusSet = .all) throws -> [String] {
        try bench.engine.list(Filter(statuses: statuses, limit: 1000)).map(\.id)
    }

    @Test(arguments: [5, 63, 64, 65, 600])
    func H12_what_is_derived_agrees_after_a_batch(count: Int) throws {
        for time: Int64 in [0, 1_600_000_000_000] {
            let bench = try EngineBench()
            try bench.enqueue(id: "m")
            _ = try HistoryCalls(bench.engine).record(batch(0..<count, time: time))
            let store = bench.engine.context.store
            #expect(store.state.unfoldedRows == (count < MessageInsertion.bulkThreshold ? Int64(count) + 1 : 0))
            let counts = try bench.engine.counts("ana")
            #expect(counts.sent == Int64((count + 2) / 3) && counts.received == Int64(count) - counts.sent)
            #expect(counts.unread == counts.received)
            let sent = try ids(bench, StatusSet(.sent))
            #expect(sent == stride(from: 0, to: count, by: 3).map { "r\($0)" })
            try bench.reopen()
            #expect(bench.engine.context.store.repair == nil)
            #expect(try bench.engine.counts("ana") == counts)
            #expect(try ids(bench, StatusSet(.sent)) == sent)
        }
    }

    @Test func H12_generated_ids_are_those_of_the_events() throws {
        let bench = try EngineBench()
        _ = try HistoryCalls(bench.engine).record(batch(0..<100, named: false))
        try bench.poll()
        let stored = try ids(bench)
        #expect(stored.count == 100 && Set(stored).count == 100)
        let reported = bench.events.compactMap { event -> String? in
            if case .status(let change) = event, change.from == nil { change.id } else { nil }
        }
        #expect(reported == stored)
    }

    @Test func H12_ones_own_recorded_messages_age_from_their_recording() throws {
        let bench = try EngineBench { $0.keepSentFor = 1_000_000 }
        bench.clock.advance(5_000)
        // They were sent long ago.
        _ = try HistoryCalls(bench.engine).record(batch(0..<2, time: 1_600_000_000_000))
        bench.clock.advance(900_000)
        try bench.reportClock()
        #expect(try ids(bench) == ["r0", "r1"])
        bench.clock.advance(200_000)
        for _ in 0..<3 { try bench.reportClock() }
        // The other one is not read.
        #expect(try ids(bench) == ["r1"])
    }

    @Test func H12_one_receipt_has_one_time() throws {
        let bench = try EngineBench()
        _ = try HistoryCalls(bench.engine).record(batch(0..<4))
        bench.clock.advance(7_000)
        let now = bench.clock.wall
        let errors = try HistoryCalls(bench.engine).mark(["r0", "r1", "r3", "none"], as: .read)
        #expect(errors.map { $0?.code } == [nil, nil, nil, .notFound])
        for id in ["r0", "r1", "r3"] { #expect(try bench.engine.message(id: id).readAt == now) }
        bench.clock.advance(7_000)
        #expect(try HistoryCalls(bench.engine).mark(upTo: "r2", as: .read) == 1)
        #expect(try bench.engine.message(id: "r1").readAt == now)
        #expect(try bench.engine.message(id: "r2").readAt == now + 7_000)
    }

    @Test func H12_ids_that_occur_twice_are_found() {
        var ids = RepeatedIDs(capacity: 4)
        let given = ["a", "b", "a", "\u{e9}", "e\u{301}"]
        for id in given { ids.note(id) }
        let isRepeated = ids.search()
        #expect(isRepeated)
        var found: [Bool] = []
        for id in given { found.append(ids.isRepeated(id)) }
        #expect(found == [false, false, true, false, false])
        var none = RepeatedIDs(capacity: 0)
        let isAnyRepeated = none.search()
        #expect(!isAnyRepeated)
    }
}
