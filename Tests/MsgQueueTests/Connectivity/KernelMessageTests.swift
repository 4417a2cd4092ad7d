import Testing

@testable import MsgQueue

/// H8: messages of the kernel are parsed without trusting them.
@Suite struct KernelMessageTests {
    private typealias Bytes = NetlinkBytes

    private func read(_ type: UInt16, _ body: [UInt8]) -> KernelMessage? {
        var bytes = Bytes()
        bytes.add(type, body)
        return KernelMessage.read(ByteReader(bytes.bytes[...])).first?.message
    }

    @Test func H8_links() {
        #expect(
            read(Bytes.newLink, Bytes.link(2, "eth0")) == .link(KernelLink(index: 2, name: "eth0", hardware: 1, kind: "", isUsable: true)))
        #expect(
            read(Bytes.newLink, Bytes.link(3, "wwan0", hardware: 519, kind: "wwan"))
                == .link(KernelLink(index: 3, name: "wwan0", hardware: 519, kind: "wwan", isUsable: true)))
        // A link that is down, one without a carrier, the loopback.
        for flags in [UInt32(0x40), 1, 0x49] {
            #expect(
                read(Bytes.newLink, Bytes.link(2, "eth0", flags: flags))
                    == .link(KernelLink(index: 2, name: "eth0", hardware: 1, kind: "", isLoopback: flags & 8 != 0, isUsable: false)))
        }
    }

    @Test func H8_addresses() {
        func isUsable(_ body: [UInt8]) -> Bool? {
            guard case .address(let address) = read(Bytes.newAddress, body) else { return nil }
            return address.isUsable
        }
        #expect(isUsable(Bytes.address(Bytes.ipv4)) == true)
        #expect(isUsable(Bytes.address(Bytes.ipv4, scope: 253)) == false, "valid on one link only")
        #expect(isUsable(Bytes.address(Bytes.ipv4, scope: 254)) == false, "valid on this host only")
        #expect(isUsable(Bytes.address(Bytes.ipv6, flags: 0x40)) == false, "tentative")
        #expect(isUsable(Bytes.address(Bytes.ipv6, flags: 0x44)) == true, "tentative, but optimistic")
        #expect(isUsable(Bytes.address(Bytes.ipv6, flags: 0, wideFlags: 0x08)) == false, "a double")
    }

    @Test func H8_routes() {
        func route(_ body: [UInt8]) -> KernelRoute? {
            guard case .route(let route) = read(Bytes.newRoute, body) else { return nil }
            return route
        }
        #expect(
            route(Bytes.route(Bytes.ipv4, metric: 100))
                == KernelRoute(family: Bytes.ipv4, isDefault: true, metric: 100, links: [2], isDead: false))
        #expect(route(Bytes.route(Bytes.ipv4, length: 24))?.isDefault == false)
        #expect(route(Bytes.route(Bytes.ipv4, type: 7))?.isDefault == false, "unreachable")
        #expect(route(Bytes.route(Bytes.ipv4, table: 255))?.isDefault == false, "a local route")
        #expect(route(Bytes.route(Bytes.ipv4, table: 252, wideTable: 51_820))?.isDefault == true, "another table, as for tunnels")
        #expect(route(Bytes.route(Bytes.ipv6, flags: 0x200))?.isDefault == false, "a cached route")
        #expect(route(Bytes.route(128))?.isDefault == false, "another protocol")
        #expect(route(Bytes.route(Bytes.ipv4, flags: 16))?.isDead == true, "its link is down")
        let several = route(Bytes.route(Bytes.ipv4, link: nil, hops: [(2, 1), (3, 0), (4, 16)]))
        #expect(several?.links == [3])
        #expect(several?.isDead == false)
        #expect(route(Bytes.route(Bytes.ipv4, link: nil, hops: [(2, 1)]))?.isDead == true)
        #expect(route(Bytes.route(Bytes.ipv4, link: nil))?.isDead == false, "a route without a link")
    }

    @Test func H8_ends_and_refusals() {
        #expect(read(3, [0, 0, 0, 0]) == .done)
        #expect(read(2, Bytes.number(Int32(-1))) == .refused(1))
        #expect(read(2, Bytes.number(Int32.min)) == .refused(Int32.min))
        #expect(read(2, Bytes.number(Int32(0))) == .other)
        #expect(read(99, []) == .other)
    }

    @Test func H8_an_interrupted_answer_is_reported_at_its_place() {
        var bytes = Bytes()
        bytes.add(Bytes.newLink, Bytes.link(2, "a"))
        bytes.add(Bytes.newLink, Bytes.link(3, "b"), flags: 0x10)
        bytes.add(3, [])
        #expect(KernelMessage.read(ByteReader(bytes.bytes[...])).map(\.isInterrupted) == [false, true, false])
    }

    @Test func H8_several_messages_in_one_datagram() {
        var bytes = Bytes()
        bytes.add(Bytes.newLink, Bytes.link(2, "a"), sequence: 1)
        bytes.add(Bytes.newAddress, Bytes.address(Bytes.ipv4), sequence: 2)
        bytes.add(3, [], sequence: 2)
        #expect(KernelMessage.read(ByteReader(bytes.bytes[...])).map(\.sequence) == [1, 2, 2])
    }

    @Test func H8_truncated_or_invalid_messages_are_ignored() {
        var bytes = Bytes()
        bytes.add(Bytes.newLink, Bytes.link(2, "eth0", kind: "veth"))
        bytes.add(Bytes.newRoute, Bytes.route(Bytes.ipv4, metric: 3, hops: [(2, 0), (3, 0)]))
        bytes.add(Bytes.newAddress, Bytes.address(Bytes.ipv6, wideFlags: 0x80))
        let whole = bytes.bytes
        for length in 0...whole.count { #expect(KernelMessage.read(ByteReader(whole[..<length])).count <= 3) }
        var random = SeededGenerator(8)
        for _ in 0..<20_000 {
            var damaged = whole
            for _ in 0..<random.int(1...8) { damaged[random.int(0...damaged.count - 1)] = UInt8(truncatingIfNeeded: random.next()) }
            // The parser returns, with at most as many messages as the buffer can contain.
            #expect(KernelMessage.read(ByteReader(damaged[...])).count <= damaged.count / 16)
        }
    }
}
