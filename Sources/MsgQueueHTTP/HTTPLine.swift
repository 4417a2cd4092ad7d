/// A line of an answer's header, with its end.
struct HTTPLine {
    private let bytes: [UInt8]

    init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

    var isStatus: Bool { bytes.starts(with: Array("HTTP/".utf8)) }
    var isEmpty: Bool { bytes.allSatisfy { $0 == 0x0d || $0 == 0x0a } }

    /// The name in lower case, and the value without the blanks around it.
    var field: (name: String, value: String)? {
        guard let colon = bytes.firstIndex(of: 0x3a) else { return nil }
        return (String(decoding: bytes[..<colon], as: UTF8.self).lowercased(), Self.trimmed(bytes.suffix(from: colon).dropFirst()))
    }

    /// Whether the value of `Content-Length` is valid: one number, or several.
    static func isLength(_ value: String) -> Bool {
        value.utf8.split(separator: 0x2c, omittingEmptySubsequences: false).allSatisfy { part in
            let digits = trimmed(part).utf8
            return !digits.isEmpty && digits.allSatisfy { (0x30...0x39).contains($0) }
        }
    }

    private static func trimmed(_ bytes: some BidirectionalCollection<UInt8>) -> String {
        let isBlank: (UInt8) -> Bool = { [0x20, 0x09, 0x0d, 0x0a].contains($0) }
        return String(decoding: bytes.drop(while: isBlank).reversed().drop(while: isBlank).reversed(), as: UTF8.self)
    }
}
