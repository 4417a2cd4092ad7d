import CPlatform

/// A message of the kernel's routing socket (rtnetlink), reduced to what determines connectivity.
enum KernelMessage: Equatable {
    case link(KernelLink)
    case address(KernelAddress)
    case route(KernelRoute)
    /// A dump is complete.
    case done
    /// The kernel refused a request with this errno.
    case refused(Int32)
    case other
}

struct KernelLink: Equatable {
    var index: Int32
    var name = ""
    /// The hardware type (ARPHRD_…), and the kind of a virtual link, or "".
    var hardware: UInt16 = 0
    var kind = ""
    /// A loopback link.
    var isLoopback = false
    /// Up, with carrier, and not a loopback link.
    var isUsable = false
}

struct KernelAddress: Equatable {
    var family: UInt8
    var link: Int32
    /// Valid beyond this link, and not rejected by duplicate address detection.
    var isUsable: Bool
}

struct KernelRoute: Equatable {
    var family: UInt8
    /// A default route that forwards packets.
    var isDefault: Bool
    var metric: UInt32 = 0
    /// The outgoing links; empty: the kernel does not report them.
    var links: [Int32] = []
    /// All of its outgoing links are known to be down.
    var isDead = false
}

/// Parses datagrams of the socket. Truncated and invalid messages are skipped; all lengths are checked.
extension KernelMessage {
    /// A message with the number of the request that it answers. `isInterrupted`: the kernel's tables changed during the dump, which is
    /// therefore inconsistent.
    struct Numbered {
        let sequence: UInt32
        let isInterrupted: Bool
        let message: KernelMessage
    }

    /// Returns the messages in one datagram.
    static func read(_ datagram: ByteReader) -> [Numbered] {
        var messages: [Numbered] = []
        var rest = datagram
        while let length = rest.number(at: 0, UInt32.self), let type = rest.number(at: 4, UInt16.self),
            let flags = rest.number(at: 6, UInt16.self), let sequence = rest.number(at: 8, UInt32.self),
            length >= 16, let whole = rest.part(0, Int(length))
        {
            let isInterrupted = flags & UInt16(NLM_F_DUMP_INTR) != 0
            messages.append(Numbered(sequence: sequence, isInterrupted: isInterrupted, message: read(type, whole.from(16))))
            rest = rest.from(aligned(Int(length)))
        }
        return messages
    }

    private static func read(_ type: UInt16, _ body: ByteReader) -> KernelMessage {
        switch Int(type) {
        case Int(NLMSG_DONE): .done
        case Int(NLMSG_ERROR): body.number(at: 0, Int32.self).map { $0 == 0 ? .other : .refused(0 &- $0) } ?? .other
        case RTM_NEWLINK, RTM_DELLINK: link(body).map { .link($0) } ?? .other
        case RTM_NEWADDR, RTM_DELADDR: address(body).map { .address($0) } ?? .other
        case RTM_NEWROUTE, RTM_DELROUTE: route(body).map { .route($0) } ?? .other
        default: .other
        }
    }

    /// struct ifinfomsg: family, pad, hardware (2), index (4), flags (4), change (4).
    private static func link(_ body: ByteReader) -> KernelLink? {
        guard let hardware = body.number(at: 2, UInt16.self), let index = body.number(at: 4, Int32.self),
            let flags = body.number(at: 8, UInt32.self)
        else { return nil }
        var link = KernelLink(index: index, hardware: hardware)
        let (up, running, loopback) = (UInt32(1), UInt32(0x40), UInt32(8))
        link.isLoopback = flags & loopback != 0
        link.isUsable = flags & (up | running | loopback) == up | running
        for (type, value) in attributes(body.from(16)) {
            if type == IFLA_IFNAME { link.name = value.text }
            guard type == IFLA_LINKINFO else { continue }
            for (type, value) in attributes(value) where type == IFLA_INFO_KIND { link.kind = value.text }
        }
        return link
    }

