import Testing

@testable import MsgQueue

/// Messages whose content changes, through the Swift interface.
@Suite struct ChangeTests {
    private let directory = TemporaryDirectory()

    private func queue() throws -> MessageQueue {
        var options = MessageQueue.Options(mode: .manual)
        options.direct = false
        return try MessageQueue(path: directory.store, options: options) { _ in .sent }
    }

    @Test func H11_a_received_message_is_updated_in_its_place() async throws {
        let queue = try queue()
        let log = EventLog(queue.events)
        let time = MessageQueue.Timestamp(millisecondsSince1970: 5_000)
        try queue.record(.init("helo", conversation: "ana", metadata: ["a": "1"], id: "r", time: time), sender: "Eve")
        try queue.mark("r", as: .read)
        let before = try queue.message(id: "r")
        #expect(before.editedAt == nil)
        try queue.update("r", body: "hello")
        var after = try queue.message(id: "r")
        #expect(after.text == "hello" && after.metadata == ["a": "1"] && after.time == time && after.editedAt != nil)
        let later = MessageQueue.Timestamp(millisecondsSince1970: 6_000)
        try queue.update("r", body: [0xff], metadata: [:], time: later)
        after = try queue.message(id: "r")
        #expect(after.body == [0xff] && after.metadata == [:] && after.time == later)
        #expect(after.status == .read && after.sequence == before.sequence && after.sender == "Eve" && after.readAt == before.readAt)
        #expect(await eventually { log.events.count { $0 == .edited(id: "r", conversation: "ana") } == 2 })
        #expect("\(MessageQueue.Event.edited(id: "r", conversation: "ana"))" == "message r edited")
        try queue.enqueue("mine", conversation: "ana", id: "m")
        #expect(refusal { try queue.update("m", body: "x") } == .conflict)
        #expect(refusal { try queue.update("none", body: "x") } == .notFound)
        #expect(refusal { try queue.update("r", body: "x", metadata: ["": "x"]) } == .invalid)
        for time in [Int64.min, -1, 0, 253_402_300_800_000, Int64.max] {
            #expect(refusal { try queue.update("r", body: "x", time: .init(millisecondsSince1970: time)) } == .invalid)
        }
        #expect(try queue.message(id: "r") == after)
        try await queue.close()
        #expect(refusal { try queue.update("r", body: "x") } == .closed)
    }

    @Test func H11_an_edit_is_refused_when_the_message_was_edited_since() throws {
        let queue = try queue()
        try queue.enqueue("first", conversation: "ana", metadata: ["a": "1"], id: "m")
        let read = try queue.message(id: "m")
        try queue.edit("m", body: "second", metadata: ["b": "2"], ifEdited: read.editedAt)
        #expect(refusal { try queue.edit("m", body: "mine", ifEdited: read.editedAt) } == .conflict)
        #expect(refusal { try queue.edit("m", body: "mine", ifEdited: .init(millisecondsSince1970: 0)) } == .conflict)
        #expect(refusal { try queue.edit("m", body: "mine", ifEdited: .init(millisecondsSince1970: -1)) } == .conflict)
        var message = try queue.message(id: "m")
        #expect(message.text == "second" && message.metadata == ["b": "2"])
        try queue.edit("m", body: [1], ifEdited: message.editedAt)
        try queue.edit("m", body: "third")
        message = try queue.message(id: "m")
        #expect(message.text == "third" && message.metadata == ["b": "2"])
        try queue.edit("m", body: "fourth", metadata: [:])
        #expect(try queue.message(id: "m").metadata == [:])
        try queue.syncClose()
    }

    @Test func H11_a_list_that_is_followed_shows_an_update() async throws {
        let queue = try queue()
        try queue.record(.init("helo", conversation: "ana", id: "r"), sender: "Eve")
        var texts: [String] = []
        for try await page in queue.snapshots(of: .init(conversation: "ana", statuses: .all)) {
            texts.append(page.first?.text ?? "")
            if texts.count == 1 { try queue.update("r", body: "hello") } else { break }
        }
        #expect(texts == ["helo", "hello"])
        try await queue.close()
    }

    @Test func H11_the_time_of_an_edit_grows() {
        for (before, now, expected) in [
            (0, 5, 5), (5, 5, 6), (9, 5, 10), (0, 0, 1), (0, -7, 1), (-3, -7, 1), (Int64.max, 5, Int64.max), (Int64.max - 1, 5, Int64.max),
            (5, Int64.max, Int64.max),
        ] as [(Int64, Int64, Int64)] {
            #expect(ChangeRule.editedAt(after: before, now: now) == expected)
        }
    }
}
