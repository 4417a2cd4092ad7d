import Testing

@testable import MsgQueue

/// Messages that another durable place hands over.
@Suite struct HandOverTests {
    private let directory = TemporaryDirectory()

    @Test func T3_messages_are_taken_over_once_whatever_became_of_them() async throws {
        var options = MessageQueue.Options(mode: .manual)
        (options.rememberIDs, options.direct) = (.zero, false)
        let queue = try MessageQueue(path: directory.store, options: options)
        let first = try queue.handedOver(source: "orders")
        #expect(first.source == "orders" && first.entries.isEmpty)
        let drafts = [MessageQueue.Draft("one", id: "a"), MessageQueue.Draft("two", conversation: "ana", id: "b")]
        #expect(try queue.takeOver(drafts, first) == [nil, nil])
        try queue.delete("a")
        #expect(try queue.takeOver(drafts, first) == [nil, nil])
        #expect(try queue.list().map(\.id) == ["b"])

        let second = try queue.handedOver(source: "orders")
        #expect(second.entries.map(\.id) == ["a", "b"] && second.entries.allSatisfy { $0.error == nil && $0.bodySize == 3 })
        let error = #expect(throws: MessageQueue.Error.self) { try queue.takeOver(drafts, first) }
        #expect(error?.code == .conflict)
        try queue.handOverDone(second)
        #expect(try queue.handedOver(source: "orders").entries.isEmpty)
        try await queue.close()
    }

    @Test func T3_sources_are_compared_by_their_bytes() async throws {
        let queue = try MessageQueue(path: directory.store, options: MessageQueue.Options(mode: .manual))
        let looks = try ["caf\u{e9}", "cafe\u{301}"].map { try queue.handedOver(source: $0) }
        for (look, id) in zip(looks, ["a", "b"]) { #expect(try queue.takeOver([MessageQueue.Draft("x", id: id)], look) == [nil]) }
        #expect(try queue.handedOver(source: "caf\u{e9}").entries.map(\.id) == ["a"])
        try await queue.close()
    }

    @Test func T5_what_is_refused_for_good_is_failed_or_stands_in_the_list() async throws {
        var options = MessageQueue.Options()
        options.limitBody = 10
        let queue = try MessageQueue(path: directory.store, options: options)
        let look = try queue.handedOver(source: "orders")
        let long = String(repeating: "x", count: 20)
        let drafts = [
            MessageQueue.Draft(long, id: "large"), MessageQueue.Draft("body", id: String(repeating: "i", count: 300)),
            MessageQueue.Draft("body", id: "nul\0inside"), MessageQueue.Draft("after", id: "after"),
        ]
        #expect(try queue.takeOver(drafts, look).map { $0?.code } == [nil, .invalid, .invalid, nil])
        let message = try queue.message(id: "large")
        #expect(message.status == .failed && message.text == long && message.failure?.kind == .local)
        let error = #expect(throws: MessageQueue.Error.self) { try queue.retry("large") }
        #expect(error?.code == .tooLarge)
        let listed = try queue.handedOver(source: "orders").entries
        #expect(listed.map { $0.error?.code } == [nil, nil, .invalid, .invalid] && listed.allSatisfy { $0.id.utf8.count <= 255 })
        try queue.handOverForget(source: "orders")
        #expect(try queue.handedOver(source: "orders").entries.map(\.id) == ["after", "large"])
        #expect(throws: MessageQueue.Error.self) { try queue.takeOver([MessageQueue.Draft("no id")], look) }
        try await queue.close()
    }
}
