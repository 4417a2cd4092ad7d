import Testing

@testable import MsgQueue

/// The steps in which many messages are deleted: between two of them other calls run.
@Suite struct RemovalTests {
    private func enqueue(_ bench: EngineBench, _ bodies: [Int]) throws {
        let draft = BorrowedDraft(
            id: nil, conversation: "ana", body: UnsafeRawBufferPointer(start: nil, count: 0), metadata: [], notBefore: 0, expiresAt: 0,
            unmeteredOnly: false)
        try [UInt8](repeating: 120, count: bodies.reduce(0, +)).withUnsafeBytes { bytes in
            try bodies.withUnsafeBufferPointer { sizes in _ = try bench.engine.enqueue(bytes, sizes: sizes, like: draft) }
        }
    }

    private func step(_ bench: EngineBench, _ removal: inout Removals.Removal) throws(QueueError) -> Bool {
        try bench.engine.changing { () throws(QueueError) in try bench.engine.removals.step(&removal) }
    }

    /// Deletes messages and returns how many each step deleted.
    private func steps(_ bench: EngineBench, _ target: Removals.Removal.Target = .conversation("ana")) throws -> [Int64] {
        var removal = Removals.Removal(target)
        var steps: [Int64] = []
        var hasMore = true
        while hasMore {
            let before = removal.count
            hasMore = try step(bench, &removal)
            steps.append(removal.count - before)
        }
        return steps
    }

    private func clearedEvents(_ bench: EngineBench) -> Int {
        bench.events.count { if case .cleared = $0 { true } else { false } }
    }

    @Test func H13_a_step_deletes_at_most_1000_messages() throws {
        let bench = try EngineBench { $0.mode = .manual }
        try enqueue(bench, Array(repeating: 10, count: 2500))
        // The first steps are small, because it is not known how long they take.
        // The last one erases their text.
        #expect(try steps(bench) == [128, 256, 512, 104, 1000, 500, 0])
        #expect(try bench.engine.counts(nil).queued == 0)
    }

    @Test func H13_a_step_ends_after_256_KiB_of_bodies() throws {
        let bench = try EngineBench { $0.mode = .manual }
        try enqueue(bench, Array(repeating: 100 << 10, count: 20))
        let steps = try steps(bench)
        #expect(steps.reduce(0, +) == 20 && steps.allSatisfy { $0 <= 3 })
    }

    // MARK: Clear

    /// Its row is read twice, without and with its checksum.
    @Test func F9_clear_executes_three_statements_for_a_message_without_rows_in_other_tables() throws {
        let bench = try EngineBench { ($0.mode, $0.direct) = (.manual, false) }
        try enqueue(bench, Array(repeating: 10, count: 500) + [100 << 10])
        let count = try DatabaseWork.statements(bench.engine.context.store) { try bench.engine.clear(nil) }
        #expect((1_500..<1_600).contains(count), "\(count)")
        #expect(try bench.withStore { try $0.database.statement("SELECT 1 FROM large_body").integers() }.isEmpty)
    }

    @Test(arguments: [nil, "ana"] as [Name?])
    func F9_a_step_of_clear_deletes_at_most_1000_messages_and_256_KiB_of_bodies(of name: Name?) throws {
        let bench = try EngineBench { ($0.mode, $0.direct) = (.manual, false) }
        try enqueue(bench, Array(repeating: 10, count: 1990))
        try enqueue(bench, Array(repeating: 100 << 10, count: 20))
        #expect(try steps(bench, .unsent(name)) == [128, 256, 512, 104, 993, 3, 3, 1, 3, 3, 3, 1, 0])
        try bench.poll()
        #expect(try bench.engine.counts(nil) == Counts())
        #expect(clearedEvents(bench) == 1)
    }

    @Test func F9_clear_of_a_conversation_reads_nothing_of_its_history() throws {
        var work: [Int] = []
        for sent in [50, 1000] {
            let bench = try EngineBench { ($0.mode, $0.direct) = (.manual, false) }
            try enqueue(bench, Array(repeating: 10, count: sent))
            try bench.drain()
            let id = try bench.enqueue()
            var deleted: [Int64] = []
            work.append(try DatabaseWork.count(bench.engine.context.store) { deleted = try steps(bench, .unsent("ana")) })
            #expect(deleted == [1, 0])
            #expect(throws: QueueError(.notFound, "message not found: \(id)")) { try bench.status(id) }
        }
        #expect(work[1] < work[0] + 500, "\(work)")
    }

