import Testing

@testable import MsgQueue

@Suite struct CollectRequestTests {
    @Test func requests_that_wait_share_an_event() {
        var queue = EventQueue()
        for _ in 0..<3 { queue.append(.collect, at: 1) }
        #expect(queue.count == 1)
        guard case .event(.collect, _)? = queue.popFirst() else {
            Issue.record("no event")
            return
        }
        // It is being delivered: the next request is for later.
        queue.append(.collect, at: 2)
        #expect(queue.count == 1)
    }

    @Test func a_request_after_events_were_dropped_is_an_event() {
        var queue = EventQueue()
        queue.append(.collect, at: 1)
        for _ in 0..<EventQueue.ceiling { queue.append(.promptWithdrawn, at: 1) }
        #expect(queue.count == 1, "a resync")
        queue.append(.collect, at: 2)
        #expect(queue.count == 2)
    }
}
