import Testing

@testable import MsgQueue

@Suite struct CollectRequestTests {
    private let directory = TemporaryDirectory()

    @Test func a_request_is_an_event_of_the_queue_and_so_is_the_interval() async throws {
        var options = MessageQueue.Options(mode: .manual)
        options.collectInterval = .milliseconds(20)
        let queue = try MessageQueue(path: directory.store, options: options)
        let log = EventLog(queue.events)
        func count() -> Int { log.events.count { $0 == .collect } }
        try queue.requestCollect()
        #expect(await eventually { count() == 1 })
        _ = try queue.handedOver(source: "orders")
        #expect(await eventually { count() >= 3 })
        #expect("\(MessageQueue.Event.collect)" == "collect")
        try await queue.close()
        #expect(throws: MessageQueue.Error.self) { try queue.requestCollect() }
    }

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
