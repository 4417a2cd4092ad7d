@testable import MsgQueue

/// A receiver in the process that records deliveries. (C and Python test the same rows over real HTTP.)
final class RecordingTransport: @unchecked Sendable {
    private let mutex = Mutex()
    private let answer: @Sendable (MessageQueue.Delivery) -> MessageQueue.Outcome
    private var got: [MessageQueue.Delivery] = []
    private var underWay: [Name: Int] = [:]
    private var isHeld = false
    private var overlaps = 0
    private var most = 0

    init(_ answer: @escaping @Sendable (MessageQueue.Delivery) -> MessageQueue.Outcome = { _ in .sent }) { self.answer = answer }

    var deliveries: [MessageQueue.Delivery] { mutex.withLock { got } }
    var texts: [String] { deliveries.map(\.text) }
    /// The number of times that two messages of one conversation were being sent at once.
    var doubles: Int { mutex.withLock { overlaps } }
    var mostAtOnce: Int { mutex.withLock { most } }

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
            got.append(delivery)
            let name = Name(delivery.conversation)
            if underWay[name, default: 0] > 0 { overlaps += 1 }
            underWay[name, default: 0] += 1
            most = max(most, underWay.values.reduce(0, +))
        }
    }

    private func leave(_ delivery: MessageQueue.Delivery) { mutex.withLock { underWay[Name(delivery.conversation), default: 0] -= 1 } }
}
