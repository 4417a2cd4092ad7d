import Testing

@testable import MsgQueue

/// The offline queue through the Swift API, with a receiver in the process.
@Suite struct OfflineQueueTests {
    private let directory = TemporaryDirectory()

    private func open(_ transport: RecordingTransport, _ change: (inout MessageQueue.Options) -> Void = { _ in }) throws -> MessageQueue {
        var options = MessageQueue.Options(mode: .manual)
        change(&options)
        return try MessageQueue(path: directory.store, options: options) { await transport.send($0) }
    }

    @Test func Q1_a_message_enqueued_while_offline_is_queued_and_reported_by_an_event() async throws {
        let queue = try open(RecordingTransport())
        let log = EventLog(queue.events)
        try queue.setConnectivity(.offline)
        let id = try queue.enqueue("hello", conversation: "ana")
        #expect(try queue.message(id: id).status == .queued)
        #expect(try queue.counts().queued == 1)
        #expect(await eventually { log.statuses(of: id) == [.queued] })
        #expect(log.changes(of: id).first?.from == nil)
        #expect(await eventually { log.events.contains { if case .summary(let counts, _) = $0 { counts.queued == 1 } else { false } } })
        try await queue.close()
    }

    @Test func Q15_Q7_Q9_five_composed_offline_arrive_in_order_and_the_queue_is_empty() async throws {
        let transport = RecordingTransport()
        let queue = try open(transport)
        try queue.setConnectivity(.offline)
        let ids = try (0..<5).map { try queue.enqueue("message \($0)", conversation: "ana") }
        try queue.setConnectivity(.online)
        let report = try await queue.drain()
        #expect(report == MessageQueue.Report(stop: .empty, sent: 5))
        #expect(transport.texts == (0..<5).map { "message \($0)" })
        #expect(transport.deliveries.map(\.id) == ids)
        #expect(transport.deliveries.allSatisfy { $0.attempt == 1 })
        #expect(try queue.list().isEmpty)
        #expect(try queue.list(MessageQueue.Filter(statuses: .all)).map(\.status) == Array(repeating: .sent, count: 5))
        #expect(try queue.counts().queued == 0)
        try await queue.close()
    }

    @Test func Q3_Q12_enqueued_messages_survive_a_restart() async throws {
        let transport = RecordingTransport()
        var queue = try open(transport)
        try queue.setConnectivity(.offline)
        let drafts = (0..<20).map { MessageQueue.Draft("message \($0)", conversation: "c\($0 % 3)", metadata: ["n": "\($0)"]) }
        let ids = try queue.enqueue(drafts)
        try await queue.close()
        queue = try open(transport)
        let list = try queue.list(MessageQueue.Filter(limit: 100))
        #expect(list.map(\.id) == ids)
        #expect(list.map(\.text) == drafts.map { String(decoding: $0.body, as: UTF8.self) })
        #expect(list.map(\.metadata) == drafts.map(\.metadata))
        #expect(try await queue.drain().sent == 20)
        #expect(transport.texts == list.map(\.text))
        try await queue.close()
    }

    @Test func Q10_Q18_a_drain_with_one_final_failure_sends_the_rest() async throws {
        let transport = RecordingTransport { $0.text == "bad" ? .http(400, text: "no such thing") : .http(200) }
        let queue = try open(transport) { $0.direct = false }
        let ids = try ["one", "bad", "two", "three"].map { try queue.enqueue($0, conversation: $0 == "three" ? "ben" : "ana") }
        let report = try await queue.drain()
        #expect(report == MessageQueue.Report(stop: .empty, sent: 3, failed: 1, remainingFailed: 1))
        #expect(transport.texts == ["one", "bad", "two", "three"])
        let failed = try queue.list(MessageQueue.Filter(statuses: [.failed]))
        #expect(failed.map(\.id) == [ids[1]])
        #expect(failed.first?.failure?.kind == .rejected)
        #expect(failed.first?.failure?.code == 400)
        #expect(failed.first?.failure?.text == "no such thing")
        try await queue.close()
    }

    @Test func Q6_send_now_edit_and_delete_one_message() async throws {
        let transport = RecordingTransport()
        let queue = try open(transport) { $0.direct = false }
        let ids = try ["a", "b", "c", "d"].map { try queue.enqueue($0, conversation: "ana") }
        let log = EventLog(queue.events)
        try queue.sendNow(ids[2])
        #expect(await eventually { log.statuses(of: ids[2]).last == .sent })
        try queue.edit(ids[1], body: "b, edited")
        try queue.delete(ids[0])
        #expect(try queue.list().map(\.text) == ["b, edited", "d"])
        try await queue.drain()
        #expect(transport.texts == ["c", "b, edited", "d"])
        #expect(refusal { _ = try queue.message(id: ids[0]) } == .notFound)
        #expect(try queue.message(id: ids[1]).editedAt != nil)
        try await queue.close()
    }

