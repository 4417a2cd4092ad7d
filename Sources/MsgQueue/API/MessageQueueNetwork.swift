extension MessageQueue {
    /// The state of the network.
    public struct Network: Sendable, Equatable {
        public let connectivity: Connectivity
        public let link: Link
        public let isMetered: Bool
        /// Why there is no connection, as ``MessageQueue/setConnectivity(_:link:isMetered:reason:)`` was told; nil: unknown, or there is one.
        public let offlineReason: String?

        public init(connectivity: Connectivity, link: Link = .other, isMetered: Bool = false, offlineReason: String? = nil) {
            self.connectivity = connectivity
            self.link = link
            self.isMetered = isMetered
            self.offlineReason = offlineReason
        }
    }
}

extension MessageQueue.Network {
    package init(_ network: MsgQueue.Network) {
        self.init(
            connectivity: network.connectivity, link: network.link, isMetered: network.metered,
            offlineReason: network.offlineReason.isEmpty ? nil : network.offlineReason)
    }
}
