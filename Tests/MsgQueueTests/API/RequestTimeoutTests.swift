import Testing

@testable import MsgQueue

/// `Delivery.timeout`, the time-out for a request of the transport.
@Suite struct RequestTimeoutTests {
    private let directory = TemporaryDirectory()
    private let clock = VirtualClock()

    private final class Request: @unchecked Sendable {
        private let mutex = Mutex()
        private var span: Duration?
        private var isAnswered = false
        var timeout: Duration? { mutex.withLock { span } }
        func answer() { mutex.withLock { isAnswered = true } }

        func send(_ delivery: MessageQueue.Delivery) async -> MessageQueue.Outcome {
            mutex.withLock { span = delivery.timeout }
            while !mutex.withLock({ isAnswered }) { try? await Task.sleep(for: .milliseconds(1)) }
            return .reject(.rejected, code: 7)
        }
    }

    /// Returns the attempts of a message whose request is answered `more` after `delivery.timeout`.
    private func attempts(after more: Duration = .zero) async throws -> [MessageQueue.Attempt] {
        var options = MsgQueue.Options()
        (options.callbacks, options.mode) = (.poll, .manual)
        let engine = try Engine(path: directory.store, options: options, ports: clock.ports)
        let request = Request()
        let queue = try MessageQueue(engine: engine) { await request.send($0) }
        let id = try queue.enqueue("1")
        let hasBegun = try await eventually { () throws in
            while try engine.runCallbacks(timeout: 0) > 0 {}
            return request.timeout != nil
        }
        #expect(hasBegun)
        clock.advance((try #require(request.timeout) + more).milliseconds)
        while try engine.runCallbacks(timeout: 0) > 0 {}
        request.answer()
        #expect(try await eventually { try queue.message(id: id).status == .failed })
        let attempts = try queue.attempts(id)
        try await queue.close(timeout: .zero)
        return attempts
    }

    @Test func X8_an_answer_exactly_at_the_timeout_of_the_delivery_counts() async throws {
        let attempts = try await attempts()
        #expect(attempts.map(\.code) == [7])
        #expect(attempts.map(\.duration) == [.seconds(29)])
    }

    @Test func X8_an_answer_after_the_time_out_of_the_attempt_does_not_count() async throws {
        let attempts = try await attempts(after: .seconds(1))
        #expect(attempts.map(\.kind) == [.timeout])
    }

    @Test(arguments: [(1, 1), (2, 1), (10, 9), (50, 45), (3_000, 2_700), (10_000, 9_000), (30_000, 29_000), (86_400_000, 86_399_000)])
    func the_timeout_is_a_tenth_shorter_and_at_most_a_second(attempt: Int64, request: Int64) {
        #expect(RequestTimeout.within(attempt) == request)
    }
}
