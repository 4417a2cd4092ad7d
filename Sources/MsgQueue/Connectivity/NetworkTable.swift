/// The kernel's links, addresses and default routes, and the connectivity that follows from them.
struct NetworkTable {
    private var links: [Int32: KernelLink] = [:]
    private var families: Set<UInt8> = []
    /// The links with an address that is valid beyond the link.
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

    /// Returns the state of the network. It is online when there is a default route over a link that is up, and an address of the family of
    /// the route. The best route determines the link. A tunnel is metered if the best route without tunnels is.
    func network(kind: (KernelLink) -> Link) -> Network {
        guard let best = best({ $0.isTunnel ? tunnelsAreUsable : true }) else { return Network(connectivity: .offline) }
        let carrier = best.link?.isTunnel ?? false ? self.best({ !$0.isTunnel }) : best
        return Network(
            connectivity: .online, link: best.link.map(kind) ?? .other, metered: carrier?.link.map(kind) == .cellular)
    }

    /// Returns the metric of the usable default route with the lowest metric, and its link if the kernel reports it.
    private func best(_ isUsable: (KernelLink) -> Bool) -> (metric: UInt32, link: KernelLink?)? {
        var best: (metric: UInt32, link: KernelLink?)?
        for route in routes where families.contains(route.family) && !route.isDead {
            if let best, route.metric >= best.metric { continue }
            if route.links.isEmpty {
                best = (route.metric, nil)
            } else if let link = route.links.lazy.compactMap({ links[$0] }).first(where: { $0.isUsable && isUsable($0) }) {
                best = (route.metric, link)
            }
        }
        return best
    }

    /// Whether tunnels can be used. A tunnel stays up when the link that carries it is down. It counts as usable while a link that can
    /// carry it is usable, or if there is no such link, because the tunnel then ends in another network namespace.
    private var tunnelsAreUsable: Bool {
        let carriers = links.values.filter { !$0.isTunnel && $0.canCarry }
        return carriers.isEmpty || carriers.contains { $0.isUsable && addressed.contains($0.index) }
    }

    /// Whether a notification of the kernel can change the state of the network.
    static func isRelevant(_ message: KernelMessage) -> Bool {
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

    /// Carried by another link. (The hardware type is not used: modems report the same type as tunnels.)
    var isTunnel: Bool { Self.tunnelKinds.contains(kind) }

    /// Could carry a tunnel out of this machine or network namespace.
    var canCarry: Bool { !isLoopback && !["dummy", "ifb", "nlmon", "vcan"].contains(kind) }
}
