extension MessageQueue {
    /// The state of the network.
    public struct Network: Sendable, Hashable, Encodable {
        /// Whether there is a connection.
        public let connectivity: Connectivity
        /// The kind of the link.
        public let link: Link
        /// Traffic on the link is charged by volume.
        public let isMetered: Bool
        /// Why there is no connection, as ``MessageQueue/setConnectivity(_:link:isMetered:reason:)`` was told; nil: unknown, or there is one.
        public let offlineReason: String?

        /// Creates a state. The parameters are the properties of the same names.
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
