import CPlatform

/// What the kernel said of its links, addresses and routes, and what follows from it.
struct NetworkTable {
    private var links: [Int32: KernelLink] = [:]
    private var families: Set<UInt8> = []
    private var routes: [KernelRoute] = []

    mutating func add(_ message: KernelMessage) {
        switch message {
        case .link(let link): links[link.index] = link
        case .address(let address): if address.isUsable { families.insert(address.family) }
        case .route(let route): if route.isDefault { routes.append(route) }
        case .done, .refused, .other: break
        }
    }

    /// There is a way out when a default route goes out by a link that is up, and there is an address of its family to come from. The link
    /// is that of the best of them.
    func network(kind: (KernelLink) -> Link) -> Network {
        var best: (metric: UInt32, link: KernelLink?)?
        for route in routes where families.contains(route.family) && !route.isDead {
            guard route.metric < best?.metric ?? UInt32.max || best == nil else { continue }
            if route.links.isEmpty {
                best = (route.metric, nil)
            } else if let link = route.links.lazy.compactMap({ links[$0] }).first(where: \.isUsable) {
                best = (route.metric, link)
            }
        }
        guard let best else { return Network(connectivity: .offline) }
        let link = best.link.map(kind) ?? .other
        return Network(connectivity: .online, link: link, metered: link == .cellular)
    }

    /// Whether a change that the kernel tells of can matter here.
    static func isNews(_ message: KernelMessage) -> Bool {
        switch message {
        case .link, .address: true
        case .route(let route): route.isDefault
        case .done, .refused, .other: false
        }
    }
}

/// Of which kind a link is.
enum LinkKind {
    /// `deviceType` is what the system's device tree calls it ("wlan", "wwan"…), "" when it does not say.
    static func of(_ link: KernelLink, deviceType: String) -> Link {
        switch deviceType {
        case "wlan": return .wifi
        case "wwan": return .cellular
        default: break
        }
        switch link.kind {
        case "wwan", "rmnet": return .cellular
        default: break
        }
        switch Int32(link.hardware) {
        case ARPHRD_ETHER: return .ethernet
        case ARPHRD_IEEE80211, ARPHRD_IEEE80211_PRISM, ARPHRD_IEEE80211_RADIOTAP: return .wifi
        default: return .other
        }
    }
}
