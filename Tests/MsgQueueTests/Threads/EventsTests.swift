import Testing

@testable import MsgQueue

@Suite struct EventsTests {
    private let directory = TemporaryDirectory()

    @Test func R13_each_reader_receives_every_status_of_ten_messages_in_order() async throws {
        let transport = RecordingTransport()
        let queue = try MessageQueue(path: directory.store) { await transport.send($0) }
        let logs = [EventLog(queue.events), EventLog(queue.events)]
        let ids = try (0..<10).map { try queue.enqueue("\($0)", conversation: "c\($0 % 2)") }
        for log in logs {
            #expect(await eventually { log.changes().count { $0.to == .sent } == 10 })
            for id in ids {
                let changes = log.changes(of: id)
                #expect(changes.map(\.to) == [.queued, .sending, .sent])
                #expect(changes.map(\.from) == [nil, .queued, .sending])
                #expect(changes.map(\.attempt) == [nil, 1, 1])
                #expect(changes.allSatisfy { $0.at.millisecondsSince1970 > 0 })
            }
        }
        #expect(logs[0].changes() == logs[1].changes())
        try await queue.close()
        for log in logs { #expect(await eventually { log.hasEnded }, "a stream ends with its queue") }
    }

    @Test func Q2_a_summary_follows_every_change() async throws {
        let queue = try MessageQueue(path: directory.store)
        let log = EventLog(queue.events)
        try queue.setConnectivity(.offline)
        for number in 0..<5 { try queue.enqueue("\(number)") }
        let expected = try queue.counts()
        #expect(
            await eventually {
                log.events.contains {
                    if case .summary(let counts, let network) = $0 { counts == expected && network.connectivity == .offline } else { false }
                }
            })
        try await queue.close()
    }

    @Test func A_drain_reports_its_start_and_its_end() async throws {
        let transport = RecordingTransport()
        let queue = try MessageQueue(path: directory.store, options: MessageQueue.Options(mode: .manual)) { await transport.send($0) }
        try queue.setConnectivity(.offline)
        try queue.enqueue([MessageQueue.Draft("1"), MessageQueue.Draft("2")])
        try queue.setConnectivity(.online)
        let log = EventLog(queue.events)
        let report = try await queue.drain()
        // When the drain returns, its events have been delivered.
        try await queue.close()
        #expect(await eventually { log.hasEnded })
        #expect(log.reports == [report])
        let starts = log.events.compactMap { if case .drainStarted(let counts) = $0 { counts.queued } else { nil } }
        #expect(starts == [2])
        let firstSent = log.events.firstIndex { if case .status(let change) = $0 { change.to == .sending } else { false } }
        let started = log.events.firstIndex { if case .drainStarted = $0 { true } else { false } }
        #expect(try #require(started) < (try #require(firstSent)))
    }

    @Test func Q6_delete_and_clear_are_reported_by_events() async throws {
        let queue = try MessageQueue(path: directory.store)
        let log = EventLog(queue.events)
        let id = try queue.enqueue("a", conversation: "ana")
        try queue.delete(id)
        try queue.clear(conversation: "ana")
        try queue.clear()
        try await queue.close()
        #expect(await eventually { log.hasEnded })
        #expect(log.events.contains(.deleted(id: id, conversation: "ana")))
        #expect(log.events.contains(.cleared(conversation: "ana")))
        #expect(log.events.contains(.cleared(conversation: nil)))
    }

    @Test func a_reader_of_a_closed_queue_ends_at_once() async throws {
        let queue = try MessageQueue(path: directory.store)
        try await queue.close()
        let log = EventLog(queue.events)
        #expect(await eventually { log.hasEnded })
        #expect(log.events.isEmpty)
    }
}
