/// The state of the network.
package struct Network: Sendable, Equatable {
    package var connectivity: Connectivity
    package var link: Link
    package var metered: Bool

    package init(connectivity: Connectivity = .unknown, link: Link = .none, metered: Bool = false) {
        self.connectivity = connectivity
        self.link = link
        self.metered = metered
    }

    package var isOnline: Bool { connectivity != .offline }
}