    @Test func Q14_a_duplicate_id_is_refused_and_changes_nothing() async throws {
        let transport = RecordingTransport()
        let queue = try open(transport) { $0.direct = false }
        #expect(try queue.enqueue("first", id: "mine") == "mine")
        #expect(refusal { try queue.enqueue("second", id: "mine") } == .duplicate)
        #expect(refusal { try queue.enqueue([MessageQueue.Draft("x", id: "new"), MessageQueue.Draft("y", id: "new")]) } == .duplicate)
        #expect(refusal { try queue.enqueue([MessageQueue.Draft("x", id: "new"), MessageQueue.Draft("y", id: "mine")]) } == .duplicate)
        #expect(refusal { _ = try queue.message(id: "new") } == .notFound, "all or none")
        #expect(try queue.message(id: "mine").text == "first")
        try await queue.drain()
        #expect(refusal { try queue.enqueue("again", id: "mine") } == .duplicate, "it was sent")
        #expect(try queue.counts().sent == 1)
        // Ids that look equal but have other bytes are different.
        try queue.enqueue("composed", id: "caf\u{e9}")
        try queue.enqueue("decomposed", id: "cafe\u{301}")
        #expect(try queue.message(id: "caf\u{e9}").text == "composed")
        #expect(try queue.message(id: "cafe\u{301}").text == "decomposed")
        try await queue.close()
    }

    @Test func Q16_Q13_a_message_enqueued_online_is_sent_at_once() async throws {
        let transport = RecordingTransport()
        let queue = try open(transport)
        let log = EventLog(queue.events)
        let ids = try (0..<10).map { try queue.enqueue("\($0)", conversation: "ana") }
        let isDone = await eventually { log.changes().count { $0.to == .sent } == 10 }
        let reasons = try ids.map { try queue.explain($0).reason }
        #expect(isDone, "\(reasons)")
        let texts: [String] = (0..<10).map(String.init)
        #expect(transport.texts == texts)
        try await queue.close()
    }

    @Test func Q17_clear_removes_the_unsent_messages_of_a_conversation() async throws {
        let transport = RecordingTransport()
        let queue = try open(transport) { $0.direct = false }
        try queue.enqueue((0..<6).map { MessageQueue.Draft("\($0)", conversation: $0 % 2 == 0 ? "ana" : "ben") })
        try queue.clear(conversation: "ana")
        #expect(try queue.counts(conversation: "ana").unsent == 0)
        #expect(try queue.counts(conversation: "ben").queued == 3)
        try await queue.drain()
        #expect(transport.texts == ["1", "3", "5"])
        try queue.enqueue("6")
        try queue.clear()
        #expect(try queue.counts().unsent == 0)
        #expect(try queue.counts().sent == 3, "the history stays")
        try await queue.close()
    }

    @Test func Q8_A10_two_messages_of_one_conversation_are_never_sent_at_a_time() async throws {
        let transport = RecordingTransport()
        let queue = try open(transport) {
            $0.direct = false
            $0.maxInFlight = 4
        }
        try queue.enqueue((0..<80).map { MessageQueue.Draft("\($0)", conversation: "c\($0 % 5)") })
        transport.hold()
        async let report = queue.drain()
        #expect(await eventually { transport.deliveries.count == 4 })
        transport.release()
        #expect(try await report.sent == 80)
        #expect(transport.overlaps == 0)
        #expect(transport.mostAtOnce == 4)
        for lane in 0..<5 {
            let texts = transport.deliveries.filter { $0.conversation == "c\(lane)" }.map(\.text)
            #expect(texts == (0..<80).filter { $0 % 5 == lane }.map(String.init))
        }
        try await queue.close()
    }

    @Test func A6_concurrent_drains_are_one() async throws {
        let transport = RecordingTransport()
        let queue = try open(transport) { $0.direct = false }
        try queue.enqueue((0..<4).map { MessageQueue.Draft("\($0)", conversation: "ana") })
        let log = EventLog(queue.events)
        transport.hold()
        async let first = queue.drain()
        #expect(await eventually { transport.deliveries.count == 1 })
        async let second = queue.drain()
        transport.release()
        let reports = try await [first, second]
        #expect(Set(reports.map(\.sent)).isSubset(of: [4, 0]) && reports[0].sent == 4)
        #expect(transport.texts == ["0", "1", "2", "3"])
        try await queue.close()
        #expect(await eventually { log.hasEnded })
    }

    @Test func Q5_previews_pages_and_filters() throws {
        let queue = try open(RecordingTransport()) { $0.direct = false }
        let long = String(repeating: "👨‍👩‍👧‍👦", count: 150)
        try queue.enqueue([
            MessageQueue.Draft(long, conversation: "ana"), MessageQueue.Draft("short", conversation: "ben"),
            MessageQueue.Draft([0xff, 0x00, 0x61], conversation: "ana"),
        ])
        let list = try queue.list(MessageQueue.Filter(limit: 2, withoutBodies: true))
        #expect(list.map(\.preview) == [String(repeating: "👨‍👩‍👧‍👦", count: 100), "short"])
        #expect(list.map(\.body) == [nil, nil])
        #expect(list.map(\.bodySize) == [long.utf8.count, 5])
        let next = try queue.list(MessageQueue.Filter(after: try #require(list.last).sequence))
        #expect(next.map(\.preview) == ["\u{fffd}a"])
        #expect(try queue.list(MessageQueue.Filter(conversation: "ana", newestFirst: true)).map(\.bodySize) == [3, long.utf8.count])
        #expect(try queue.list(MessageQueue.Filter(conversation: "absent")).isEmpty)
        try queue.syncClose()
    }
}
