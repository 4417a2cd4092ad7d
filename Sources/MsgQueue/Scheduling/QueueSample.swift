/// The first queued messages of the store, from which the state of the whole queue is explained. The scheduler's own index does not contain
/// a backlog that may not be sent.
package struct QueueSample {
    /// The maximum number of messages in a sample.
    package static let limit = 64

    /// In order of sequence.
    package let rows: [(conversation: Name, head: Head)]
    /// The sample contains every queued message.
    package var isComplete: Bool { rows.count < Self.limit }

    package init(_ rows: [(conversation: Name, head: Head)]) { self.rows = rows }
}

extension QueueSample: QueuedMessages {
    package func queued(after sequence: Int64, limit: Int) -> [(conversation: Name, head: Head)] {
        Array(rows.lazy.filter { $0.head.sequence > sequence }.prefix(limit))
    }

    package func queued(in conversation: Name, after sequence: Int64, limit: Int) -> [Head] {
        Array(rows.lazy.filter { $0.conversation == conversation && $0.head.sequence > sequence }.map(\.head).prefix(limit))
    }
}
