extension MessageQueue {
    /// Whether the network can be reached, with the numbers of `msgq_connectivity`.
    public enum Connectivity: Int32, Sendable, CaseIterable {
        /// Counts as online: a host that never reports connectivity is online.
        case unknown = 0
        case offline
        case online
    }
}

package typealias Connectivity = MessageQueue.Connectivity

extension MessageQueue {
    /// The kind of link, with the numbers of `msgq_link`.
    public enum Link: Int32, Sendable, CaseIterable {
        case none = 0
        case wifi
        case ethernet
        case cellular
        case other
    }
}

package typealias Link = MessageQueue.Link
