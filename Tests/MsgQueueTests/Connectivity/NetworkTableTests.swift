import Foundation
import Testing

@testable import MsgQueue

/// H8: the connectivity that results from links, addresses and routes.
@Suite struct NetworkTableTests {
    private static let (ipv4, ipv6): (UInt8, UInt8) = (2, 10)

    private static func link(_ index: Int32, isUsable: Bool = true, kind: String = "") -> KernelMessage {
        .link(KernelLink(index: index, name: "link\(index)", hardware: 1, kind: kind, isUsable: isUsable))
    }

    private static func address(_ family: UInt8 = ipv4, on link: Int32 = 2) -> KernelMessage {
        .address(KernelAddress(family: family, link: link, isUsable: true))
    }

    private static func route(_ links: [Int32], _ family: UInt8 = ipv4, metric: UInt32 = 0, isDead: Bool = false) -> KernelMessage {
        .route(KernelRoute(family: family, isDefault: true, metric: metric, links: links, isDead: isDead))
    }

    /// Link 2 is an Ethernet link, 3 a wireless one, 4 a modem.
    private func network(_ messages: KernelMessage...) -> Network {
        var table = NetworkTable()
        for message in messages { table.add(message) }
        return table.network { [2: .ethernet, 3: .wifi, 4: .cellular][$0.index] ?? .other }
    }

    private let offline = Network(connectivity: .offline)

    @Test func H8_online_needs_a_link_an_address_and_a_route() {
        #expect(network(Self.link(2), Self.address(), Self.route([2])) == Network(connectivity: .online, link: .ethernet))
        #expect(network() == offline)
        #expect(network(Self.address(), Self.route([2])) == offline)
        #expect(network(Self.link(2), Self.route([2])) == offline)
        #expect(network(Self.link(2), Self.address()) == offline)
        #expect(network(Self.link(2, isUsable: false), Self.address(), Self.route([2])) == offline)
        #expect(network(Self.link(2), Self.address(), Self.route([2], isDead: true)) == offline)
    }

    @Test func H8_an_address_of_the_other_family_does_not_count() {
        #expect(network(Self.link(2), Self.address(Self.ipv6), Self.route([2])) == offline)
        #expect(network(Self.link(2), Self.address(Self.ipv6), Self.route([2], Self.ipv6)).connectivity == .online)
    }

    @Test func H8_the_best_route_determines_the_link() {
        let both = network(
            Self.link(2), Self.link(3), Self.address(), Self.route([3], metric: 600), Self.route([2], metric: 100))
        #expect(both.link == .ethernet)
        let unplugged = network(
            Self.link(2, isUsable: false), Self.link(3), Self.address(), Self.route([3], metric: 600), Self.route([2], metric: 100))
        #expect(unplugged == Network(connectivity: .online, link: .wifi))
        #expect(network(Self.link(2), Self.address(), Self.route([2], metric: .max)).connectivity == .online)
    }

    @Test func H8_cellular_counts_as_metered() {
        #expect(network(Self.link(4), Self.address(), Self.route([4])) == Network(connectivity: .online, link: .cellular, metered: true))
    }

    @Test func H8_a_tunnel_counts_while_another_link_carries_it() {
        let tunnel = [Self.link(9, kind: "wireguard"), Self.address(on: 9), Self.route([9])]
        func network(_ others: KernelMessage...) -> Network {
            var table = NetworkTable()
            for message in tunnel + others { table.add(message) }
            return table.network { [2: .ethernet, 4: .cellular][$0.index] ?? .other }
        }
        #expect(network(Self.link(2), Self.address(on: 2)) == Network(connectivity: .online, link: .other))
        #expect(network(Self.link(2, isUsable: false)) == offline, "unplugged; the tunnel stays up")
        #expect(network(Self.link(2)) == offline, "without an address it does not count")
        #expect(network().connectivity == .online, "its other end is in another namespace")
        #expect(network(Self.link(5, isUsable: false, kind: "dummy")).connectivity == .online)
        let modem = network(Self.link(4), Self.address(on: 4), Self.route([4], metric: 700))
        #expect(modem == Network(connectivity: .online, link: .other, metered: true), "over a modem it is metered")
    }

    @Test func H8_one_of_several_routes_is_enough() {
        #expect(network(Self.link(2, isUsable: false), Self.link(3), Self.address(), Self.route([2, 3])).link == .wifi)
        #expect(network(Self.link(2), Self.address(), Self.route([])) == Network(connectivity: .online, link: .other))
    }

    @Test func H8_only_relevant_changes_are_reported() {
        #expect(NetworkTable.isRelevant(Self.link(2)))
        #expect(NetworkTable.isRelevant(Self.address()))
        #expect(NetworkTable.isRelevant(Self.route([2])))
        #expect(!NetworkTable.isRelevant(.route(KernelRoute(family: 2, isDefault: false))))
        #expect(!NetworkTable.isRelevant(.other))
    }

    @Test(
        arguments: [
            (UInt16(1), "", "", Link.ethernet), (1, "veth", "", .ethernet), (1, "", "wlan", .wifi), (1, "", "wwan", .cellular),
            (519, "rmnet", "", .cellular), (65_534, "wwan", "", .cellular), (801, "", "", .wifi), (65_534, "tun", "", .other),
            (512, "ppp", "", .other),
        ])
    func H8_the_kind_of_a_link(hardware: UInt16, kind: String, deviceType: String, expected: Link) {
        let link = KernelLink(index: 2, name: "a", hardware: hardware, kind: kind, isUsable: true)
        #expect(LinkKind.of(link, deviceType: deviceType) == expected)
    }

    @Test func H8_the_system_reports_the_kind_of_a_link() throws {
        let directory = TemporaryDirectory()
        func tree(_ name: String, _ lines: String) throws {
            try FileManager.default.createDirectory(atPath: directory.file(name), withIntermediateDirectories: true)
            try lines.write(toFile: directory.file("\(name)/uevent"), atomically: false, encoding: .utf8)
        }
        func type(_ name: String, _ index: Int32 = 3) -> String {
            DeviceType.of(KernelLink(index: index, name: name), in: directory.path)
        }
        try tree("wlan0", "DEVTYPE=wlan\nINTERFACE=wlan0\nIFINDEX=3\n")
        try tree("wwan0", "INTERFACE=wwan0\nIFINDEX=3\nDEVTYPE=wwan\n")
        try tree("eth0", "INTERFACE=eth0\nIFINDEX=3\n")
        try tree("large", String(repeating: "X", count: 10_000))
        #expect(type("wlan0") == "wlan")
        #expect(type("wwan0") == "wwan")
        #expect(type("eth0") == "")
        #expect(type("wlan0", 4) == "", "another namespace's link of that name")
        #expect(type("nothing") == "")
        #expect(type("large") == "")
        #expect(type("") == "")
        #expect(type("../wlan0") == "", "the name must not leave the directory")
    }
}
