import Testing

@testable import MsgQueue

/// The option `wait`.
@Suite struct WaitForLockTests {
    private let directory = TemporaryDirectory()

    @Test func T9_an_opening_waits_for_the_queue_before_it() async throws {
        let first = try MessageQueue(path: directory.store)
        try first.enqueue("hello", id: "a")
        var options = MessageQueue.Options()
        options.wait = .milliseconds(200)
        let start = ContinuousClock.now
        let error = #expect(throws: MessageQueue.Error.self) { try MessageQueue(path: directory.store, options: options) }
        #expect(error?.code == .locked && ContinuousClock.now - start >= .milliseconds(200))

        options.wait = .seconds(3600)
        let path = directory.store
        let opening = Task.detached { [options] in try MessageQueue(path: path, options: options) }
        try await Task.sleep(for: .milliseconds(200))
        try await first.close()
        let second = try await opening.value
        #expect(try second.message(id: "a").text == "hello")
        try await second.close()
    }
}
