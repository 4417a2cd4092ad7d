extension MessageQueue {
    /// The state of the network.
    public struct Network: Sendable, Equatable {
        public let connectivity: Connectivity
        public let link: Link
        public let isMetered: Bool

        public init(connectivity: Connectivity, link: Link = .other, isMetered: Bool = false) {
            self.connectivity = connectivity
            self.link = link
            self.isMetered = isMetered
        }
    }
}

extension MessageQueue.Network {
    package init(_ network: MsgQueue.Network) {
        self.init(connectivity: network.connectivity, link: network.link, isMetered: network.metered)
    }
}
