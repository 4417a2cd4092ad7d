import Testing

@testable import MsgQueue

/// The conversions between the public types and those of the engine.
@Suite struct PublicAPITests {
    private let directory = TemporaryDirectory()

    private var manual: MessageQueue.Options { MessageQueue.Options(mode: .manual) }

    @Test func R13_a_reader_receives_every_event_after_its_call_however_late_it_reads() async throws {
        let queue = try MessageQueue(path: directory.store, options: manual)
        let events = queue.events
        let first = try queue.enqueue("1")
        let later = queue.events
        let second = try queue.enqueue("2")
        try await queue.close()
        func enqueued(_ stream: AsyncStream<MessageQueue.Event>) async -> [String] {
            await stream.reduce(into: []) { ids, event in
                if case .status(let change) = event { ids.append(change.id) }
            }
        }
        #expect(await enqueued(events) == [first, second])
        #expect(await enqueued(later).suffix(1) == [second])
    }

    @Test func R13_each_of_many_concurrent_first_readers_receives_later_events() async throws {
        for _ in 0..<50 {
            let directory = TemporaryDirectory()
            let queue = try MessageQueue(path: directory.store, options: manual)
            let missed = try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<4 {
                    group.addTask {
                        let log = EventLog(queue.events)
                        let id = try queue.enqueue("\(number)")
                        return await !eventually(within: 10) { log.changes(of: id).map(\.to) == [.queued] }
                    }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(missed == 0)
            try await queue.close()
        }
    }

    @Test func H13_a_conversation_and_failed_messages_are_deleted() throws {
        let queue = try MessageQueue(path: directory.store, options: manual)
        let kept = try queue.enqueue("b", conversation: "ben")
        _ = try queue.enqueue("a", conversation: "ana")
        #expect(try queue.deleteConversation("ana") == 1)
        #expect(try queue.deleteConversation("ana") == 0)
        #expect(try queue.clearFailed() == 0)
        #expect(try queue.clearFailed(conversation: "ben") == 0)
        #expect(try queue.list().map(\.id) == [kept])
    }

    @Test func H12_messages_are_recorded_and_marked_together() throws {
        let queue = try MessageQueue(path: directory.store, options: manual)
        let week = MessageQueue.Timestamp(millisecondsSince1970: 1_600_000_000_000)
        let queued = try queue.enqueue("queued", conversation: "ana")
        let drafts: [MessageQueue.RecordedDraft] = [
            .init(.init("fine", conversation: "ana", id: "hers", time: week + .seconds(1)), sender: "Ana"),
            .init(.init("how are you?", conversation: "ana", id: "mine", time: week), sender: nil),
            .init(.init("x", id: queued), sender: "Ana"),
        ]
        let errors = try queue.record(drafts)
        #expect(errors.map { $0?.code } == [nil, nil, .duplicate])
        #expect(try queue.record(drafts).map { $0?.code } == [nil, nil, .duplicate])
        let mine = try queue.message(id: "mine")
        #expect(mine.status == .sent && mine.sender == nil && mine.sentAt != nil && mine.time == week)
        #expect(try queue.message(id: "hers").sender == "Ana")
        #expect(try queue.attempts("mine").isEmpty)
        #expect(try queue.counts().unread == 1)
        let receipts = try queue.mark(ids: ["mine", "nobody", queued], as: .delivered)
        #expect(receipts.map { $0?.code } == [nil, .notFound, .conflict])
        #expect(try queue.mark(upTo: "mine", as: .read) == 1)
        #expect(try queue.mark(upTo: "hers", as: .read) == 1)
        #expect(try queue.mark(upTo: "hers", as: .read) == 0)
        #expect(try queue.counts().unread == 0)
        #expect(refusal { try queue.mark(upTo: "nobody", as: .read) } == .notFound)
        #expect(refusal { try queue.mark(ids: ["mine"], as: .sent) } == .invalid)
        do throws(MessageQueue.Error) {
            try queue.record([drafts[0], .init(.init("x"), sender: "")])
            Issue.record("an empty sender was accepted")
        } catch {
            #expect(error.code == .invalid && error.detail.hasPrefix("draft 1: "))
        }
        #expect("\(drafts[0])" == "draft hers, conversation \"ana\", 4 bytes, from \"Ana\"")
        #expect(try queue.record([MessageQueue.RecordedDraft]()).isEmpty)
    }

    @Test func one_draft_is_enqueued_without_a_copy_of_its_body() throws {
        let draft = MessageQueue.Draft([UInt8](repeating: 1, count: 4096))
        let address = draft.body.withUnsafeBytes { $0.baseAddress }
        try draft.withBorrowed { borrowed throws(QueueError) in #expect(borrowed.body.baseAddress == address) }
    }

    @Test func Q14_drafts_of_a_batch_keep_their_own_bodies() throws {
        let queue = try MessageQueue(path: directory.store, options: manual)
        let bodies = [[], [1], [], [2, 3], Array(repeating: 4, count: 70_000)] as [[UInt8]]
        let ids = try queue.enqueue(bodies.map { MessageQueue.Draft($0) })
        for (id, body) in zip(ids, bodies) { #expect(try queue.message(id: id).body == body) }
        #expect(try queue.enqueue([]) == [])
        let common = MessageQueue.Draft([], conversation: "ana", metadata: ["a": "b"])
        let alike = try queue.enqueue(bodies: bodies, like: common)
        for (id, body) in zip(alike, bodies) {
            let message = try queue.message(id: id)
            #expect(message.body == body && message.conversation == "ana" && message.metadata == ["a": "b"])
        }
        #expect(try queue.enqueue(bodies: []) == [])
        #expect(throws: MessageQueue.Error.self) { try queue.enqueue(bodies: bodies, like: MessageQueue.Draft([], id: "a")) }
        #expect(throws: MessageQueue.Error.self) { try queue.enqueue(bodies: bodies, like: MessageQueue.Draft([1])) }
        #expect(try queue.counts().queued == 2 * bodies.count)
        try queue.syncClose()
    }

    @Test func X9_statistics_are_available_as_values_and_as_Prometheus_text() async throws {
        let queue = try MessageQueue(path: directory.store, options: manual) { delivery in
            delivery.text == "bad" ? .reject(.notFound) : .sent
        }
        try queue.enqueue("good")
        try queue.enqueue("bad", conversation: "ben")
        #expect(try await eventually { try queue.counts().sent + queue.counts().failed == 2 })
        let statistics = try queue.statistics()
        #expect(statistics.sent == 1 && statistics.failed == 1 && statistics.failures == [.notFound: 1])
        #expect(statistics.latencies.count == MessageQueue.Statistics.latencyBounds.count + 1)
        #expect(try #require(statistics.latency(share: 1)) > .zero)
        #expect(statistics.openedAt <= .now)
        let text = try queue.prometheus()
        #expect(text.contains("msgqueue_messages{queue=\"\(directory.store)\",status=\"failed\"} 1\n"))
        #expect(text.contains("msgqueue_failures_total{queue=\"\(directory.store)\",kind=\"not_found\"} 1\n"))
        let second = try MessageQueue(path: directory.store + "2", options: manual)
        let both = try MessageQueue.prometheus(of: [queue, second])
        let lines = both.split(separator: "\n").map { String($0) }
        #expect(lines.filter { $0.hasPrefix("# TYPE msgqueue_messages ") }.count == 1)
        #expect(lines.filter { $0.hasPrefix("msgqueue_sent_total{queue=\"\(directory.store)\"} 1") }.count == 1)
        #expect(lines.filter { $0.hasPrefix("msgqueue_sent_total{queue=\"\(directory.store)2\"} 0") }.count == 1)
        #expect(throws: MessageQueue.Error.self) { try MessageQueue.prometheus(of: [queue, second, queue]) }
        try await second.close()
        try await queue.close()
    }

    @Test func A8_R10_texts_for_people_are_available_in_Swift() {
        #expect(MessageQueue.Status.allCases.map(\.label) == ["Queued", "Sending…", "Sent", "Delivered", "Read", "Failed"])
        #expect(MessageQueue.Status.allCases.map(\.iconName) == ["clock", "arrow-up", "check", "check-double", "eye", "alert"])
        #expect(MessageQueue.Connectivity.allCases.map(\.label) == ["Unknown", "Offline", "Online"])
        #expect(MessageQueue.FailureKind.offline.text == "No internet connection. Your message is saved and you can retry later.")
        #expect(Set(MessageQueue.FailureKind.allCases.map(\.text)).count == 12)
        for kind in MessageQueue.FailureKind.allCases { #expect(MessageQueue.FailureKind(kind.engine) == kind) }
        #expect(MessageQueue.FailureKind(MsgQueue.FailureKind.none) == nil)
    }

    @Test func Q4_the_prompt_has_a_text() async throws {
        var options = MessageQueue.Options(mode: .ask)
        options.onlineDebounce = .zero
        let queue = try MessageQueue(path: directory.store, options: options) { _ in .sent }
        let log = EventLog(queue.events)
        try queue.setConnectivity(.offline)
        for number in 0..<5 { try queue.enqueue("\(number)", conversation: "c\(number)") }
        try queue.setConnectivity(.online)
        let asked = { log.events.compactMap { if case .prompt(let prompt) = $0 { prompt } else { nil } } }
        #expect(await eventually { !asked().isEmpty })
        let prompt = try #require(asked().first)
        #expect(prompt.text == "Connected. Auto-send 5 queued messages?")
        #expect(prompt.messages == 5 && prompt.conversations == 5 && prompt.timeout == .seconds(10))
        try await queue.close()
    }

    @Test func X5_X4_absent_times_are_nil_and_given_ones_are_kept() throws {
        let queue = try MessageQueue(path: directory.store, options: manual)
        let soon = MessageQueue.Timestamp.now + .seconds(3_600)
        let plain = try queue.message(id: try queue.enqueue("plain"))
        let timed = try queue.message(id: try queue.enqueue(MessageQueue.Draft("timed", notBefore: soon, expiresAt: soon + .seconds(1))))
        #expect(plain.notBefore == nil && plain.expiresAt == nil && plain.sentAt == nil && plain.editedAt == nil && plain.failure == nil)
        #expect(timed.notBefore == soon && timed.expiresAt == soon + .seconds(1))
        #expect(try queue.explain(plain.id).until == nil)
        let scheduled = MsgQueue.Explanation(reason: .scheduled, until: 5, behind: nil, text: "")
        #expect(MessageQueue.Explanation(scheduled).until?.millisecondsSince1970 == 5)
        #expect(try queue.list(MessageQueue.Filter(statuses: [.queued, .failed])).count == 2)
        #expect(try queue.list(MessageQueue.Filter(after: plain.sequence)).map(\.id) == [timed.id])
        #expect(try queue.conversations().map(\.last.id) == [timed.id])
        try queue.syncClose()
    }

    @Test func a_drain_with_a_batch_of_zero_is_refused() async throws {
        let queue = try MessageQueue(path: directory.store, options: manual) { _ in .sent }
        #expect(await refusal { try await queue.drain(batch: 0) } == .invalid)
        try await queue.close()
    }
}
