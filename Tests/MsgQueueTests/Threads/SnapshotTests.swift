import Testing

@testable import MsgQueue

/// `snapshots(of:)` and `stateSnapshots`.
@Suite struct SnapshotTests {
    private let directory = TemporaryDirectory()

    private func open(_ transport: MessageQueue.Transport? = nil) throws -> MessageQueue {
        try MessageQueue(path: directory.store, options: .init(mode: .manual), transport: transport)
    }

    /// What an iteration has shown so far.
    private final class Shown<Value: Sendable & Equatable>: @unchecked Sendable {
        private let lock = Mutex()
        private var values: [Value] = []
        private var ended = false

        func add(_ value: Value) { lock.withLock { values.append(value) } }
        func end() { lock.withLock { ended = true } }

        var all: [Value] { lock.withLock { values } }
        var last: Value? { all.last }
        var hasEnded: Bool { lock.withLock { ended } }
    }

    private func show<Value>(
        _ snapshots: MessageQueue.Snapshots<Value>, every pause: Duration = .zero
    ) -> (shown: Shown<Value>, task: Task<Void, any Error>) {
        let shown = Shown<Value>()
        let task = Task {
            defer { shown.end() }
            for try await value in snapshots {
                shown.add(value)
                if pause > .zero { try await Task.sleep(for: pause) }
            }
        }
        return (shown, task)
    }

