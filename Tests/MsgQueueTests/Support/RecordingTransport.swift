@testable import MsgQueue

/// A receiver in the process that records deliveries. (C and Python test the same rows over real HTTP.)
final class RecordingTransport: @unchecked Sendable {
    private let mutex = Mutex()
    private let answer: @Sendable (MessageQueue.Delivery) -> MessageQueue.Outcome
    private var received: [MessageQueue.Delivery] = []
    private var inProgress: [Name: Int] = [:]
    private var isHeld = false
    private var overlapCount = 0
    private var maximum = 0

    init(_ answer: @escaping @Sendable (MessageQueue.Delivery) -> MessageQueue.Outcome = { _ in .sent }) { self.answer = answer }

    var deliveries: [MessageQueue.Delivery] { mutex.withLock { received } }
    var texts: [String] { deliveries.map(\.text) }
    /// The number of times that two messages of one conversation were being sent at once.
    var overlaps: Int { mutex.withLock { overlapCount } }
    var mostAtOnce: Int { mutex.withLock { maximum } }

    /// Delays answers until `release`.
    func hold() { mutex.withLock { isHeld = true } }
    func release() { mutex.withLock { isHeld = false } }

    func send(_ delivery: MessageQueue.Delivery) async -> MessageQueue.Outcome {
        enter(delivery)
        while mutex.withLock({ isHeld }) { try? await Task.sleep(for: .milliseconds(1)) }
        let outcome = answer(delivery)
        leave(delivery)
        return outcome
    }

    private func enter(_ delivery: MessageQueue.Delivery) {
        mutex.withLock {
            received.append(delivery)
            let name = Name(delivery.conversation)
            if inProgress[name, default: 0] > 0 { overlapCount += 1 }
            inProgress[name, default: 0] += 1
            maximum = max(maximum, inProgress.values.reduce(0, +))
        }
    }

    private func leave(_ delivery: MessageQueue.Delivery) { mutex.withLock { inProgress[Name(delivery.conversation), default: 0] -= 1 } }
}
