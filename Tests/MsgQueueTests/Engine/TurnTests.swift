import Testing

@testable import MsgQueue

/// What concerns many messages or conversations is done in parts, between which other calls have their turn.
@Suite struct TurnTests {
    @Test func F9_a_step_of_retry_all_puts_at_most_128_messages_back() throws {
        let bench = try EngineBench { ($0.mode, $0.direct) = (.manual, false) }
        bench.answer(by: { _ in .reject() })
        for _ in 0..<300 { try bench.enqueue() }
        try bench.drain()
        try bench.engine.pause(nil)
        var search = FailedMessages.Search(.failed(nil))
        var steps: [Int64] = []
        var hasMore = true
        while hasMore {
            let before = search.count
            hasMore = try bench.engine.changing { () throws(QueueError) in try bench.engine.changes.putBack(&search) }
            steps.append(search.count - before)
        }
        #expect(steps == [128, 128, 44])
        #expect(try bench.engine.counts(nil).queued == 300)
    }
}
