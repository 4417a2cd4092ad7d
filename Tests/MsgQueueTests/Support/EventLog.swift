@testable import MsgQueue

/// Collects the events of a stream.
final class EventLog: @unchecked Sendable {
    private let mutex = Mutex()
    private var received: [MessageQueue.Event] = []
    private var isOver = false

    init(_ stream: AsyncStream<MessageQueue.Event>) {
        Task {
            for await event in stream { append(event) }
            end()
        }
    }

    private func append(_ event: MessageQueue.Event) { mutex.withLock { received.append(event) } }
    private func end() { mutex.withLock { isOver = true } }

    var events: [MessageQueue.Event] { mutex.withLock { received } }
    var hasEnded: Bool { mutex.withLock { isOver } }

    /// Returns the changes of status, in order.
    func changes(of id: String? = nil) -> [MessageQueue.StatusChange] { Self.changes(events, of: id) }

    static func changes(_ events: [MessageQueue.Event], of id: String?) -> [MessageQueue.StatusChange] {
        events.compactMap { event in
            if case .status(let change) = event, id == nil || change.id == id { change } else { nil }
        }
    }

    func statuses(of id: String) -> [MessageStatus] { changes(of: id).map(\.to) }

    var reports: [MessageQueue.Report] {
        events.compactMap { if case .drainFinished(let report) = $0 { report } else { nil } }
    }
}