    /// struct ifaddrmsg: family, prefix length, flags, scope, index (4).
    private static func address(_ body: ByteReader) -> KernelAddress? {
        guard let family = body.number(at: 0, UInt8.self), var flags = body.number(at: 2, UInt8.self).map(UInt32.init),
            let scope = body.number(at: 3, UInt8.self), let link = body.number(at: 4, Int32.self)
        else { return nil }
        for (type, value) in attributes(body.from(8)) where type == IFA_FLAGS { flags = value.number(at: 0, UInt32.self) ?? flags }
        // Duplicate address detection is running, or has failed.
        let isTentative = flags & UInt32(IFA_F_TENTATIVE) != 0 && flags & UInt32(IFA_F_OPTIMISTIC) == 0
        let isDuplicate = flags & UInt32(IFA_F_DADFAILED) != 0
        return KernelAddress(
            family: family, link: link, isUsable: UInt32(scope) < RT_SCOPE_LINK.rawValue && !isTentative && !isDuplicate)
    }

    /// struct rtmsg: family, destination length, source length, tos, table, protocol, scope, type, flags (4).
    private static func route(_ body: ByteReader) -> KernelRoute? {
        guard let family = body.number(at: 0, UInt8.self), let length = body.number(at: 1, UInt8.self),
            let type = body.number(at: 7, UInt8.self), let flags = body.number(at: 8, UInt32.self),
            var table = body.number(at: 4, UInt8.self).map(UInt32.init)
        else { return nil }
        var route = KernelRoute(family: family, isDefault: false)
        var hops: [(link: Int32, isDead: Bool)] = []
        for (type, value) in attributes(body.from(12)) {
            switch type {
            case Int(RTA_TABLE.rawValue): table = value.number(at: 0, UInt32.self) ?? table
            case Int(RTA_PRIORITY.rawValue): route.metric = value.number(at: 0, UInt32.self) ?? 0
            case Int(RTA_OIF.rawValue):
                if let link = value.number(at: 0, Int32.self) { hops.append((link, isDead(flags))) }
            case Int(RTA_MULTIPATH.rawValue): hops += nextHops(value)
            default: break
            }
        }
        let isKnown = family == UInt8(AF_INET) || family == UInt8(AF_INET6)
        let isReal = type == UInt8(RTN_UNICAST) && flags & UInt32(RTM_F_CLONED) == 0 && table != UInt32(RT_TABLE_LOCAL.rawValue)
        route.isDefault = isKnown && isReal && length == 0
        route.links = hops.filter { !$0.isDead }.map(\.link)
        route.isDead = route.links.isEmpty && (!hops.isEmpty || isDead(flags))
        return route
    }

    /// struct rtnexthop: length (2), flags, weight, index (4).
    private static func nextHops(_ value: ByteReader) -> [(link: Int32, isDead: Bool)] {
        var hops: [(Int32, Bool)] = []
        var rest = value
        while let length = rest.number(at: 0, UInt16.self), let flags = rest.number(at: 2, UInt8.self),
            let link = rest.number(at: 4, Int32.self), length >= 8, Int(length) <= rest.count
        {
            hops.append((link, isDead(UInt32(flags))))
            rest = rest.from(aligned(Int(length)))
        }
        return hops
    }

    private static func isDead(_ flags: UInt32) -> Bool { flags & UInt32(RTNH_F_DEAD | RTNH_F_LINKDOWN) != 0 }

    /// struct rtattr: length (2), type (2), value.
    private static func attributes(_ bytes: ByteReader) -> [(type: Int, value: ByteReader)] {
        var found: [(Int, ByteReader)] = []
        var rest = bytes
        while let length = rest.number(at: 0, UInt16.self), let type = rest.number(at: 2, UInt16.self), length >= 4,
            let value = rest.part(4, Int(length) - 4)
        {
            // The upper two bits are flags of the encoding.
            found.append((Int(type & 0x3fff), value))
            rest = rest.from(aligned(Int(length)))
        }
        return found
    }

    private static func aligned(_ length: Int) -> Int { (length + 3) & ~3 }
}
