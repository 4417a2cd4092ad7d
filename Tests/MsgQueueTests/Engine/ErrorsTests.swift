import Testing

@testable import MsgQueue

/// Each refused call has its error code and changes nothing.
@Suite struct ErrorsTests {
    private let directory = TemporaryDirectory()

    @Test func X11_limits_refuse_with_a_clear_error_and_change_nothing() throws {
        var options = MessageQueue.Options(mode: .manual)
        options.limitMessages = 3
        options.limitBytes = 100
        options.limitBody = 50
        options.limitMetadata = 10
        let queue = try MessageQueue(path: directory.store, options: options)
        let id = try queue.enqueue(MessageQueue.Draft([UInt8](repeating: 1, count: 50)))
        #expect(refusal { try queue.enqueue(MessageQueue.Draft([UInt8](repeating: 1, count: 51))) } == .tooLarge)
        #expect(refusal { try queue.enqueue("x", metadata: ["0123456789": "x"]) } == .tooLarge)
        #expect(refusal { try queue.enqueue([MessageQueue.Draft("1"), MessageQueue.Draft("2"), MessageQueue.Draft("3")]) } == .full)
        #expect(refusal { try queue.edit(id, body: [UInt8](repeating: 1, count: 51)) } == .tooLarge)
        try queue.enqueue(MessageQueue.Draft([UInt8](repeating: 1, count: 49)))
        #expect(refusal { try queue.enqueue(MessageQueue.Draft([1, 2])) } == .full, "one byte too many")
        try queue.enqueue(MessageQueue.Draft([1]))
        #expect(refusal { try queue.enqueue(MessageQueue.Draft([])) } == .full, "one message too many")
        #expect(try queue.counts().queued == 3)
        #expect(try queue.counts().unsentBytes == 100)
        try queue.delete(id)
        try queue.enqueue("there is room again")
        try queue.syncClose()
    }

