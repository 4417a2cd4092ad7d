import Testing

@testable import MsgQueue

@Suite struct CopyTests {
    private let directory = TemporaryDirectory()

    @Test func X12_a_backup_of_an_open_queue_opens_as_a_queue_and_in_SQLite() async throws {
        let transport = RecordingTransport()
        var options = MessageQueue.Options(mode: .manual)
        options.attemptTimeout = .seconds(600)
        let queue = try MessageQueue(path: directory.store, options: options) { await transport.send($0) }
        transport.hold()
        try queue.enqueue("being sent", conversation: "ana", id: "1")
        #expect(await eventually { transport.deliveries.count == 1 })
        try queue.setConnectivity(.offline)
        try queue.enqueue("waits", conversation: "ben", metadata: ["k": "v"], id: "2")
        let path = directory.file("copy.db")
        try queue.backup(to: path)
        #expect(refusal { try queue.backup(to: path) } == .conflict)
        do {
            let plain = try PlainDatabase(path)
            #expect(
                try plain.rows("SELECT id, conversation, body, metadata FROM message ORDER BY seq") == [
                    ["1", "ana", "being sent", nil], ["2", "ben", "waits", "{\"k\":\"v\"}"],
                ])
            #expect(try plain.rows("PRAGMA quick_check") == [["ok"]])
        }
        let copy = try MessageQueue(path: path, options: options)
        #expect(try copy.list().map(\.id) == ["1", "2"])
        #expect(try copy.attempts("1").map(\.outcome) == [.unknown], "in the copy that attempt has not ended")
        try await copy.close()
        transport.release()
        #expect(await eventually { (try? queue.message(id: "1").status) == .sent })
        try await queue.close()
    }

    @Test func X12_a_long_backup_blocks_no_call() async throws {
        var options = MessageQueue.Options(mode: .manual)
        options.direct = false
        let queue = try MessageQueue(path: directory.store, options: options)
        let body = [UInt8](repeating: 7, count: 500_000)
        for _ in 0..<20 { try queue.enqueue((0..<5).map { _ in MessageQueue.Draft(body, conversation: "large") }) }
        let path = directory.file("copy.db")
        let done = Flag()
        async let backup: Void = onThread {
            try queue.backup(to: path)
            done.set()
        }
        // Not in a task, for which other tests may leave no thread.
        async let enqueued = onThread {
            var count = 0
            while !done.isSet {
                try queue.enqueue("small", conversation: "ana")
                count += 1
            }
            return count
        }
        let meanwhile = try await enqueued
        try await backup
        #expect(meanwhile >= 5, "\(meanwhile) messages were enqueued while 50 MB were copied")
        let counts = try queue.counts()
        let copy = try MessageQueue(path: path, options: options)
        let copied = try copy.counts()
        #expect(copied.queued >= 100 && copied.queued <= counts.queued)
        #expect(try copy.list(MessageQueue.Filter(conversation: "large", limit: 200)).allSatisfy { $0.body == body })
        try await copy.close()
        try await queue.close()
    }

    @Test func X12_close_ends_a_backup_and_removes_its_file() async throws {
        let queue = try MessageQueue(path: directory.store)
        let body = [UInt8](repeating: 7, count: 500_000)
        for _ in 0..<40 { try queue.enqueue((0..<5).map { _ in MessageQueue.Draft(body, conversation: "large") }) }
        let path = directory.file("copy.db")
        let began = Flag()
        async let code: QueueError.Code? = onThread {
            began.set()
            return refusal { try queue.backup(to: path) }
        }
        #expect(await eventually { began.isSet })
        #expect(await eventually { directory.names.contains { $0.contains(".msgq-new-") } })
        try await queue.close()
        #expect(try await code == .closed)
        #expect(directory.names == ["outbox.db"])
    }

    @Test func Q12_a_damaged_message_is_never_sent_and_the_others_are() async throws {
        var options = MessageQueue.Options(mode: .manual)
        options.direct = false
        var queue = try MessageQueue(path: directory.store, options: options)
        let ids = try queue.enqueue([
            MessageQueue.Draft("one", conversation: "ana"), MessageQueue.Draft("two", conversation: "ana"),
            MessageQueue.Draft("three", conversation: "ana"),
        ])
        try await queue.close()
        do { try PlainDatabase(directory.store).rows("UPDATE message SET body = x'626164' WHERE seq = 2") }
        let transport = RecordingTransport()
        queue = try MessageQueue(path: directory.store, options: options) { await transport.send($0) }
        #expect(refusal { _ = try queue.message(id: ids[1]) } == .corrupt)
        try await queue.drain()
        #expect(transport.texts == ["one", "three"])
        #expect(try queue.counts().queued == 0)
        #expect(try queue.counts().failed == 1)
        try queue.delete(ids[1])
        #expect(try queue.counts().failed == 0)
        try await queue.close()
    }
}

private final class Flag: @unchecked Sendable {
    private let mutex = Mutex()
    private var value = false
    func set() { mutex.withLock { value = true } }
    var isSet: Bool { mutex.withLock { value } }
}
