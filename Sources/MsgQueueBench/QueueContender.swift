import MsgQueue

/// This library, with a transport that returns at once.
final class QueueContender: Contender {
    private let queue: MessageQueue

    init(directory: String) throws {
        var options = MessageQueue.Options(mode: .manual)
        options.direct = false
        queue = try MessageQueue(path: "\(directory)/queue.db", options: options)
    }

    func put(_ body: [UInt8]) throws { _ = try queue.enqueue(MessageQueue.Draft(body, conversation: "bench")) }

    func put(_ bodies: [[UInt8]]) throws { _ = try queue.enqueue(bodies.map { MessageQueue.Draft($0, conversation: "bench") }) }

    func drain(count: Int) throws -> Bool {
        let queue = queue
        let report = try Blocking.run { () throws -> MessageQueue.Report in
            try queue.setTransport { _ in .sent }
            return try await queue.drain()
        }
        guard report.sent == count else { throw Failure("the drain sent \(report.sent) of \(count) messages") }
        return true
    }

    func close() throws {
        let queue = queue
        guard try Blocking.run({ try await queue.close() }) else { throw Failure("the queue did not close in time") }
    }
}