    @Test func R11_calls_at_the_wrong_moment_are_clear_errors() async throws {
        let transport = RecordingTransport { $0.text == "bad" ? .reject() : .sent }
        var options = MessageQueue.Options(mode: .manual)
        options.direct = false
        options.attemptTimeout = .seconds(600)
        options.onDemandTimeout = .seconds(600)
        let queue = try MessageQueue(path: directory.store, options: options) { await transport.send($0) }
        let ids = try ["a", "bad"].map { try queue.enqueue($0, conversation: $0) }
        #expect(refusal { try queue.retry(ids[0]) } == .conflict, "it is queued")
        transport.hold()
        async let report = queue.drain()
        #expect(await eventually { transport.deliveries.count == 1 })
        for refused in [
            refusal { try queue.edit(ids[0], body: "x") }, refusal { try queue.delete(ids[0]) }, refusal { try queue.retry(ids[0]) },
            refusal { try queue.sendNow(ids[0]) },
        ] { #expect(refused == .busy, "it is being sent") }
        #expect(refusal { try queue.mark(ids[0], as: .read) } == .conflict)
        transport.release()
        #expect(try await report.failed == 1)
        #expect(refusal { try queue.edit(ids[0], body: "x") } == .conflict, "it was sent")
        #expect(refusal { try queue.retry(ids[0]) } == .conflict)
        #expect(refusal { try queue.sendNow(ids[1]) } == .conflict, "it failed")
        #expect(try queue.message(id: ids[0]).text == "a")
        #expect(transport.texts == ["a", "bad"])
        // X6: a failed message may be edited, retried and deleted.
        try queue.edit(ids[1], body: "better")
        try queue.retry(ids[1])
        #expect(await eventually { (try? queue.message(id: ids[1]).status) == .sent })
        #expect(transport.texts == ["a", "bad", "better"])
        try await queue.close()
    }

    @Test func an_absent_message_is_not_found() throws {
        let queue = try MessageQueue(path: directory.store) { _ in .sent }
        for refused in [
            refusal { _ = try queue.message(id: "absent") }, refusal { try queue.edit("absent", body: "x") },
            refusal { try queue.delete("absent") },
            refusal { try queue.retry("absent") }, refusal { try queue.sendNow("absent") }, refusal { try queue.mark("absent", as: .read) },
            refusal { _ = try queue.attempts("absent") }, refusal { try queue.complete(.init(rawValue: 1), with: .sent) },
        ] { #expect(refused == .notFound) }
        try queue.syncClose()
    }

    @Test func impossible_values_are_invalid() throws {
        let queue = try MessageQueue(path: directory.store) { _ in .sent }
        #expect(refusal { try queue.enqueue("x", conversation: "a\u{0}b") } == .invalid)
        #expect(refusal { try queue.enqueue("x", id: "") } == .invalid)
        #expect(refusal { try queue.enqueue("x", id: String(repeating: "x", count: 256)) } == .invalid)
        #expect(refusal { try queue.enqueue(MessageQueue.Draft("x", notBefore: .init(5), expiresAt: .init(4))) } == .invalid)
        #expect(refusal { _ = try queue.message(id: "a\u{1}") } == .invalid)
        #expect(refusal { _ = try queue.list(MessageQueue.Filter(limit: 0)) } == .invalid)
        #expect(refusal { _ = try queue.list(MessageQueue.Filter(limit: 1001)) } == .invalid)
        #expect(refusal { _ = try queue.list(MessageQueue.Filter(after: -1)) } == .invalid)
        #expect(refusal { _ = try queue.list(MessageQueue.Filter(statuses: [])) } == .invalid)
        #expect(refusal { try queue.complete(.init(rawValue: 1), with: .pending) } == .invalid)
        try queue.syncClose()
        var options = MessageQueue.Options()
        options.maxInFlight = 0
        #expect(refusal { _ = try MessageQueue(path: directory.store, options: options) } == .invalid)
        for path in ["", ":memory:", "file:x?mode=memory", "a\u{0}b", directory.file("nowhere/outbox.db")] {
            #expect(refusal { _ = try MessageQueue(path: path) } == .invalid, "\(path)")
        }
    }

    @Test func nothing_can_be_sent_without_a_transport() async throws {
        let queue = try MessageQueue(path: directory.store)
        let id = try queue.enqueue("x")
        #expect(refusal { try queue.sendNow(id) } == .noTransport)
        #expect(await refusal { try await queue.drain() } == .noTransport)
        let transport = RecordingTransport()
        try queue.setTransport { await transport.send($0) }
        #expect(await eventually { (try? queue.message(id: id).status) == .sent })
        try queue.setTransport(nil)
        #expect(await refusal { try await queue.drain() } == .noTransport)
        try await queue.close()
    }

    @Test func after_close_every_call_answers_closed() async throws {
        let queue = try MessageQueue(path: directory.store) { _ in .sent }
        try await queue.close()
        for refused in [
            refusal { try queue.enqueue("x") }, refusal { _ = try queue.message(id: "x") }, refusal { _ = try queue.list() },
            refusal { _ = try queue.counts() }, refusal { try queue.edit("x", body: "y") }, refusal { try queue.delete("x") },
            refusal { try queue.retry("x") }, refusal { try queue.sendNow("x") }, refusal { try queue.mark("x", as: .read) },
            refusal { try queue.clear() }, refusal { try queue.backup(to: directory.file("copy.db")) },
            refusal { try queue.setConnectivity(.online) }, refusal { try queue.setTransport { _ in .sent } },
            refusal { try queue.complete(.init(rawValue: 1), with: .sent) },
            await refusal { try await queue.close() },
        ] { #expect(refused == .closed) }
        #expect(await refusal { try await queue.drain() } == .closed)
        #expect(directory.names == ["outbox.db"])
    }

    @Test func a_second_owner_is_locked_out() throws {
        let queue = try MessageQueue(path: directory.store)
        #expect(refusal { _ = try MessageQueue(path: directory.store) } == .locked)
        try queue.enqueue("still mine")
        try queue.syncClose()
        let next = try MessageQueue(path: directory.store)
        #expect(try next.counts().queued == 1)
        try next.syncClose()
    }
}
