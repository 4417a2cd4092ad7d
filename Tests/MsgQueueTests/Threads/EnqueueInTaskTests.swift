import Testing

@testable import MsgQueue

/// `enqueueWithoutBlocking`.
@Suite struct EnqueueInTaskTests {
    private let directory = TemporaryDirectory()

    private func open() throws -> MessageQueue { try MessageQueue(path: directory.store, options: .init(mode: .manual)) }

    @Test func it_stores_what_enqueue_stores_and_throws_what_it_throws() async throws {
        let queue = try open()
        let id = try await queue.enqueueWithoutBlocking("hello", conversation: "ana", metadata: ["a": "b"], id: "first")
        let message = try queue.message(id: id)
        #expect(id == "first" && message.text == "hello" && message.conversation == "ana" && message.metadata == ["a": "b"])
        let ids = try await queue.enqueueWithoutBlocking([.init([1]), .init([]), .init([2, 3])])
        #expect(try ids.map { try queue.message(id: $0).body } == [[1], [], [2, 3]])
        #expect(try await queue.enqueueWithoutBlocking([]) == [])
        #expect(await refusal { try await queue.enqueueWithoutBlocking("again", id: "first") } == .duplicate)
        #expect(await refusal { try await queue.enqueueWithoutBlocking("bad", conversation: "\n") } == .invalid)
        #expect(await refusal { try await queue.enqueueWithoutBlocking([.init("x", id: "x"), .init("y", id: "x")]) } == .duplicate)
        #expect(try queue.counts().queued == 4)
        try await queue.close()
        #expect(await refusal { try await queue.enqueueWithoutBlocking("late") } == .closed)
    }

    @Test func an_error_of_one_call_does_not_affect_those_that_share_its_write() async throws {
        let queue = try open()
        try queue.enqueue("0", id: "0")
        queue.engine.context.lock.lock()
        let results = try await withThrowingTaskGroup(of: (Int, MessageQueue.Error.Code?).self) { group in
            for number in 0..<500 {
                group.addTask {
                    let id = number % 5 == 0 ? "0" : "\(number)"
                    let code = await refusal { try await queue.enqueueWithoutBlocking("\(number)", conversation: "\(number % 7)", id: id) }
                    return (number, code)
                }
            }
            // Many of them wait for the lock together.
            try await Task.sleep(for: .milliseconds(50))
            queue.engine.context.lock.unlock()
            return try await group.reduce(into: [Int: MessageQueue.Error.Code?]()) { $0[$1.0] = $1.1 }
        }
        #expect(results.count == 500)
        for (number, code) in results { #expect(code == (number % 5 == 0 ? .duplicate : nil), "\(number)") }
        #expect(try queue.counts().queued == 401)
        for number in stride(from: 1, to: 500, by: 5) { #expect(try queue.message(id: "\(number)").text == "\(number)") }
        try await queue.close()
    }

    @Test func it_blocks_no_thread_of_the_task_pool() async throws {
        let queue = try open()
        let isFree = try await onThread {
            // While the disk is slow, the lock is held.
            queue.engine.context.lock.lock()
            defer { queue.engine.context.lock.unlock() }
            let ran = Flag()
            for number in 0..<200 { Task { try await queue.enqueueWithoutBlocking("\(number)") } }
            Task { ran.set() }
            return ran.wait(seconds: 10)
        }
        #expect(isFree)
        #expect(try await eventually { try queue.counts().queued == 200 })
        try await queue.close()
    }

    @Test func a_cancelled_task_has_stored_its_message() async throws {
        let queue = try open()
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await queue.enqueueWithoutBlocking("hello")
        }
        #expect(try queue.message(id: try await task.value).status == .queued)
        try await queue.close()
    }
}

/// Set once by a task, and waited for by a thread.
private final class Flag: @unchecked Sendable {
    private let lock = Mutex()
    private let condition = Condition()
    private var isSet = false

    func set() {
        lock.withLock { isSet = true }
        condition.broadcast()
    }

    func wait(seconds: Int64) -> Bool {
        let deadline = Ports.system.mono() + seconds * 1000
        return lock.withLock {
            while !isSet { guard condition.wait(lock, until: deadline) else { return isSet } }
            return true
        }
    }
}
