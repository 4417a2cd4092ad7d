/// What the kernel said of its links, addresses and routes, and what follows from it.
struct NetworkTable {
    private var links: [Int32: KernelLink] = [:]
    private var families: Set<UInt8> = []
    /// Links with an address that is good for more than themselves.
    private var addressed: Set<Int32> = []
    private var routes: [KernelRoute] = []

    mutating func add(_ message: KernelMessage) {
        switch message {
        case .link(let link): links[link.index] = link
        case .address(let address):
            guard address.isUsable else { return }
            families.insert(address.family)
            addressed.insert(address.link)
        case .route(let route): if route.isDefault { routes.append(route) }
        case .done, .refused, .other: break
        }
    }

    /// There is a way out when a default route goes out by a link that is up, and there is an address of its family to come from. The link
    /// is that of the best of them. A tunnel is as metered as the best way out beneath it.
    func network(kind: (KernelLink) -> Link) -> Network {
        guard let best = best({ $0.isTunnel ? tunnelsLead : true }) else { return Network(connectivity: .offline) }
        let beneath = best.link?.isTunnel ?? false ? self.best({ !$0.isTunnel }) : best
        return Network(
            connectivity: .online, link: best.link.map(kind) ?? .other, metered: beneath?.link.map(kind) == .cellular)
    }

    /// The default route with the lowest metric that leads, and its link if the kernel says it.
    private func best(_ counts: (KernelLink) -> Bool) -> (metric: UInt32, link: KernelLink?)? {
        var best: (metric: UInt32, link: KernelLink?)?
        for route in routes where families.contains(route.family) && !route.isDead {
            if let best, route.metric >= best.metric { continue }
            if route.links.isEmpty {
                best = (route.metric, nil)
            } else if let link = route.links.lazy.compactMap({ links[$0] }).first(where: { $0.isUsable && counts($0) }) {
                best = (route.metric, link)
            }
        }
        return best
    }

    /// A tunnel stays up without what carries it. It leads as long as another link could carry it, or when there is none that could,
    /// because it ends in another network namespace.
    private var tunnelsLead: Bool {
        let carriers = links.values.filter { !$0.isTunnel && $0.canCarry }
        return carriers.isEmpty || carriers.contains { $0.isUsable && addressed.contains($0.index) }
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

extension KernelLink {
    private static let tunnelKinds: Set<String> = [
        "wireguard", "tun", "ipip", "sit", "gre", "gretap", "ip6gre", "ip6tnl", "vti", "vti6", "xfrm", "geneve", "vxlan",
    ]

    /// Carried by another link. (Of hardware nothing is said: modems look like tunnels.)
    var isTunnel: Bool { Self.tunnelKinds.contains(kind) }

    /// Could be a way out of this machine, or of its namespace.
    var canCarry: Bool { !isLoopback && !["dummy", "ifb", "nlmon", "vcan"].contains(kind) }
}
