import Testing

@testable import MsgQueue

@Suite struct CloseTests {
    private let directory = TemporaryDirectory()

    private var options: MessageQueue.Options {
        var options = MessageQueue.Options()
        options.attemptTimeout = .seconds(600)
        return options
    }

    @Test func close_waits_for_attempts_in_progress_and_starts_no_more() async throws {
        let transport = RecordingTransport()
        let queue = try MessageQueue(path: directory.store, options: options) { await transport.send($0) }
        transport.hold()
        let log = EventLog(queue.events)
        let ids = try queue.enqueue([MessageQueue.Draft("1", conversation: "ana"), MessageQueue.Draft("2", conversation: "ana")])
        #expect(await eventually { transport.deliveries.count == 1 })
        async let closed = onThread { try queue.syncClose(timeout: .seconds(60)) }
        #expect(await eventually { refusal { _ = try queue.counts() } == .closed }, "calls are refused while it closes")
        transport.release()
        #expect(try await closed)
        #expect(await eventually { log.hasEnded })
        #expect(log.statuses(of: ids[0]) == [.queued, .sending, .sent], "events before the end were delivered")
        let next = try MessageQueue(path: directory.store)
        #expect(try next.message(id: ids[0]).status == .sent)
        #expect(try next.message(id: ids[1]).status == .queued)
        #expect(transport.texts == ["1"])
        try await next.close()
    }

    @Test func X3_close_times_out_and_the_attempt_counts_as_interrupted() async throws {
        let transport = RecordingTransport()
        let queue = try MessageQueue(path: directory.store, options: options) { await transport.send($0) }
        transport.hold()
        let id = try queue.enqueue("1")
        #expect(await eventually { transport.deliveries.count == 1 })
        let isQuiet = try await onThread { try queue.syncClose(timeout: .milliseconds(1)) }
        #expect(!isQuiet)
        var again = options
        again.mode = .manual
        let next = try MessageQueue(path: directory.store, options: again) { await transport.send($0) }
        let message = try next.message(id: id)
        #expect(message.status == .queued)
        #expect(message.attempts == 1)
        #expect(message.failure?.kind == .unknown)
        #expect(try next.attempts(id).map(\.outcome) == [.unknown])
        transport.release()
        #expect(try await next.drain().sent == 1)
        #expect(transport.deliveries.map(\.id) == [id, id], "under the same id")
        #expect(transport.deliveries.map(\.attempt) == [1, 2])
        try await next.close()
    }

    @Test func X3_hold_interrupted_holds_the_message_for_a_person() async throws {
        let transport = RecordingTransport()
        let queue = try MessageQueue(path: directory.store, options: options) { await transport.send($0) }
        transport.hold()
        let id = try queue.enqueue("1")
        #expect(await eventually { transport.deliveries.count == 1 })
        _ = try await onThread { try queue.syncClose(timeout: .zero) }
        transport.release()
        var holding = options
        holding.holdInterrupted = true
        let next = try MessageQueue(path: directory.store, options: holding) { await transport.send($0) }
        #expect(try next.message(id: id).status == .failed)
        #expect(try next.message(id: id).failure?.kind == .unknown)
        try next.retry(id)
        #expect(await eventually { (try? next.message(id: id).status) == .sent })
        try await next.close()
    }

    @Test func close_ends_a_drain_in_progress_with_the_stop_closed() async throws {
        let transport = RecordingTransport()
        let queue = try MessageQueue(path: directory.store, options: options) { await transport.send($0) }
        transport.hold()
        try queue.enqueue([MessageQueue.Draft("1"), MessageQueue.Draft("2")])
        async let report = queue.drain()
        #expect(await eventually { transport.deliveries.count == 1 })
        _ = try await onThread { try queue.syncClose(timeout: .zero) }
        #expect(try await report.stop == .closed)
        transport.release()
    }

    @Test func close_on_two_threads_returns_on_both() async throws {
        for _ in 0..<20 {
            let queue = try MessageQueue(path: directory.store)
            async let first = onThread { refusal { try queue.syncClose() } }
            async let second = onThread { refusal { try queue.syncClose() } }
            let answers = try await [first, second]
            #expect(answers.count { $0 == nil } == 1)
            #expect(answers.count { $0 == .closed } == 1)
        }
    }

    @Test func a_deallocated_queue_can_be_opened_again() throws {
        for round in 0..<5 {
            var queue: MessageQueue? = try MessageQueue(path: directory.store)
            try queue?.enqueue("\(round)")
            queue = nil
        }
        let queue = try MessageQueue(path: directory.store)
        #expect(try queue.counts().queued == 5)
        try queue.syncClose()
    }

    @Test func a_queue_cannot_be_closed_inside_its_own_callback() throws {
        let bench = try EngineBench()
        nonisolated(unsafe) var answer: QueueError.Code?
        let engine = bench.engine
        try engine.setTransport(
            Registration({ _ in
                answer = refusal { _ = try engine.close(timeout: 0) }
                return .sent
            }))
        let id = try bench.enqueue()
        try bench.poll()
        #expect(answer == .conflict)
        #expect(try bench.status(id) == .sent)
    }
}
