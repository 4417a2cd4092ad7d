import Testing

import MsgQueue

/// The reasons of a list, and paused conversations, through the public API.
@Suite struct ReasonTests {
    private let directory = TemporaryDirectory()

    @Test func I9_a_list_with_reasons_says_what_explain_says() async throws {
        var options = MessageQueue.Options()
        (options.mode, options.direct) = (.manual, false)
        let queue = try MessageQueue(path: directory.store, options: options) { _ in .sent }
        _ = try queue.enqueue("1", conversation: "ana", id: "a")
        _ = try queue.enqueue("2", conversation: "ana", id: "b")
        _ = try queue.enqueue("3", conversation: "ben", id: "c")
        try queue.pause(conversation: "ben")
        let listed = try queue.list(MessageQueue.Filter(withReasons: true))
        #expect(listed.map(\.explanation?.reason) == [.person, .behind, .paused])
        for message in listed { #expect(message.explanation == (try queue.explain(message.id))) }
        #expect(try queue.list().allSatisfy { $0.explanation == nil })
        #expect(try queue.conversations().map(\.isPaused) == [true, false])
        #expect(try queue.conversation(named: "ben").isPaused && queue.conversation(named: "ana").counts.queued == 2)
        #expect(throws: MessageQueue.Error.self) { try queue.conversation(named: "nobody") }
        try await queue.close()
    }

    @Test func I9_failed_messages_are_grouped_filtered_retried_and_deleted() async throws {
        var options = MessageQueue.Options()
        (options.mode, options.direct) = (.manual, false)
        let queue = try MessageQueue(path: directory.store, options: options) { delivery in
            .reject(delivery.text == "slow" ? .timeout : .server, code: delivery.text == "slow" ? nil : 503, text: "no")
        }
        for (id, text) in [("a", "1"), ("b", "2"), ("c", "slow")] { _ = try queue.enqueue(text, conversation: "ana", id: id) }
        _ = try await queue.drain()
        let groups = try queue.failureGroups()
        #expect(groups.map(\.kind) == [.server, .timeout])
        #expect(groups.map(\.code) == [503, nil])
        #expect(groups.map(\.count) == [2, 1])
        #expect(groups.map(\.text) == ["no", "no"])
        #expect(try queue.list(.init(failureKind: .server)).map(\.id) == ["a", "b"])
        #expect(try queue.list(.init(failureCode: 0)).map(\.id) == ["c"])
        #expect(throws: MessageQueue.Error.self) { try queue.list(.init(failureCode: 1 << 40)) }
        #expect(throws: MessageQueue.Error.self) { try queue.failureGroups(limit: 0) }
        #expect(try queue.clearFailed(conversation: "ana", kind: .timeout) == 1)
        #expect(try queue.retryAll(code: 500) == 0)
        #expect(try queue.retryAll(kind: .server, code: 503) == 2)
        #expect(try queue.waiting().paused == 0)
        try await queue.close()
    }
}
