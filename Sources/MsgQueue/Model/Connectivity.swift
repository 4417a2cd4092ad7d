/// Whether there is a way out, with the numbers of `msgq_connectivity`.
public enum Connectivity: Int32, Sendable, CaseIterable {
    /// Counts as online: a host that never tells is online.
    case unknown = 0
    case offline
    case online
}

/// The kind of link, with the numbers of `msgq_link`.
public enum Link: Int32, Sendable, CaseIterable {
    case none = 0
    case wifi
    case ethernet
    case cellular
    case other
}

/// What is known of the network at one moment.
public struct Network: Sendable, Equatable {
    public var connectivity: Connectivity
    public var link: Link
    public var metered: Bool

    public init(connectivity: Connectivity = .unknown, link: Link = .none, metered: Bool = false) {
        self.connectivity = connectivity
        self.link = link
        self.metered = metered
    }

    package var isOnline: Bool { connectivity != .offline }
}
