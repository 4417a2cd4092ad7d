/// The state of the network.
package struct Network: Sendable, Equatable {
    package var connectivity: Connectivity
    package var link: Link
    package var metered: Bool
    /// Why there is no connection, for people; "": unknown, or there is one.
    package var offlineReason: String

    package init(connectivity: Connectivity = .unknown, link: Link = .none, metered: Bool = false, offlineReason: String = "") {
        self.connectivity = connectivity
        // Without a connection there is no link, whatever the host says.
        self.link = connectivity == .offline ? .none : link
        self.metered = metered
        self.offlineReason = offlineReason
    }

    package var isOnline: Bool { connectivity != .offline }
}
