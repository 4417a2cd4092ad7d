import Testing

@testable import MsgQueue

/// F1, F2: the order between conversations, in a store on disk.
@Suite struct PriorityQueueTests {
    private func manual(_ change: (inout Options) -> Void = { _ in }) throws -> EngineBench {
        try EngineBench { options in
            (options.mode, options.direct) = (.manual, false)
            change(&options)
        }
    }

    @Test func F2_priorities_hold_after_a_restart_with_many_conversations() throws {
        let bench = try manual()
        // More rows than one fold adds to the indexes; some are not folded when the queue is opened again.
        for number in 0..<700 { try bench.enqueue("\(number)", Name("c\(number % 350)"), priority: number == 690 ? 5 : 0) }
        try bench.enqueue("first", "another", priority: 7)
        try bench.enqueue("last", "", priority: -1)
        try bench.reopen()
        try bench.drain()
        let others: [String] = (0..<700).filter { $0 != 690 }.map(String.init)
        #expect(bench.texts.first == "first" && bench.texts.last == "last")
        #expect(Array(bench.texts.dropFirst().dropLast()) == Array(others[..<341] + CollectionOfOne("690") + others[341...]))
    }

    @Test func F2_the_store_says_whether_a_queued_message_has_a_priority() throws {
        let bench = try manual()
        #expect(try !bench.withStore { try $0.queue.hasPriorities() })
        try bench.enqueue("a", id: "a", priority: -1)
        #expect(try bench.withStore { try $0.queue.hasPriorities() })
        try bench.reopen()
        #expect(bench.engine.context.core.scheduler.lanes.isRanked)
        try bench.drain()
        #expect(try !bench.withStore { try $0.queue.hasPriorities() })
        try bench.reopen()
        #expect(!bench.engine.context.core.scheduler.lanes.isRanked)
        #expect(try bench.engine.message(id: "a").priority == -1)
    }

    @Test(arguments: [true, false])
    func F2_a_store_of_a_build_before_priorities_gets_their_index(clean: Bool) throws {
        let directory = TemporaryDirectory()
        try FileBytes.write(try FileBytes.read(UpgradeTests.fixture(2)), to: directory.store)
        do { try PlainDatabase(directory.store).rows("DROP INDEX message_priority") }
        let reading = try Store(path: directory.store, options: readOnly)
        #expect(try reading.queue.hasPriorities())
        reading.close(clean: false)
        // The upgrade itself may end with a crash.
        for isClean in [clean, false, true] {
            let store = try Store(path: directory.store, options: Options())
            #expect(try store.queue.hasPriorities())
            #expect(store.repair == nil, "nothing was damaged")
            #expect(store.counts.totals.queued == 11)
            store.close(clean: isClean)
        }
        let plain = try PlainDatabase(directory.store)
        #expect(try plain.number("SELECT count(*) FROM sqlite_schema WHERE name = 'message_priority'") == 1)
        #expect(try plain.rows("PRAGMA integrity_check") == [["ok"]])
    }

    private var readOnly: Options {
        var options = Options()
        options.readOnly = true
        return options
    }

    @Test func F2_conversations_with_queued_messages_are_found_in_the_order_of_their_bytes() throws {
        let bench = try manual()
        for name in ["b", "é", "", "a", "e\u{301}", "b", "😀"] as [Name] { try bench.enqueue("1", name) }
        try bench.withStore { store in
            try store.begin()
            try store.counts.fold()
            try store.commit(durable: false)
        }
        try bench.enqueue("2", "new")
        var (found, last): ([Name], Name?) = ([], nil)
        while true {
            let page = try bench.withStore { try $0.queue.conversations(after: last, limit: 2) }
            found += page.names
            last = page.last
            if page.isComplete { break }
        }
        #expect(found == ["new", "", "a", "b", "e\u{301}", "é", "😀"])
    }

    @Test func F1_a_message_for_an_idle_conversation_leaves_within_3_attempts() throws {
        for direct in [true, false] {
            let bench = try EngineBench { $0.direct = direct }
            try bench.engine.setNetwork(Network(connectivity: .offline))
            for number in 0..<900 { try bench.enqueue("\(number)", Name("c\(number % 300)")) }
            bench.answer { [weak bench] delivery in
                if delivery.text == "100" { _ = try? bench?.enqueue("live", "idle") }
                return .sent
            }
            try bench.engine.setNetwork(Network(connectivity: .online))
            try bench.pass(500)
            #expect(bench.texts.count == 901)
            #expect(bench.texts.firstIndex(of: "live") ?? .max <= 102)
        }
    }

    @Test func F2_an_edit_keeps_the_priority_and_a_recorded_message_has_none() throws {
        let bench = try manual()
        try bench.enqueue(id: "a", priority: 42)
        try [UInt8]("edited".utf8).withUnsafeBytes { try bench.engine.edit("a", MessageChange(body: $0)) }
        #expect(try bench.engine.message(id: "a").priority == 42)
        let draft = BorrowedDraft(
            id: "r", conversation: "ana", body: UnsafeRawBufferPointer(start: nil, count: 0), metadata: [], notBefore: 0, expiresAt: 0,
            unmeteredOnly: false, priority: 9)
        _ = try bench.engine.record(draft, sender: "ben")
        #expect(try bench.engine.message(id: "r").priority == 0)
    }
}

/// The same through the Swift API.
@Suite struct PublicPriorityTests {
    @Test func F1_F2_drafts_and_messages_have_priorities() async throws {
        let directory = TemporaryDirectory()
        var options = MessageQueue.Options(mode: .manual)
        (options.direct, options.liveShare, options.soonestExpiryFirst) = (false, 1, true)
        let transport = RecordingTransport()
        let queue = try MessageQueue(path: directory.store, options: options) { await transport.send($0) }
        let expiry = MessageQueue.Timestamp(millisecondsSince1970: 4_000_000_000_000)
        try queue.enqueue("1", conversation: "a")
        try queue.enqueue([
            MessageQueue.Draft("2", conversation: "b", expiresAt: expiry), MessageQueue.Draft("3", conversation: "c", id: "c", priority: 4),
        ])
        #expect(try queue.message(id: "c").priority == 4)
        #expect(throws: MessageQueue.Error.self) { try queue.enqueue(MessageQueue.Draft("4", priority: 101)) }
        _ = try await queue.drain()
        #expect(transport.texts == ["3", "2", "1"])
        try await queue.close()
    }
}
