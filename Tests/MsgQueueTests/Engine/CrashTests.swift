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
}
