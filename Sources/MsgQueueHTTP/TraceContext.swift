/// The headers of W3C Trace Context, from the metadata of a message.
enum TraceContext {
    private static let maxMembers = 32
    /// Characters of a `tracestate` that is sent. The specification asks for at least 512.
    private static let maxState = 8_192

    /// Returns the headers `traceparent` and `tracestate`. An invalid one is left out, and `tracestate` also without a valid
    /// `traceparent`.
    static func headers(of metadata: [String: String]) -> [(name: String, value: String)] {
        guard let parent = metadata["traceparent"], isParent(parent) else { return [] }
        let headers = [(name: "traceparent", value: parent)]
        guard let state = metadata["tracestate"], isState(state) else { return headers }
        return headers + [("tracestate", state)]
    }

    /// Whether the text is a valid `traceparent`. A later version than 00 may have more fields after those of version 00.
    static func isParent(_ text: String) -> Bool {
        let fields = text.utf8.split(separator: 0x2d, maxSplits: 4, omittingEmptySubsequences: false).map(Array.init)
        guard fields.count >= 4, text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }), text.utf8.count <= 512 else { return false }
        let (version, trace, parent, flags) = (fields[0], fields[1], fields[2], fields[3])
        guard [version, trace, parent, flags].allSatisfy({ $0.allSatisfy(isLowercaseHexadecimal) }) else { return false }
        guard version.count == 2, trace.count == 32, parent.count == 16, flags.count == 2 else { return false }
        guard version != Array("ff".utf8), trace.contains(where: { $0 != 0x30 }), parent.contains(where: { $0 != 0x30 }) else {
            return false
        }
        return fields.count == 4 || version != Array("00".utf8)
    }

    /// Whether the text is a valid `tracestate` with at least one member.
    static func isState(_ text: String) -> Bool {
        guard text.utf8.count <= maxState else { return false }
        let members = text.utf8.split(separator: 0x2c, omittingEmptySubsequences: false).map { trimmed(Array($0)) }
        let filled = members.filter { !$0.isEmpty }
        guard !filled.isEmpty, filled.count <= maxMembers, filled.allSatisfy(isMember) else { return false }
        // A key may occur only once.
        return Set(filled.map { $0.prefix { $0 != 0x3d } }).count == filled.count
    }

    private static func isMember(_ member: [UInt8]) -> Bool {
        let parts = member.split(separator: 0x3d, omittingEmptySubsequences: false)
        guard parts.count == 2, let key = parts.first, let value = parts.last, let first = key.first else { return false }
        let others = Set("_-*/@".utf8)
        return key.count <= 256 && isLowercaseOrDigit(first) && key.allSatisfy { isLowercaseOrDigit($0) || others.contains($0) }
            && (1...256).contains(value.count) && value.allSatisfy { (0x20...0x7e).contains($0) }
    }

    /// Removes spaces and tabs around a member.
    private static func trimmed(_ member: [UInt8]) -> [UInt8] {
        let isBlank: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
        return Array(member.drop(while: isBlank).reversed().drop(while: isBlank).reversed())
    }

    private static func isLowercaseOrDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) || (0x61...0x7a).contains(byte) }
    private static func isLowercaseHexadecimal(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte) }
}
