import Testing

@testable import MsgQueue

/// Messages' own times, titles, and drains with the failed messages, by the public interface.
@Suite struct OwnTimesTests {
    private let directory = TemporaryDirectory()
    private let week = MessageQueue.Timestamp(millisecondsSince1970: 1_700_000_000_250)

    private func open(_ transport: MessageQueue.Transport? = nil) throws -> MessageQueue {
        var options = MessageQueue.Options(mode: .manual)
        options.direct = false
        return try MessageQueue(path: directory.store, options: options, transport: transport)
    }

    private func code(_ body: () throws -> Void) -> MessageQueue.Error.Code? {
        do { try body() } catch { return (error as? MessageQueue.Error)?.code }
        return nil
    }

    @Test func H10_messages_are_listed_in_the_order_of_their_own_times() throws {
        let queue = try open()
        try queue.record(.init("now", conversation: "ana", id: "now"), sender: "eve")
        try queue.record(.init("older", conversation: "ana", id: "older", time: week - .seconds(1)), sender: "eve")
        try queue.enqueue(.init("week", conversation: "ben", id: "week", time: week))
        try queue.enqueue([.init("batch", conversation: "ben", id: "batch", time: week - .seconds(2))])
        let bodies = try queue.enqueue(bodies: [[1]], like: .init([], conversation: "ben", time: week - .seconds(3)))
        #expect(try queue.message(id: "week").time == week && queue.message(id: "batch").time == week - .seconds(2))
        let now = try queue.message(id: "now")
        #expect(now.time == now.createdAt)
        let all = ["now", "week", "older", "batch"] + bodies
        var filter = MessageQueue.Filter(statuses: .all, limit: 2, newestFirst: true, order: .time)
        var found: [String] = []
        while true {
            let page = try queue.list(filter)
            found += page.map(\.id)
            guard let last = page.last else { break }
            (filter.after, filter.afterTime) = (last.sequence, last.time)
        }
        #expect(found == all)
        #expect(try queue.list(.init(statuses: .all, order: .time)).map(\.id) == all.reversed())
        // Without `after` a page begins at a time.
        #expect(try queue.list(.init(statuses: .all, order: .time, afterTime: week)).map(\.id) == ["week", "now"])
        #expect(try queue.list(.init(statuses: .all)).map(\.id) == ["now", "older", "week", "batch"] + bodies)
        try queue.syncClose()
    }

    @Test func H10_times_that_no_message_can_have_are_refused() throws {
        let queue = try open()
        for time in [Int64.min, -1, 0, 253_402_300_800_000].map(MessageQueue.Timestamp.init(millisecondsSince1970:)) {
            #expect(code { try queue.enqueue(.init("x", time: time)) } == .invalid)
            #expect(code { try queue.record(.init("x", time: time), sender: "eve") } == .invalid)
            #expect(code { _ = try queue.list(.init(statuses: .all, order: .time, afterTime: time)) } == .invalid)
        }
        #expect(code { _ = try queue.list(.init(order: .sequence, afterTime: week)) } == .invalid)
        #expect(code { _ = try queue.list(.init(after: 1, order: .time)) } == .invalid)
        #expect(try queue.counts().queued == 0)
        try queue.syncClose()
    }

    @Test func H10_H14_conversations_are_listed_by_time_with_their_titles() throws {
        let queue = try open()
        #expect(code { try queue.setTitle("Ana", of: "ana") } == .notFound)
        try queue.record(.init("now", conversation: "ana", id: "now"), sender: "eve")
        try queue.enqueue(.init("week", conversation: "ben", id: "week", time: week))
        try queue.record(.init("older", conversation: "ana", id: "older", time: week - .seconds(1)), sender: "eve")
        try queue.setTitle("Anä", of: "ana")
        let first = try queue.conversationsByTime(limit: 1)
        #expect(first.map(\.name) == ["ana"] && first.first?.title == "Anä" && first.first?.last.id == "now")
        let second = try queue.conversationsByTime(after: first.last?.last)
        #expect(second.map(\.name) == ["ben"] && second.first?.title == nil && second.first?.last.id == "week")
        #expect(try queue.conversationsByTime(after: second.last?.last).isEmpty)
        #expect(try queue.conversations().map(\.name) == ["ana", "ben"])
        try queue.setTitle("", of: "ana")
        #expect(try queue.conversations().first?.title == nil)
        #expect(code { try queue.setTitle(String(repeating: "x", count: 256), of: "ana") } == .invalid)
        try queue.syncClose()
    }

    @Test func Q23_a_drain_includes_the_failed_messages() async throws {
        let queue = try open { delivery in delivery.attempt == 1 ? .reject() : .sent }
        for (id, conversation) in [("a", "ana"), ("b", "ben")] { try queue.enqueue(.init("x", conversation: conversation, id: id)) }
        #expect(try await queue.drain().failed == 2)
        let plain = try await queue.drain()
        #expect(plain.sent == 0 && plain.putBack == 0 && plain.remainingFailed == 2)
        let one = try await queue.drain(conversation: "ana", includeFailed: true)
        #expect(one.sent == 1 && one.putBack == 1)
        try queue.setConnectivity(.offline)
        let offline = try await queue.drain(includeFailed: true)
        #expect(offline.stop == .offline && offline.putBack == 0)
        #expect(try queue.message(id: "b").status == .failed)
        try queue.setConnectivity(.online)
        let all = try await queue.drain(includeFailed: true)
        #expect(all.sent == 1 && all.putBack == 1)
        #expect(try queue.message(id: "b").status == .sent)
        try await queue.close()
    }
}
