@testable import MsgQueue
import Testing

/// Batch transports through the Swift API.
@Suite struct BatchTransportTests {
    private let directory = TemporaryDirectory()

    private actor Calls {
        private(set) var ids: [[String]] = []
        func add(_ deliveries: [MessageQueue.Delivery]) { ids.append(deliveries.map(\.id)) }
    }

    private func open() throws -> MessageQueue {
        var options = MessageQueue.Options(mode: .manual, backoff: .ladder([]))
        options.direct = false
        return try MessageQueue(path: directory.store, options: options)
    }

    private func fill(_ queue: MessageQueue, _ ids: String...) throws {
        for id in ids { try queue.enqueue(id, conversation: String(id.prefix(1)), id: id) }
    }

    @Test func B1_a_batch_holds_several_conversations() async throws {
        let (queue, calls) = (try open(), Calls())
        try fill(queue, "a1", "b1", "a2", "b2", "a3")
        try queue.setBatchTransport { deliveries in
            await calls.add(deliveries)
            return deliveries.map { _ in .sent }
        }
        #expect(try await queue.drain().sent == 5)
        #expect(await calls.ids == [["a1", "a2", "a3", "b1", "b2"]])
        #expect(try queue.state().hasTransport)
        try await queue.close()
    }

    @Test func B1_partial_success_keeps_the_order() async throws {
        let (queue, calls) = (try open(), Calls())
        try fill(queue, "a1", "a2", "a3", "b1", "b2")
        try queue.setBatchTransport { deliveries in
            await calls.add(deliveries)
            let isFirst = await calls.ids.count == 1
            return deliveries.map { delivery in
                switch delivery.id {
                case "a2" where isFirst: .reject(text: "no")
                case "a3" where isFirst: .skipped
                case "b1" where isFirst: .http(500)
                default: .sent
                }
            }
        }
        let report = try await queue.drain()
        #expect((report.sent, report.failed) == (3, 2))
        #expect(await calls.ids == [["a1", "a2", "a3", "b1", "b2"], ["a3"]])
        #expect(try queue.message(id: "a3").attempts == 1)
        try await queue.close()
    }

    @Test func F11_outcomes_that_are_written_together_are_those_of_each_message() async throws {
        let filled = try open()
        for number in 0..<300 { try filled.enqueue("hello", conversation: "c\(number % 150)", id: "\(number)") }
        // The close adds the messages to the indexes, which the outcomes written together need.
        try await filled.close()
        let queue = try open()
        var options = MessageQueue.BatchOptions()
        options.maxMessages = 300
        let send: MessageQueue.BatchTransport = { deliveries in
            deliveries.map { delivery in
                // Among the others is one of each kind; behind it the rest of its conversation is not tried.
                switch delivery.id {
                case "60": .http(500)
                case "61": .reject(text: "no")
                case "210" where deliveries.count > 1: .skipped
                default: .http(202)
                }
            }
        }
        try queue.setBatchTransport(send, options: options)
        #expect(try await queue.drain().sent == 298)
        #expect(try queue.counts().sent == 298)
        #expect(try queue.counts().failed == 2)
        try await queue.close()
        let reopened = try open()
        for number in 0..<300 {
            let message = try reopened.message(id: "\(number)")
            let attempts = try reopened.attempts("\(number)")
            #expect(message.status == (number == 60 || number == 61 ? .failed : .sent), "\(number)")
            #expect(message.attempts == 1 && attempts.count == 1)
            #expect(attempts.first?.code == (number == 60 ? 500 : number == 61 ? nil : 202))
            #expect((message.sentAt != nil) == (message.status == .sent))
            #expect(try reopened.counts(conversation: "c\(number % 150)").queued == 0)
        }
        try await reopened.close()
        #expect(try MessageQueue.check(path: directory.store).isSound)
    }

    @Test func B1_a_wrong_number_of_outcomes_is_a_failure_of_every_message() async throws {
        let queue = try open()
        try fill(queue, "a1", "b1")
        try queue.setBatchTransport { _ in [.sent] }
        #expect(try await queue.drain().failed == 2)
        let failure = try #require(try queue.message(id: "b1").failure)
        #expect(failure.kind == .unknown && failure.text == "the transport returned 1 outcomes for a batch of 2 messages")
        try await queue.close()
    }

    @Test func B1_pending_messages_are_completed_by_token() async throws {
        let queue = try open()
        try fill(queue, "a1", "a2")
        try queue.setBatchTransport { [weak queue] deliveries in
            Task { for delivery in deliveries { try queue?.complete(delivery.token, with: .sent) } }
            return deliveries.map { _ in .pending }
        }
        #expect(try await queue.drain().sent == 2)
        try await queue.close()
    }

    @Test func B1_two_batches_are_sent_at_a_time() async throws {
        let (queue, calls) = (try open(), Calls())
        try fill(queue, "a1", "b1", "c1", "d1")
        var options = MessageQueue.BatchOptions()
        (options.maxMessages, options.maxBatches) = (2, 2)
        try queue.setBatchTransport(
            { deliveries in
                await calls.add(deliveries)
                while await calls.ids.count < 2 { try? await Task.sleep(for: .milliseconds(2)) }
                return deliveries.map { _ in .sent }
            }, options: options)
        #expect(try await queue.drain().sent == 4)
        #expect(await calls.ids.count == 2)
        options.maxBatches = 65
        #expect(throws: MessageQueue.Error.self) { try queue.setBatchTransport({ _ in [] }, options: options) }
        try await queue.close()
    }

    @Test func B1_limits_of_a_batch() async throws {
        let (queue, calls) = (try open(), Calls())
        try fill(queue, "a1", "b1", "a2", "b2", "a3")
        var options = MessageQueue.BatchOptions()
        (options.maxMessages, options.singleConversation) = (2, true)
        let transport: MessageQueue.BatchTransport = { deliveries in
            await calls.add(deliveries)
            return deliveries.map { _ in .sent }
        }
        try queue.setBatchTransport(transport, options: options)
        #expect(try await queue.drain().sent == 5)
        #expect(await calls.ids == [["a1", "a2"], ["b1", "b2"], ["a3"]])
        for change in [{ $0.maxMessages = 0 }, { $0.maxBytes = 0 }, { $0.linger = .seconds(61) }]
            as [(inout MessageQueue.BatchOptions) -> Void]
        {
            var wrong = MessageQueue.BatchOptions()
            change(&wrong)
            #expect(throws: MessageQueue.Error.self) { try queue.setBatchTransport(transport, options: wrong) }
        }
        try queue.setBatchTransport(nil)
        #expect(try !queue.state().hasTransport)
        try await queue.close()
    }
}
