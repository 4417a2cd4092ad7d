import Foundation
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

    @Test func I9_queued_messages_are_listed_by_what_they_wait_for() async throws {
        var options = MessageQueue.Options()
        (options.mode, options.direct) = (.manual, false)
        let queue = try MessageQueue(path: directory.store, options: options) { _ in .sent }
        _ = try queue.enqueue("1", conversation: "ana", id: "a")
        for (id, hours) in [("b", 2), ("c", 1)] {
            let start = MessageQueue.Timestamp.now + .seconds(3600 * hours)
            _ = try queue.enqueue(MessageQueue.Draft("later", conversation: "ben", id: id, notBefore: start))
        }
        try queue.pause(conversation: "ana")
        var filter = MessageQueue.Filter(limit: 1, waitingFor: .scheduled)
        let first = try queue.list(filter)
        #expect(first.map(\.id) == ["c"])
        (filter.after, filter.afterTime) = (first[0].sequence, first[0].notBefore)
        #expect(try queue.list(filter).map(\.id) == ["b"])
        #expect(try queue.list(.init(waitingFor: .paused)).map(\.id) == ["a"])
        #expect(try queue.list(.init(waitingFor: .retrying)).isEmpty)
        #expect(throws: MessageQueue.Error.self) { try queue.list(.init(waitingFor: .behind)) }
        #expect(throws: MessageQueue.Error.self) { try queue.list(.init(waitingFor: .done)) }
        let written = try JSONEncoder().encode(filter)
        #expect(try JSONDecoder().decode(MessageQueue.Filter.self, from: written) == filter)
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
