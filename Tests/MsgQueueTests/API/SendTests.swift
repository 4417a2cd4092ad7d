import Testing

@testable import MsgQueue

/// Sending and waiting for the outcome.
@Suite struct SendTests {
    private let directory = TemporaryDirectory()

    /// Lets transports wait until the test opens it.
    private final class Gate: @unchecked Sendable {
        private let mutex = Mutex()
        private var isOpen = false
        func open() { mutex.withLock { isOpen = true } }
        func pass() async { while !mutex.withLock({ isOpen }) { try? await Task.sleep(for: .milliseconds(1)) } }
    }

    @Test func M14_send_returns_the_outcome() async throws {
        let queue = try MessageQueue(path: directory.store) { delivery in
            switch delivery.conversation {
            case "no": .reject(.rejected, code: 422)
            case "later": .retry(.server)
            default: .sent
            }
        }
        let sent = try await queue.send("hello", metadata: ["k": "v"], id: "a", timeout: .seconds(60))
        #expect(sent.id == "a" && sent.status == .sent && sent.text == "hello" && sent.metadata == ["k": "v"])
        #expect(sent.explanation?.reason == .done)
        let failed = try await queue.send("hello", conversation: "no")
        #expect(failed.status == .failed && failed.failure?.code == 422)
        let retried = try await queue.send("hello", conversation: "later")
        #expect(retried.status == .queued && retried.failure?.kind == .server && retried.explanation?.reason == .retrying)
        try queue.pause()
        let paused = try await queue.send("hello")
        #expect(paused.status == .queued && paused.explanation?.reason == .paused)
        #expect(try await queue.wait(for: "a").status == .sent)
        #expect(try queue.message(id: "a").explanation == nil)
        await #expect(throws: MessageQueue.Error.self) { try await queue.wait(for: "nobody") }
        await #expect(throws: MessageQueue.Error.self) { try await queue.send("again", id: "a") }
        try await queue.close()
    }

    @Test func M14_a_timeout_and_a_cancellation_leave_the_message() async throws {
        let gate = Gate()
        let queue = try MessageQueue(path: directory.store) { _ in
            await gate.pass()
            return .sent
        }
        let message = try await queue.send("1", id: "a", timeout: .milliseconds(30))
        #expect(message.status == .sending && message.explanation?.reason == .sending)
        let task = Task { try await queue.send("2", id: "b") }
        #expect(await eventually { (try? queue.message(id: "b")) != nil })
        task.cancel()
        let cancelled = try await task.value
        #expect(cancelled.status == .queued && cancelled.explanation?.reason == .behind && cancelled.explanation?.behind == "a")
        gate.open()
        #expect(try await queue.wait(for: "b").status == .sent)
        try await queue.close()
    }

    @Test func M14_a_transport_cannot_wait_and_a_close_ends_waits() async throws {
        let (gate, box) = (Gate(), Box())
        let queue = try MessageQueue(path: directory.store) { delivery in
            do { _ = try await box.queue?.send("inside") } catch { box.error = error as? MessageQueue.Error }
            await gate.pass()
            return .sent
        }
        box.queue = queue
        let task = Task { try await queue.send("1", id: "a") }
        #expect(await eventually { box.error != nil })
        #expect(box.error?.code == .conflict)
        #expect(try queue.counts().queued == 0)
        #expect(try await !queue.close(timeout: .milliseconds(20)))
        let result = await task.result
        #expect(throws: MessageQueue.Error.self) { try result.get() }
        gate.open()
        box.queue = nil
    }

    private final class Box: @unchecked Sendable {
        private let mutex = Mutex()
        private var (given, found): (MessageQueue?, MessageQueue.Error?)
        var queue: MessageQueue? {
            get { mutex.withLock { given } }
            set { mutex.withLock { given = newValue } }
        }
        var error: MessageQueue.Error? {
            get { mutex.withLock { found } }
            set { mutex.withLock { found = newValue } }
        }
    }
}