    /// Between two steps: the messages that were stored before count as gone, and later ones are sent.
    @Test(arguments: [nil, "ana"] as [Name?])
    func F9_while_clear_runs_nothing_of_its_messages_starts_and_later_ones_are_sent(of name: Name?) throws {
        let bench = try EngineBench { ($0.mode, $0.direct) = (.manual, true) }
        try bench.engine.pause(nil)
        try enqueue(bench, Array(repeating: 10, count: 1200))
        let last = try bench.enqueue("old", "ana")
        try bench.engine.resume(nil)
        var removal = Removals.Removal(.unsent(name))
        #expect(try step(bench, &removal))
        for call in [
            { try bench.engine.delete(last) }, { try bench.engine.retry(last) }, { try bench.engine.sendNow(last) },
            { try Array("new".utf8).withUnsafeBytes { try bench.engine.edit(last, MessageChange(body: $0)) } },
        ] as [() throws -> Void] {
            #expect(throws: QueueError(.notFound, "message not found: \(last)")) { try call() }
        }
        let direct = try bench.enqueue("direct", "ana")
        try bench.poll()
        #expect(bench.texts == ["direct"])
        try bench.drain()
        #expect(bench.texts == ["direct"])
        #expect(try bench.status(direct) == .sent)
        while try step(bench, &removal) {}
        #expect(removal.count == 1201)
        try bench.enqueue("after", "ana")
        try bench.poll()
        #expect(bench.texts == ["direct", "after"])
        #expect(try bench.engine.counts(nil).unsent == 0)
    }

    @Test func F9_failed_messages_that_clear_will_delete_are_not_put_back() throws {
        let bench = try EngineBench { ($0.mode, $0.direct) = (.manual, false) }
        bench.answer(by: { _ in .reject() })
        try enqueue(bench, Array(repeating: 10, count: 1010))
        try bench.drain()
        #expect(try bench.engine.counts(nil).failed == 1010)
        var removal = Removals.Removal(.unsent(nil))
        #expect(try step(bench, &removal))
        #expect(try bench.engine.retryAll(nil) == 0)
        while try step(bench, &removal) {}
        #expect(try bench.engine.counts(nil) == Counts())
        #expect(bench.deliveries.count == 1010)
    }

    @Test func F9_after_an_error_what_clear_has_not_deleted_is_queued_and_sent() throws {
        let bench = try EngineBench { ($0.mode, $0.direct) = (.manual, false) }
        try enqueue(bench, Array(repeating: 10, count: 1044))
        var removal = Removals.Removal(.unsent(nil))
        #expect(try step(bench, &removal))
        try bench.engine.changing { () throws(QueueError) in bench.engine.removals.end(removal, isComplete: false) }
        #expect(try bench.engine.counts(nil).queued == 916)
        try bench.drain()
        #expect(bench.deliveries.count == 916)
        #expect(clearedEvents(bench) == 1)
    }

    @Test func F9_a_clear_that_a_crash_interrupted_goes_on_when_it_is_called_again() throws {
        let bench = try StoreBench()
        for number in 0..<100 { try bench.add("ana", Array("the secret \(number)".utf8)) }
        try bench.transaction { store in
            for sequence in try store.pages.sequences(Filter(limit: 64), sending: []) {
                if let row = try store.messages.row(at: sequence, .outline) { try store.messages.delete(row) }
            }
        }
        try bench.reopen(clean: false)
        #expect(bench.store.counts.totals.queued == 36)
        #expect(bench.store.log.hasRemovedText, "the next open erases the text of deleted messages")
        bench.store.log.scrub()
        for file in ["", "-wal"] {
            let bytes = try FileBytes.read(bench.directory.store + file)
            #expect(FileBytes.find(Array("the secret 63".utf8), in: bytes) == nil)
        }
    }
}
