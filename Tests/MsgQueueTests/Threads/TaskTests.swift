import Testing

@testable import MsgQueue

/// A host that uses tasks: many attempts, cancellation, event readers.
@Suite struct TaskTests {
    private let directory = TemporaryDirectory()

    private func options(_ change: (inout MessageQueue.Options) -> Void = { _ in }) -> MessageQueue.Options {
        var options = MessageQueue.Options()
        options.attemptTimeout = .seconds(600)
        change(&options)
        return options
    }

    /// Collects lines from several tasks.
    private final class Notes: @unchecked Sendable {
        private let mutex = Mutex()
        private var lines: [String] = []
        func add(_ line: String) { mutex.withLock { lines.append(line) } }
        var all: [String] { mutex.withLock { lines } }
    }

    @Test func A10_X8_sixty_four_parallel_attempts_need_few_threads() async throws {
        let transport = RecordingTransport()
        transport.hold()
        let queue = try MessageQueue(path: directory.store, options: options { $0.maxInFlight = 64 }) { await transport.send($0) }
        let before = ProcessTable.threads
        let drafts = (0..<192).map { MessageQueue.Draft("\($0 / 64)", conversation: "to \($0 % 64)") }
        try queue.enqueue(drafts)
        #expect(await eventually { transport.mostAtOnce == 64 })
        // One thread for the caller, and those of the tasks.
        #expect(ProcessTable.threads <= before + 4, "\(ProcessTable.threads) threads, \(before) before")
        transport.release()
        #expect(try await eventually { try queue.counts().sent == 192 })
        #expect(transport.overlaps == 0)
        for conversation in 0..<64 {
            let texts = transport.deliveries.filter { $0.conversation == "to \(conversation)" }.map(\.text)
            #expect(texts == ["0", "1", "2"])
        }
        try await queue.close()
    }

    @Test(arguments: [1, 8]) func F10_an_async_transport_ends_and_begins_attempts_in_one_commit(inFlight: Int) async throws {
        let messages = 300
        let queue = try MessageQueue(
            path: directory.store,
            options: options {
                ($0.mode, $0.direct, $0.maxInFlight) = (.manual, false, inFlight)
            }
        ) { _ in
            // The next attempt begins with this outcome if the call that started this task has returned before.
            try await Task.sleep(for: .milliseconds(2))
            return .sent
        }
        try queue.enqueue((0..<messages).map { MessageQueue.Draft("\($0)", conversation: "to \($0 % 16)") })
        func commits() -> Int { queue.engine.context.lock.withLock { queue.engine.context.store.commits } }
        let before = commits()
        #expect(try await queue.drain().sent == messages)
        let made = commits() - before
        #expect(made < messages * 3 / 2, "\(made) commits")
        try await queue.close()
    }

    private struct Unencodable: Error {}

    @Test func R16_a_transport_that_throws_fails_the_message() async throws {
        let queue = try MessageQueue(path: directory.store, options: options { $0.mode = .manual }) { delivery in
            guard delivery.id != "encoding" else {
                throw EncodingError.invalidValue(delivery.text, .init(codingPath: [], debugDescription: "no such template"))
            }
            throw Unencodable()
        }
        try queue.enqueue("hello", conversation: "ana", id: "encoding")
        try queue.enqueue("hello", conversation: "ben", id: "other")
        #expect(try await eventually { try queue.counts().failed == 2 })
        let local = try #require(try queue.message(id: "encoding").failure)
        #expect(local.kind == .local && !local.isRetryable && local.text.contains("no such template"))
        #expect(try queue.attempts("encoding").map(\.arrival) == [.no])
        let other = try #require(try queue.message(id: "other").failure)
        #expect(other.kind == .unknown && other.isRetryable && other.text == "the transport threw Unencodable()")
        try await queue.close()
    }

