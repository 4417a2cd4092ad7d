extension MessageQueue {
    /// Whether the network can be reached, with the numbers of `msgq_connectivity`.
    public enum Connectivity: Int32, Sendable, CaseIterable {
        /// Counts as online: a host that never reports connectivity is online.
        case unknown = 0
        /// There is no connection: nothing is sent.
        case offline
        /// There is a connection.
        case online
    }
}

package typealias Connectivity = MessageQueue.Connectivity

extension MessageQueue {
    /// The kind of link, with the numbers of `msgq_link`.
    public enum Link: Int32, Sendable, CaseIterable {
        /// There is no link, or its kind is not known.
        case none = 0
        /// A wireless network.
        case wifi
        /// A cable.
        case ethernet
        /// A mobile network.
        case cellular
        /// Another kind of link.
        case other
    }
}

package typealias Link = MessageQueue.Link
