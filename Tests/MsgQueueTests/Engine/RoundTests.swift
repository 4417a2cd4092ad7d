import Glibc
import Testing

@testable import MsgQueue

/// The messages of several callers in one transaction.
@Suite struct RoundTests {
    /// Three calls share a transaction: two with the same id, and one for which no sequence number is left, so that nothing is stored.
    @Test func Q14_no_call_is_refused_as_a_duplicate_of_a_message_that_was_rolled_back() async throws {
        let directory = TemporaryDirectory()
        let queue = try MessageQueue(path: directory.store, options: MessageQueue.Options(mode: .manual))
        let engine = queue.engine
        engine.context.lock.lock()
        engine.context.store.state.markAssigned(through: MessageID.sequenceCeiling - 2)
        var calls: [Task<QueueError.Code?, any Error>] = []
        for (position, id) in ["same", "same", nil].enumerated() {
            calls.append(
                Task {
                    try await onThread {
                        refusal {
                            guard let id else {
                                _ = try queue.enqueue((0..<3).map { MessageQueue.Draft("\($0)") })
                                return
                            }
                            try queue.enqueue("x", id: id)
                        }
                    }
                })
            // The call has joined the round, which waits for the lock.
            #expect(await eventually { engine.insertion.gate.waitingCommands == position + 1 })
        }
        engine.context.lock.unlock()
        for call in calls { #expect(try await call.value == .full) }
        #expect(refusal { _ = try queue.message(id: "same") } == .notFound)
        #expect(try queue.counts().queued == 0)
        try await queue.close()
    }

    /// A call that arrives while another one writes is stored by the same commit.
    @Test func Q1_a_call_that_arrives_during_a_write_joins_it() async throws {
        let gate = WriteGate()
        let found = Found()
        var other: Task<Void, any Error>?
        gate.submit([Self.command(drafts: 1)]) { collect in
            found.append(collect())
            other = Task { try await onThread { gate.submit([Self.command(drafts: 2)]) { _ in found.append([]) } } }
            while gate.waitingCommands == 0 { usleep(1_000) }
            while case let more = collect(), !more.isEmpty { found.append(more) }
        }
        try await other?.value
        #expect(found.all == [[1], [2]])
    }

    /// A batch that arrives while another call writes waits for its own commit, and so do those behind it; also one that is many calls.
    @Test(arguments: [[MessageInsertion.bulkThreshold], Array(repeating: 1, count: MessageInsertion.bulkThreshold)])
    func F9_no_call_waits_for_a_batch_that_arrives_later(batch: [Int]) async throws {
        let gate = WriteGate()
        let found = Found()
        var others: [Task<Void, any Error>] = []
        gate.submit([Self.command(drafts: 1)]) { collect in
            found.append(collect())
            for sizes in [[2], batch, [3]] {
                let before = gate.waitingCommands
                others.append(Task { try await onThread { gate.submit(sizes.map(Self.command(drafts:))) { found.append($0()) } } })
                while gate.waitingCommands == before { usleep(1_000) }
            }
            while case let more = collect(), !more.isEmpty { found.append(more) }
        }
        for other in others { try await other.value }
        #expect(found.all == [[1], [2], batch + [3]])
    }

    private static func command(drafts count: Int) -> WriteGate.Command { WriteGate.Command(DraftBatch(count: count) { _ in [] }) }

    /// What was collected: the number of drafts of each command.
    private final class Found: @unchecked Sendable {
        private let mutex = Mutex()
        private var found: [[Int]] = []

        var all: [[Int]] { mutex.withLock { found } }

        func append(_ commands: [WriteGate.Command]) { mutex.withLock { found.append(commands.map(\.drafts.count)) } }
    }

    /// No message is older than its call, although many calls share a commit. Single messages and batches of each size share one, too.
    @Test func Q1_messages_of_calls_that_share_a_commit_have_their_own_times() async throws {
        let directory = TemporaryDirectory()
        let queue = try MessageQueue(path: directory.store, options: MessageQueue.Options(mode: .manual))
        let sizes = [1, 1, 1, 3, MessageInsertion.bulkThreshold, 1, 2, 1]
        let calls = sizes.enumerated().map { place, size in
            Task {
                try await onThread {
                    for round in 0..<12 {
                        let before = MessageQueue.Timestamp(millisecondsSince1970: Ports.system.wall())
                        let ids = try queue.enqueue((0..<size).map { MessageQueue.Draft("\(round) \($0)", conversation: "c\(place)") })
                        let created = try queue.message(id: try #require(ids.last)).createdAt
                        #expect(created >= before)
                    }
                }
            }
        }
        for call in calls { try await call.value }
        for (place, size) in sizes.enumerated() {
            let texts = try queue.list(MessageQueue.Filter(conversation: "c\(place)", limit: 1_000)).map(\.text)
            #expect(texts == (0..<12).flatMap { round in (0..<size).map { "\(round) \($0)" } })
        }
        try await queue.close()
        #expect(try MessageQueue.check(path: directory.store).isSound)
    }
}
