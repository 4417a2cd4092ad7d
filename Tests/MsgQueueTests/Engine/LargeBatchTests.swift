import Testing

@testable import MsgQueue

/// The events of large batches, and drafts that are decoded in parts.
@Suite struct LargeBatchTests {
    private let directory = TemporaryDirectory()

    /// A handler that does not return before it is let go.
    private final class Listener: @unchecked Sendable {
        private let mutex = Mutex()
        private let gate = Semaphore()
        private var isFirst = true
        private var heard: [Event] = []

        func hear(_ event: Event) {
            if mutex.withLock({ isFirst }) { gate.wait() }
            mutex.withLock {
                isFirst = false
                heard.append(event)
            }
        }

        func letGo() { gate.post() }

        var ids: [String] {
            mutex.withLock { heard.compactMap { if case .status(let change) = $0 { change.id } else { nil } } }
        }
        var lost: [Int64] {
            mutex.withLock { heard.compactMap { if case .resync(let lost) = $0 { lost } else { nil } } }
        }
    }

    private func engine(_ listener: Listener) throws -> Engine {
        var options = Options()
        (options.mode, options.direct) = (.manual, false)
        let engine = try Engine(path: directory.store, options: options)
        try engine.setHandler(Registration({ event, _ in listener.hear(event) }))
        return engine
    }

    private func draft(id: String? = nil, _ conversation: Name = "ana") -> BorrowedDraft {
        BorrowedDraft(
            id: id, conversation: conversation, body: UnsafeRawBufferPointer(start: nil, count: 0), metadata: [], notBefore: 0,
            expiresAt: 0, unmeteredOnly: false)
    }

    @Test func Q1_each_message_of_a_large_batch_has_its_event() async throws {
        let listener = Listener()
        let engine = try engine(listener)
        // Runs of generated ids of different lengths, and ids of the caller between them.
        let drafts = (0..<30_000).map { number in
            draft(id: number % 5_000 == 4_999 ? "own-\(number)" : nil, number < 7_000 ? "ana" : "ben")
        }
        let ids = try engine.enqueue(DraftBatch(count: drafts.count) { Array(drafts[$0]) }).ids()
        listener.letGo()
        #expect(await eventually { listener.ids.count == drafts.count })
        #expect(listener.ids == ids)
        #expect(Set(ids).count == drafts.count)
        #expect(listener.lost == [])
        #expect(try engine.list(Filter(after: 29_998, limit: 10)).map(\.id) == Array(ids.suffix(2)))
        #expect(try await onThread { try engine.close(timeout: nil) } == .complete)
    }

    @Test func Q1_a_handler_is_told_how_many_events_were_lost() async throws {
        let listener = Listener()
        let engine = try engine(listener)
        let drafts = (0..<25_000).map { draft($0 % 2 == 0 ? "ana" : "ben") }
        _ = try engine.enqueue(DraftBatch(count: drafts.count) { Array(drafts[$0]) })
        listener.letGo()
        #expect(await eventually { Int64(listener.ids.count) + listener.lost.reduce(0, +) == 25_000 })
        #expect(listener.lost.count == 1)
        #expect(try await onThread { try engine.close(timeout: nil) } == .complete)
    }

    @Test func Q14_an_id_that_occurs_twice_far_apart_refuses_the_batch() async throws {
        let listener = Listener()
        let engine = try engine(listener)
        let drafts = (0..<5_000).map { draft(id: "\($0 % 4_999)") }
        let batch = DraftBatch(count: drafts.count) { Array(drafts[$0]) }
        #expect(refusal { _ = try engine.enqueue(batch) } == .duplicate)
        #expect(try engine.counts(nil).queued == 0)
        #expect(try await onThread { try engine.close(timeout: nil) } == .complete)
    }

    /// A C program could change its memory during the call.
    @Test func Q12_messages_whose_drafts_were_changed_during_the_call_are_sent() async throws {
        let listener = Listener()
        let engine = try engine(listener)
        let drafts = (0..<3_000).map { _ in draft() }
        var reads = 0
        // Each pass reads three parts: the check, the insertion, the report.
        let batch = DraftBatch(count: drafts.count) { range throws(QueueError) in
            reads += 1
            guard reads <= 7 else { throw QueueError(.invalid, "changed") }
            return Array(drafts[range])
        }
        let stored = try engine.enqueue(batch)
        #expect(refusal { _ = try stored.ids() } == .unknown)
        listener.letGo()
        #expect(await eventually { listener.lost == [3_000 - 1_024] })
        #expect(listener.ids.count == 1_024)
        try engine.setTransport(Registration({ _ in .sent }))
        try engine.drain(batch: 0, timeout: nil) { _ in }
        #expect(try await eventually { try engine.counts(nil).sent == 3_000 })
        #expect(try await onThread { try engine.close(timeout: nil) } == .complete)
    }
}
