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
}
