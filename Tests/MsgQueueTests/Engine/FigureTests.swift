import MsgQueue
import Testing

/// The figures that the replaced systems promised, each as the best of a few rounds, because other programs run here.
@Suite struct FigureTests {
    private let rounds = 5

    private func queue(_ directory: TemporaryDirectory, _ transport: MessageQueue.Transport? = nil) throws -> MessageQueue {
        var options = MessageQueue.Options(mode: .manual)
        options.direct = false
        return try MessageQueue(path: directory.store, options: options, transport: transport)
    }

    private func best(_ body: () throws -> Void) rethrows -> Duration {
        var best = Duration.seconds(3600)
        for _ in 0..<rounds { best = min(best, try ContinuousClock().measure(body)) }
        return best
    }

    @Test func Q12_M3_a_hundred_enqueues_take_less_than_500_ms() throws {
        let directory = TemporaryDirectory()
        let queue = try queue(directory)
        let took = try best {
            for number in 0..<100 { try queue.enqueue("message \(number), written while offline", conversation: "ana") }
        }
        #expect(took < .milliseconds(500))
        #expect(try queue.counts().queued == Int64(100 * rounds))
        try queue.syncClose()
    }

    @Test(arguments: [50, 100])
    func Q11_R5_fifty_and_a_hundred_are_listed_in_less_than_100_ms(count: Int) async throws {
        let directory = TemporaryDirectory()
        let first = try queue(directory) { _ in .reject() }
        try first.enqueue((0..<count).map { MessageQueue.Draft("\($0)", conversation: "c\($0 % 7)") })
        #expect(try first.list(MessageQueue.Filter(limit: 100)).count == count)
        #expect(try best { _ = try first.list(MessageQueue.Filter(limit: 100)) } < .milliseconds(100))
        #expect(try await first.drain().failed == count)
        try await first.close()
        let second = try queue(directory)
        let filter = MessageQueue.Filter(statuses: [.failed], limit: 100)
        #expect(try second.list(filter).count == count)
        #expect(try best { _ = try second.list(filter) } < .milliseconds(100))
        try await second.close()
    }
}
