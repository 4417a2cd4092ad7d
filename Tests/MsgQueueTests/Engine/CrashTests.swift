import Glibc
import Testing

@testable import MsgQueue

/// A process that is killed.
@Suite struct CrashTests {
    private let directory = TemporaryDirectory()

    @Test func Q3_R9_enqueued_messages_survive_a_kill() async throws {
        let path = directory.store
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
            let queue = try MessageQueue(path: path, options: MessageQueue.Options(mode: .manual))
            for number in 0..<50 { try queue.enqueue("message \(number)", conversation: "c\(number % 4)", id: "id \(number)") }
            kill(getpid(), SIGKILL)
        }
        let queue = try MessageQueue(path: path, options: MessageQueue.Options(mode: .manual))
        #expect(try queue.list(MessageQueue.Filter(limit: 100)).map(\.id) == (0..<50).map { "id \($0)" })
        #expect(try queue.counts().queued == 50)
        #expect(try queue.counts(conversation: "c1").queued == 13)
        try await queue.close()
    }

    @Test func X3_a_kill_during_an_attempt_is_recorded_at_the_next_open() async throws {
        let path = directory.store
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
            let queue = try MessageQueue(path: path, options: MessageQueue.Options(mode: .manual)) { _ in
                kill(getpid(), SIGKILL)
                return .sent
            }
            try queue.enqueue("first", conversation: "ana", id: "first")
            _ = await eventually { false }
        }
        let transport = RecordingTransport()
        let queue = try MessageQueue(path: path, options: MessageQueue.Options(mode: .manual)) { await transport.send($0) }
        let message = try queue.message(id: "first")
        #expect(message.status == .queued)
        #expect(message.attempts == 1)
        #expect(try queue.attempts("first").map(\.outcome) == [.unknown])
        #expect(try queue.attempts("first").map(\.arrival) == [.perhaps])
        #expect(try await queue.drain().sent == 1)
        #expect(transport.deliveries.map(\.attempt) == [2])
        #expect(try queue.attempts("first").map(\.outcome) == [.unknown, .sent])
        try await queue.close()
    }

    /// Enough large bodies that the opening does not compare the index of the history with the messages, which would repair it.
    private static let drafts = (1...80).map { number in
        MessageQueue.Draft([UInt8](repeating: 1, count: number > 75 ? 400_000 : 10), conversation: "ana", id: "m\(number)")
    }

    /// The rows of the attempts of sent messages are removed later, for many messages at once.
    @Test(arguments: [31, 64, 65, 70])
    func X3_H3_messages_that_were_sent_before_a_kill_are_listed_and_not_sent_again(last: Int) async throws {
        let path = directory.store
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String, last = last as Int] in
            let queue = try MessageQueue(path: path, options: MessageQueue.Options(mode: .manual)) { delivery in
                if delivery.id == "m\(last)" { kill(getpid(), SIGKILL) }
                return .sent
            }
            try queue.enqueue(CrashTests.drafts)
            _ = try await queue.drain()
        }
        let sent = (1..<last).map { "m\($0)" }
        let check = try MessageQueue.check(path: path)
        #expect(check.isSound, "\(check.text)")
        func verify(_ queue: MessageQueue, _ ids: [String]) throws {
            for conversation in [nil, "ana"] {
                var filter = MessageQueue.Filter(conversation: conversation, statuses: [.sent], limit: 100)
                #expect(try queue.list(filter).map(\.id) == ids)
                filter.newestFirst = true
                #expect(try queue.list(filter).map(\.id) == ids.reversed())
            }
            #expect(try queue.counts().sent == ids.count && queue.counts().sending == 0 && queue.counts().queued == 80 - ids.count)
            #expect(try queue.list(.init(statuses: [.sending])).isEmpty)
        }
        let salvaged = directory.file("salvaged")
        _ = try MessageQueue.salvage(from: path, to: salvaged)
        var readOnly = MessageQueue.Options()
        readOnly.readOnly = true
        let reader = try MessageQueue(path: path, options: readOnly)
        try verify(reader, sent)
        try await reader.close()

        for path in [salvaged, path] {
            for session in 0..<2 {
                let transport = RecordingTransport()
                let queue = try MessageQueue(path: path, options: MessageQueue.Options(mode: .manual)) { await transport.send($0) }
                try verify(queue, session == 0 ? sent : Self.drafts.compactMap(\.id))
                #expect(try queue.attempts("m1").map(\.outcome) == [.sent])
                if session == 0 {
                    #expect(try queue.attempts("m\(last)").map(\.outcome) == [.unknown])
                    #expect(try await queue.drain().sent == 80 - sent.count)
                    #expect(transport.deliveries.map(\.id) == (last...80).map { number in "m\(number)" })
                    #expect(transport.deliveries.map(\.attempt) == [2] + [Int](repeating: 1, count: 80 - last))
                    try verify(queue, Self.drafts.compactMap(\.id))
                }
                try await queue.close()
            }
            #expect(try MessageQueue.check(path: path).isSound)
        }
    }

    /// With `keep_sent` = 0 a message is removed by the commit of its outcome, and its id is remembered.
    @Test(arguments: [2, 31, 70])
    func X3_H2_messages_that_were_removed_before_a_kill_are_not_sent_again(last: Int) async throws {
        let path = directory.store
        var options = MessageQueue.Options(mode: .manual)
        options.keepSent = 0
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String, last = last as Int] in
            var options = MessageQueue.Options(mode: .manual)
            options.keepSent = 0
            let queue = try MessageQueue(path: path, options: options) { delivery in
                if delivery.id == "m\(last)" { kill(getpid(), SIGKILL) }
                return .sent
            }
            try queue.enqueue(CrashTests.drafts)
            _ = try await queue.drain()
        }
        #expect(try MessageQueue.check(path: path).isSound)
        let transport = RecordingTransport()
        let queue = try MessageQueue(path: path, options: options) { await transport.send($0) }
        #expect(try queue.list(.init(statuses: .all, limit: 100)).map(\.id) == (last...80).map { "m\($0)" })
        for draft in Self.drafts { #expect(throws: (any Error).self) { try queue.enqueue([draft]) } }
        #expect(try await queue.drain().sent == 81 - last)
        #expect(transport.deliveries.map(\.id) == (last...80).map { "m\($0)" })
        #expect(try queue.counts().unsent == 0 && queue.counts().history == 0)
        try await queue.close()
    }
}
