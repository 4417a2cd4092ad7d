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
}
