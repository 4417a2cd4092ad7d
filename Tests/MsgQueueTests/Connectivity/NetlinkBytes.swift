/// Writes messages as the kernel does.
struct NetlinkBytes {
    static let (newLink, newAddress, newRoute): (UInt16, UInt16, UInt16) = (16, 20, 24)
    static let (ipv4, ipv6): (UInt8, UInt8) = (2, 10)

    private(set) var bytes: [UInt8] = []

    static func number(_ value: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: value) { Array($0) } }

    static func attribute(_ type: UInt16, _ value: [UInt8]) -> [UInt8] {
        let bytes = number(UInt16(4 + value.count)) + number(type) + value
        return bytes + [UInt8](repeating: 0, count: (4 - bytes.count % 4) % 4)
    }

    mutating func add(_ type: UInt16, _ body: [UInt8], flags: UInt16 = 0, sequence: UInt32 = 7) {
        bytes += Self.number(UInt32(16 + body.count)) + Self.number(type) + Self.number(flags)
        bytes += Self.number(sequence) + Self.number(UInt32(0))
        bytes += body
        bytes += [UInt8](repeating: 0, count: (4 - bytes.count % 4) % 4)
    }

    /// Flags: 1 up, 8 loopback, 0x40 running.
    static func link(_ index: Int32, _ name: String, flags: UInt32 = 0x41, hardware: UInt16 = 1, kind: String? = nil) -> [UInt8] {
        var body = [UInt8](repeating: 0, count: 2) + number(hardware) + number(index) + number(flags) + number(UInt32(0))
        body += attribute(3, Array(name.utf8) + [0])
        if let kind { body += attribute(18, attribute(1, Array(kind.utf8) + [0])) }
        return body
    }

    static func address(_ family: UInt8, scope: UInt8 = 0, flags: UInt8 = 0, wideFlags: UInt32? = nil) -> [UInt8] {
        var body: [UInt8] = [family, 24, flags, scope] + number(UInt32(2))
        if let wideFlags { body += attribute(8, number(wideFlags)) }
        return body
    }

    static func route(
        _ family: UInt8, length: UInt8 = 0, type: UInt8 = 1, table: UInt8 = 254, flags: UInt32 = 0, link: Int32? = 2, metric: UInt32? = nil,
        wideTable: UInt32? = nil, hops: [(link: Int32, flags: UInt8)] = []
    ) -> [UInt8] {
        var body: [UInt8] = [family, length, 0, 0, table, 3, 0, type] + number(flags)
        if let wideTable { body += attribute(15, number(wideTable)) }
        if let metric { body += attribute(6, number(metric)) }
        if let link { body += attribute(4, number(link)) }
        if !hops.isEmpty { body += attribute(9, hops.flatMap { number(UInt16(8)) + [$0.flags, 0] + number($0.link) }) }
        return body
    }
}
