@testable import MsgQueue

/// A receiver in the process: counts and orders what it gets. (Over real HTTP the same rows are tested from C and Python.)
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
    /// Times that two messages of one conversation were under way.
    var doubles: Int { mutex.withLock { overlaps } }
    var mostAtOnce: Int { mutex.withLock { most } }

    /// Answers wait until `release`.
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
