import Testing

@testable import MsgQueue

/// The option `maintenance`.
@Suite struct MaintenanceTests {
    private func bench() throws -> EngineBench {
        let bench = try EngineBench {
            $0.mode = .manual
            $0.direct = false
        }
        try bench.engine.setNetwork(Network(connectivity: .online))
        return bench
    }

    @Test func I4_nothing_expires_or_is_pruned_or_forgotten_in_maintenance() throws {
        let bench = try bench()
        let (sent, deleted) = (try bench.enqueue("1"), try bench.enqueue("2"))
        try bench.drain()
        try bench.engine.delete(deleted)
        let late = try bench.enqueue("3", expiresAt: bench.clock.ports.wall() + 1_000)
        try bench.reopen {
            $0.maintenance = true
            ($0.keepSent, $0.keepSentFor, $0.rememberIDs) = (0, 0, 0)
        }
        try bench.pass(3_600_000)
        try bench.reportClock()
        #expect(try bench.status(sent) == .sent)
        #expect(try bench.status(late) == .queued)
        #expect(refusal { _ = try bench.enqueue("2", id: deleted) } == .duplicate)
        // The same options without maintenance.
        try bench.reopen { $0.maintenance = false }
        try bench.reportClock()
        #expect(refusal { _ = try bench.status(sent) } == .notFound)
        #expect(try bench.status(late) == .failed)
        #expect(try bench.enqueue("2", id: deleted) == deleted)
    }

    @Test func I4_a_failed_message_is_put_back_in_maintenance_and_sent_by_its_owner() throws {
        let bench = try bench()
        bench.answer(.reject(), .reject())
        let ids = try (1...3).map { try bench.enqueue("\($0)") }
        try bench.drain(batch: 2)
        try bench.reopen { $0.maintenance = true }
        try bench.engine.setNetwork(Network(connectivity: .online))
        try bench.engine.retry(ids[0])
        #expect(try bench.engine.retryAll(nil) == 1)
        try bench.pass(3_600_000)
        #expect(bench.deliveries.count == 2)
        #expect(try bench.engine.counts(nil).queued == 3)
        // An explicit drain sends.
        try bench.drain(batch: 1)
        #expect(bench.deliveries.map(\.id) == [ids[0], ids[1], ids[0]])
        try bench.reopen { $0.maintenance = false }
        try bench.engine.setNetwork(Network(connectivity: .online))
        try bench.drain()
        #expect(bench.deliveries.map(\.id).suffix(2) == ids[1...])
    }

    @Test func I4_a_drain_in_maintenance_keeps_what_it_sent() throws {
        let bench = try bench()
        let id = try bench.enqueue("1")
        try bench.reopen {
            $0.maintenance = true
            ($0.keepSent, $0.keepSentFor) = (0, 0)
        }
        try bench.engine.setNetwork(Network(connectivity: .online))
        try bench.drain()
        try bench.pass(3_600_000)
        try bench.reportClock()
        #expect(try bench.status(id) == .sent)
    }

    @Test func I4_the_texts_in_maintenance_say_who_sends() throws {
        let bench = try bench()
        let id = try bench.enqueue("1")
        try bench.reopen { $0.maintenance = true }
        try bench.engine.setTransport(nil)
        let text = "The store is open for maintenance. Its program sends when it has the store open."
        #expect(try bench.engine.explain(id).text == text)
        #expect(try bench.engine.state().text == text)
    }
}