    @Test func X13_a_snapshot_is_the_current_list_and_follows_every_kind_of_change() async throws {
        let queue = try open { _ in .reject(.rejected, code: 400) }
        try queue.enqueue("first", id: "a")
        let (shown, task) = show(queue.snapshots(of: .init(statuses: .all)))
        #expect(await eventually { shown.last?.map(\.text) == ["first"] })
        try queue.enqueue("second", id: "b")
        #expect(await eventually { shown.last?.map(\.text) == ["first", "second"] })
        try queue.edit("a", body: "changed")
        #expect(await eventually { shown.last?.map(\.text) == ["changed", "second"] })
        try queue.delete("a")
        #expect(await eventually { shown.last?.map(\.id) == ["b"] })
        try await queue.drain()
        #expect(await eventually { shown.last?.map(\.status) == [.failed] })
        try queue.record(.init("received", id: "c"), sender: "Ana")
        #expect(await eventually { shown.last?.map(\.status) == [.failed, .delivered] })
        try queue.mark("c", as: .read)
        #expect(await eventually { shown.last?.map(\.status) == [.failed, .read] })
        try await queue.close()
        #expect(await eventually { shown.hasEnded })
        try await task.value
        for (value, next) in zip(shown.all, shown.all.dropFirst()) { #expect(value != next) }
    }

    @Test func X13_snapshots_of_a_filter_show_only_its_messages() async throws {
        let queue = try open()
        let (shown, task) = show(queue.snapshots(of: .init(conversation: "ana", limit: 2, newestFirst: true, withoutBodies: true)))
        for number in 0..<3 { try queue.enqueue("\(number)", conversation: "ana") }
        for number in 0..<50 { try queue.enqueue("\(number)", conversation: "ben") }
        #expect(await eventually { shown.last?.map(\.preview) == ["2", "1"] })
        try await queue.close()
        try await task.value
        #expect(shown.all.count <= 4 && shown.last?.first?.body == nil)
    }

    @Test func X13_the_last_list_of_a_queue_that_changes_all_the_time_is_never_missed() async throws {
        let queue = try open()
        let (fast, task) = show(queue.snapshots(of: .init(limit: 1000)))
        let (slow, slowTask) = show(queue.snapshots(of: .init(limit: 1000)), every: .milliseconds(150))
        for round in 0..<5 {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for writer in 0..<4 {
                    group.addTask {
                        try await onThread {
                            for number in 0..<60 {
                                let id = try queue.enqueue("\(number)", conversation: "\(writer)")
                                if number % 3 == 0 { try queue.edit(id, body: "edited in \(round)") }
                                if number % 4 == 0 { try queue.delete(id) }
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            let now = try queue.list(.init(limit: 1000))
            #expect(await eventually { fast.last == now && slow.last == now }, "round \(round)")
        }
        // The changes were joined: 60 enqueues, 20 edits and 15 deletions by 4 threads in 5 rounds.
        #expect(fast.all.count < 1_900 && slow.all.count < fast.all.count)
        let end = try queue.list(.init(limit: 1000))
        try await queue.close()
        try await task.value
        try await slowTask.value
        #expect(fast.last == end && slow.last == end)
    }

    @Test func X13_the_close_shows_what_it_leaves() async throws {
        let transport = RecordingTransport()
        transport.hold()
        let queue = try open(transport.send)
        let (shown, task) = show(queue.snapshots(of: .init(statuses: .all)))
        try queue.enqueue("in flight")
        #expect(await eventually { shown.last?.map(\.status) == [.sending] })
        Task {
            try await Task.sleep(for: .milliseconds(30))
            transport.release()
        }
        // The outcome comes during the close, and no event is read by anyone.
        try await queue.close()
        try await task.value
        #expect(shown.last?.map(\.status) == [.sent])

        let second = try open()
        let (late, lateTask) = show(second.snapshots(of: .init(statuses: .all)), every: .milliseconds(200))
        #expect(await eventually { late.all.count == 1 })
        try second.enqueue("while the reader is slow")
        try await second.close()
        try await lateTask.value
        #expect(late.all.map(\.count) == [1, 2])
    }

    @Test func X13_cancellation_ends_the_snapshots_and_a_closed_queue_has_none() async throws {
        let queue = try open()
        let (shown, task) = show(queue.snapshots())
        #expect(await eventually { shown.all.count == 1 })
        task.cancel()
        #expect(await eventually { shown.hasEnded })
        let (hammered, other) = show(queue.snapshots())
        for number in 0..<20 { try queue.enqueue("\(number)") }
        other.cancel()
        #expect(await eventually { hammered.hasEnded })
        let bad = queue.snapshots(of: .init(limit: 0))
        var iterator = bad.makeAsyncIterator()
        await #expect(throws: MessageQueue.Error.self) { try await iterator.next() }
        #expect(try await iterator.next() == nil)
        let left = queue.snapshots()
        try await queue.close()
        var none = left.makeAsyncIterator()
        #expect(try await none.next() == nil)
        #expect(try await none.next() == nil)
    }

    @Test func X13_a_queue_that_is_deallocated_ends_its_snapshots() async throws {
        var queue: MessageQueue? = try open()
        let (shown, task) = show(try #require(queue).snapshots())
        #expect(await eventually { shown.all.count == 1 })
        queue = nil
        try await task.value
        #expect(shown.all.count == 1)
    }

    @Test func X13_snapshots_of_the_state_follow_what_has_no_event() async throws {
        let queue = try open()
        let (shown, task) = show(queue.stateSnapshots)
        #expect(await eventually { shown.last?.hasTransport == false })
        try queue.setTransport { _ in .sent }
        #expect(await eventually { shown.last?.hasTransport == true })
        try queue.setBackground(true)
        #expect(await eventually { shown.last?.isInBackground == true })
        try queue.setConnectivity(.offline, reason: "no route")
        #expect(await eventually { shown.last?.offlineReason == "no route" && shown.last?.reason == .offline })
        try queue.pause()
        #expect(await eventually { shown.last?.isPaused == true })
        try queue.enqueue("hello", conversation: "ana")
        try queue.pause(conversation: "ana")
        #expect(await eventually { shown.last?.pausedConversations == 1 })
        let state = try queue.state()
        #expect(await eventually { shown.last == state })
        try await queue.close()
        try await task.value
    }

    /// A page with a damaged message reports it on each read, which must not be a change.
    @Test func X13_an_idle_queue_is_not_read() async throws {
        let queue = try open()
        try queue.enqueue("hello")
        let reads = Counter()
        let snapshots = MessageQueue.Snapshots<Int>(queue) { reader throws(QueueError) in
            reads.add()
            reader.events.emit(.storage(QueueError(.corrupt, "a message is damaged")))
            return 1
        }
        let (shown, task) = show(snapshots)
        #expect(await eventually { shown.all == [1] })
        let before = reads.value
        try await Task.sleep(for: .milliseconds(300))
        #expect(reads.value <= before + 3)
        try await queue.close()
        try await task.value
    }
}

private final class Counter: @unchecked Sendable {
    private let lock = Mutex()
    private var number = 0

    func add() { lock.withLock { number += 1 } }
    var value: Int { lock.withLock { number } }
}
