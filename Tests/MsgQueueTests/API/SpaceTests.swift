import MsgQueue
import Testing

@Suite struct SpaceTests {
    @Test func F7_the_file_becomes_shorter_while_the_queue_is_idle() async throws {
        let directory = TemporaryDirectory()
        var options = MessageQueue.Options(mode: .manual)
        options.direct = false
        options.keepSent = 50
        var queue = try MessageQueue(path: directory.store, options: options) { _ in .sent }
        let empty = try queue.statistics()
        let drafts = (0..<3_000).map { MessageQueue.Draft([UInt8](repeating: 120, count: 500), conversation: "c\($0 % 20)") }
        _ = try queue.enqueue(drafts)
        // The close copies everything from the log to the file.
        try await queue.close()
        queue = try MessageQueue(path: directory.store, options: options) { _ in .sent }
        let full = try queue.statistics()
        #expect(full.fileBytes > empty.fileBytes + 3_000 * 500)
        try await queue.drain()
        #expect(try queue.counts().sent <= 55)
        #expect(try await eventually { try queue.statistics().fileBytes < full.fileBytes / 4 })
        let idle = try queue.statistics()
        #expect(idle.freeBytes < idle.fileBytes)
        #expect(try queue.prometheus().contains("msgqueue_free_bytes{"))
        _ = try await queue.close()
    }
}
