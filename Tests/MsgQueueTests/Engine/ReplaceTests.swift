import Testing

@testable import MsgQueue

/// Messages with a replace key, and full queues, through the Swift API.
@Suite struct ReplaceTests {
    private let directory = TemporaryDirectory()

    private func open(
        _ transport: RecordingTransport = RecordingTransport(), _ change: (inout MessageQueue.Options) -> Void = { _ in }
    ) throws -> MessageQueue {
        var options = MessageQueue.Options(mode: .manual)
        options.direct = false
        change(&options)
        return try MessageQueue(path: directory.store, options: options) { await transport.send($0) }
    }

    private func draft(_ text: String, _ key: String?, _ conversation: String = "ana", id: String? = nil) -> MessageQueue.Draft {
        MessageQueue.Draft(text, conversation: conversation, id: id, replaceKey: key)
    }

    private func texts(_ queue: MessageQueue) throws -> [String] { try queue.list(MessageQueue.Filter(limit: 1_000)).map(\.text) }

    @Test func F5_a_message_takes_the_place_of_the_queued_one_of_its_key() async throws {
        let transport = RecordingTransport()
        let queue = try open(transport)
        let log = EventLog(queue.events)
        try queue.enqueue("before", conversation: "ana")
        let old = try queue.enqueue(draft("1", "k"))
        try queue.enqueue("behind", conversation: "ana")
        let place = try queue.message(id: old).sequence
        let new = try queue.enqueue(draft("2", "k"))
        #expect(try texts(queue) == ["before", "2", "behind"])
        #expect(try queue.message(id: new).sequence == place)
        #expect(refusal { try queue.retry(old) } == .notFound)
        #expect(refusal { try queue.edit(old, body: "x") } == .notFound)
        #expect(refusal { try queue.enqueue(draft("x", nil, id: old)) } == .duplicate)
        #expect(await eventually { log.events.contains(.replaced(id: old, by: new, conversation: "ana")) })
        let (counts, statistics) = (try queue.counts(), try queue.statistics())
        #expect(counts.queued == 3 && statistics.enqueued == 4 && statistics.replaced == 1)
        #expect(try await queue.drain().sent == 3)
        #expect(transport.texts == ["before", "2", "behind"])
        try await queue.close()
    }

    @Test(arguments: [3, 100])
    func F5_of_a_batch_the_last_one_wins_and_events_are_those_of_single_calls(count: Int) async throws {
        let queue = try open()
        let log = EventLog(queue.events)
        let ids = try queue.enqueue((0..<count).map { draft("\($0)", $0 == 1 ? nil : "k") })
        #expect(try texts(queue) == ["\(count - 1)", "1"])
        let expected = ids.enumerated().flatMap { index, id -> [String] in
            let before = index == 2 ? 0 : index - 1
            return index < 2 ? ["queued \(id)"] : ["replaced \(ids[before]) \(id)", "queued \(id)"]
        }
        func seen() -> [String] {
            log.events.compactMap { event in
                switch event {
                case .status(let change): "queued \(change.id)"
                case .replaced(let id, let new, _): "replaced \(id) \(new)"
                default: nil
                }
            }
        }
        #expect(await eventually { seen().count == expected.count })
        #expect(seen() == expected)
        try await queue.close()
        let report = try MessageQueue.check(path: directory.store)
        #expect(report.isSound && report.whole == 2, "\(report.text)")
    }

    @Test func F5_one_that_is_being_sent_is_left_and_a_failed_one_stays() async throws {
        let transport = RecordingTransport { $0.text == "bad" ? .reject(text: "no") : .sent }
        let queue = try open(transport)
        let failed = try queue.enqueue(draft("bad", "k"))
        #expect(try await queue.drain().failed == 1)
        transport.hold()
        let first = try queue.enqueue(draft("1", "k"))
        try queue.sendNow(first)
        #expect(await eventually { transport.texts == ["bad", "1"] })
        try queue.enqueue(draft("2", "k"))
        try queue.enqueue(draft("3", "k"))
        #expect(try texts(queue) == ["bad", "1", "3"])
        transport.release()
        #expect(await eventually { (try? queue.message(id: first).status) == .sent })
        #expect(try await queue.drain().sent == 1)
        #expect(transport.texts == ["bad", "1", "3"])
        #expect(try queue.message(id: failed).status == .failed)
        try await queue.close()
    }

    @Test func F5_keys_are_names_and_empty_means_none() throws {
        let queue = try open()
        #expect(refusal { try queue.enqueue(draft("x", String(repeating: "k", count: 256))) } == .invalid)
        #expect(refusal { try queue.enqueue(draft("x", "a\u{7}")) } == .invalid)
        try queue.enqueue([draft("1", ""), draft("2", ""), draft("3", "k", "ben"), draft("4", "k")])
        #expect(try texts(queue) == ["1", "2", "3", "4"])
    }

    @Test func F6_a_full_queue_refuses_or_drops_the_oldest() async throws {
        for onFull in MessageQueue.OnFull.allCases {
            let store = directory.file("\(onFull).db")
            var options = MessageQueue.Options(mode: .manual)
            (options.limitMessages, options.onFull) = (2, onFull)
            let queue = try MessageQueue(path: store, options: options)
            let log = EventLog(queue.events)
            let first = try queue.enqueue("a", conversation: "ana")
            try queue.enqueue("b", conversation: "ben")
            let code = refusal { try queue.enqueue("c", conversation: "ben") }
            #expect(code == (onFull == .refuse ? .full : nil))
            #expect(try texts(queue) == (onFull == .refuse ? ["a", "b"] : ["b", "c"]))
            #expect(refusal { try queue.enqueue((0..<3).map { draft("\($0)", nil) }) } == .full)
            if onFull == .dropOldest {
                let found = await eventually {
                    log.events.contains { event in
                        if case .discarded(first, "ana", let failure) = event { failure.kind == .dropped } else { false }
                    }
                }
                #expect(found)
                let statistics = try queue.statistics()
                #expect(statistics.discarded == 1 && statistics.failures == [.dropped: 1])
            }
            try await queue.close()
        }
    }

    @Test func F6_the_files_stay_below_their_limit_and_dropped_text_is_overwritten() async throws {
        let secret = "the secret that must not be found again"
        let queue = try open { options in
            (options.limitFileBytes, options.onFull) = (2 << 20, .dropOldest)
        }
        try queue.enqueue(secret, conversation: "ana")
        for number in 0..<40 {
            try queue.enqueue((0..<32).map { draft(String(repeating: "x", count: 900 + $0), nil, "c\(number % 3)") })
            let (file, log) = (try FileBytes.read(directory.store), try FileBytes.read(directory.store + "-wal"))
            #expect(file.count + log.count <= 2 << 20)
        }
        let files = [directory.store, directory.store + "-wal"]
        let isGone = await eventually {
            files.allSatisfy { path in (try? FileBytes.read(path)).map { FileBytes.find(Array(secret.utf8), in: $0) == nil } ?? false }
        }
        #expect(isGone)
        #expect(try queue.counts().queued > 300)
        try await queue.close()
        let report = try MessageQueue.check(path: directory.store)
        #expect(report.isSound, "\(report.text)")
    }

    @Test func F6_a_limit_of_zero_is_not_no_limit() {
        #expect(refusal { _ = try open { $0.limitFileBytes = 0 } } == .invalid)
        #expect(refusal { _ = try open { $0.limitFileBytes = -1 } } == .invalid)
    }
}