    @Test func R16_a_batch_that_throws_does_not_say_which_message_it_means() async throws {
        let queue = try MessageQueue(path: directory.store, options: options { ($0.mode, $0.direct) = (.manual, false) })
        try queue.setBatchTransport { deliveries in
            throw EncodingError.invalidValue(deliveries.count, .init(codingPath: [], debugDescription: "one of them"))
        }
        try queue.enqueue(["ana", "ben"].map { MessageQueue.Draft("hello", conversation: $0, id: $0) })
        let report = try await queue.drain()
        #expect(report.failed == 2)
        for id in ["ana", "ben"] { #expect(try queue.message(id: id).failure?.kind == .unknown) }
        try await queue.close()
    }

    @Test func R14_Q19_retry_all_sends_failed_messages_and_a_drain_one_conversation() async throws {
        let notes = Notes()
        let queue = try MessageQueue(
            path: directory.store,
            options: options {
                $0.mode = .manual
                $0.direct = false
            }
        ) { delivery in
            notes.add(delivery.id)
            return notes.all.count <= 2 ? .reject() : .sent
        }
        try queue.enqueue(["a", "b", "a", "b"].enumerated().map { MessageQueue.Draft("x", conversation: $1, id: "\($0)") })
        let first = try await queue.drain(conversation: "a")
        #expect(first == MessageQueue.Report(stop: .empty, failed: 2, remainingFailed: 2))
        #expect(throws: MessageQueue.Error.self) { try queue.retryAll(conversation: "a\n") }
        #expect(try queue.retryAll(conversation: "b") == 0)
        #expect(try queue.retryAll() == 2)
        #expect(try await eventually { try queue.counts().sent == 2 })
        #expect(notes.all == ["0", "2", "0", "2"])
        #expect(try await queue.drain() == MessageQueue.Report(stop: .empty, sent: 2))
        try await queue.close()
    }

    @Test func X8_an_attempt_that_timed_out_is_cancelled_when_the_next_one_begins() async throws {
        let notes = Notes()
        let queue = try MessageQueue(
            path: directory.store,
            options: options {
                $0.attemptTimeout = .milliseconds(50)
                $0.backoff = .ladder([.milliseconds(1)])
            }
        ) { delivery in
            guard delivery.attempt == 1 else { return .sent }
            do { try await Task.sleep(for: .seconds(600)) } catch { notes.add("cancelled") }
            return .retry(.network)
        }
        let id = try queue.enqueue("1")
        #expect(try await eventually { try queue.message(id: id).status == .sent })
        #expect(await eventually { notes.all == ["cancelled"] })
        #expect(try queue.attempts(id).map(\.outcome).count == 2)
        try await queue.close()
    }

    @Test func X8_close_cancels_the_tasks_that_it_did_not_wait_for() async throws {
        let notes = Notes()
        let queue = try MessageQueue(path: directory.store, options: options()) { _ in
            notes.add("began")
            do { try await Task.sleep(for: .seconds(600)) } catch { notes.add("cancelled") }
            return .sent
        }
        try queue.enqueue("1")
        #expect(await eventually { notes.all == ["began"] })
        #expect(try await queue.close(timeout: .milliseconds(10)) == false)
        #expect(await eventually { notes.all == ["began", "cancelled"] })
    }

    @Test func Q5_cancelling_a_waiter_does_not_stop_the_drain() async throws {
        let transport = RecordingTransport()
        transport.hold()
        let queue = try MessageQueue(
            path: directory.store,
            options: options {
                $0.mode = .manual; $0.direct = false
            }
        ) {
            await transport.send($0)
        }
        try queue.enqueue([MessageQueue.Draft("1"), MessageQueue.Draft("2")])
        let waiting = Task { try await queue.drain() }
        let other = Task { try await queue.drain() }
        #expect(await eventually { transport.deliveries.count == 1 })
        waiting.cancel()
        let report = try await waiting.value
        #expect(report.stop == .started)
        #expect(report.remaining == 2)
        transport.release()
        #expect(try await other.value == MessageQueue.Report(stop: .empty, sent: 2))
        try await queue.close()
    }

    @Test func A6_a_drain_that_joins_another_has_its_own_timeout() async throws {
        let transport = RecordingTransport()
        transport.hold()
        let queue = try MessageQueue(
            path: directory.store,
            options: options {
                $0.mode = .manual; $0.direct = false
            }
        ) {
            await transport.send($0)
        }
        try queue.enqueue("1")
        let endless = Task { try await queue.drain() }
        #expect(await eventually { transport.deliveries.count == 1 })
        #expect(try await queue.drain(timeout: .milliseconds(50)) == MessageQueue.Report(stop: .timeout, remaining: 1))
        transport.release()
        #expect(try await endless.value == MessageQueue.Report(stop: .empty, sent: 1))
        try await queue.close()
    }

    @Test func Q5_a_task_cancelled_before_it_waits_returns_at_once() async throws {
        let transport = RecordingTransport()
        transport.hold()
        let queue = try MessageQueue(path: directory.store, options: options()) { await transport.send($0) }
        try queue.enqueue("1")
        let waiting = Task {
            while !Task.isCancelled { await Task.yield() }
            return try await queue.drain()
        }
        waiting.cancel()
        #expect(try await waiting.value.stop == .started)
        transport.release()
        #expect(try await eventually { try queue.counts().sent == 1 })
        try await queue.close()
    }

    @Test func a_transport_may_call_everything_but_close() async throws {
        let notes = Notes()
        let box = QueueBox()
        let queue = try MessageQueue(
            path: directory.store,
            options: options {
                $0.mode = .manual; $0.direct = false
            }
        ) { delivery in
            guard let queue = box.queue else { return .offline }
            do {
                notes.add("\(try await queue.drain().stop)")
                try queue.enqueue("more", conversation: "ben", id: "more")
                _ = try queue.list()
                notes.add("\(try queue.message(id: delivery.id).status)")
                let isRefused = await refused { () async throws(QueueError) in try await queue.close() }
                notes.add("\(isRefused)")
            } catch { notes.add("\(error)") }
            return .sent
        }
        box.queue = queue
        try queue.enqueue("1", conversation: "ana", id: "first")
        try queue.sendNow("first")
        #expect(try await eventually { try queue.message(id: "first").status == MessageStatus.sent })
        #expect(Array(notes.all.prefix(3)) == ["started", "sending", "true"])
        box.queue = nil
        try await queue.close()
    }

    @Test func R13_a_reader_that_stops_reading_does_not_affect_others() async throws {
        let queue = try MessageQueue(
            path: directory.store,
            options: options {
                $0.mode = .manual; $0.direct = false
            })
        let log = EventLog(queue.events)
        let stream = queue.events
        let reader = Task {
            for await _ in stream { break }
        }
        let id = try queue.enqueue("1")
        await reader.value
        let cancelled = Task {
            for await _ in queue.events {}
        }
        cancelled.cancel()
        await cancelled.value
        try queue.delete(id)
        #expect(await eventually { log.events.contains(.deleted(id: id, conversation: "")) })
        try await queue.close()
        #expect(await eventually { log.hasEnded })
    }

    @Test func R13_a_slow_reader_loses_the_oldest_events_and_gets_a_resync() async throws {
        let queue = try MessageQueue(
            path: directory.store,
            options: options {
                $0.mode = .manual; $0.direct = false
            })
        let lazy = queue.events
        let log = EventLog(queue.events)
        try queue.enqueue((0..<12_000).map { MessageQueue.Draft("\($0)") })
        #expect(await eventually { log.events.count >= 12_000 || log.events.contains { lost(in: $0) != nil } })
        try await queue.close()
        var read: [MessageQueue.Event] = []
        for await event in lazy { read.append(event) }
        #expect(read.count <= 10_001, "the buffer, and the event about the lost ones")
        #expect(read.contains { lost(in: $0) != nil })
        #expect(await eventually { log.hasEnded })
        func total(_ events: [MessageQueue.Event]) -> Int { events.reduce(0) { $0 + (lost(in: $1) ?? 1) } }
        #expect(total(read) == total(log.events), "each event was read or counted")
    }

    private func lost(in event: MessageQueue.Event) -> Int? { if case .resync(let lost) = event { lost } else { nil } }

    @Test func R13_a_slow_reader_gets_a_resync_for_each_gap() async {
        let broadcaster = Broadcaster()
        let stream = broadcaster.subscribe().0.stream { $0 }
        var reader = stream.makeAsyncIterator()
        for lost in [1, 900, 1, 20_000] {
            for number in 0..<10_000 + lost { broadcaster.publish(.deleted(id: "\(number)", conversation: "")) }
            #expect(await reader.next() == .resync(lostEvents: Int64(lost)))
            for number in lost..<10_000 + lost {
                guard await reader.next() == .deleted(id: "\(number)", conversation: "") else {
                    Issue.record("\(number) is missing")
                    return
                }
            }
        }
        for number in 0..<10_000 { broadcaster.publish(.deleted(id: "\(number)", conversation: "")) }
        #expect(await reader.next() == .deleted(id: "0", conversation: ""), "nothing was lost, so there is no resync")
        broadcaster.finish()
        var left = 0
        while await reader.next() != nil { left += 1 }
        #expect(left == 9_999, "buffered events are read after the end")
    }

    @Test func R13_an_unreferenced_reader_is_removed() async throws {
        let broadcaster = Broadcaster()
        weak var gone: EventReader?
        do {
            let reader = EventReader()
            gone = reader
            _ = reader.stream { $0 }
        }
        #expect(gone == nil)
        let waiting = Task {
            for await _ in broadcaster.subscribe().0.stream({ $0 }) {}
            return true
        }
        waiting.cancel()
        #expect(await waiting.value)
    }

    /// From the moment when the message is sent.
    @Test func a_task_started_by_a_transport_may_close_after_it_returned() async throws {
        for _ in 0..<50 {
            let box = QueueBox()
            let notes = Notes()
            let queue = try MessageQueue(path: directory.store, options: options()) { delivery in
                Task {
                    while (try? box.queue?.message(id: delivery.id).status) != .sent { await Task.yield() }
                    do { notes.add("closed \(try await box.queue?.close() ?? false)") } catch { notes.add("\(error)") }
                }
                return .sent
            }
            box.queue = queue
            try queue.enqueue("1")
            #expect(await eventually { !notes.all.isEmpty })
            #expect(notes.all == ["closed true"])
            box.queue = nil
        }
    }
}

/// A queue to which its own transport refers.
private final class QueueBox: @unchecked Sendable {
    private let mutex = Mutex()
    private var held: MessageQueue?

    var queue: MessageQueue? {
        get { mutex.withLock { held } }
        set { mutex.withLock { held = newValue } }
    }
}

private func refused(_ body: () async throws(QueueError) -> Bool) async -> Bool {
    do {
        _ = try await body()
        return false
    } catch { return error.code == .conflict }
}
