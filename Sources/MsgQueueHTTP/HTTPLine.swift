/// A line of an answer's header, with its end.
struct HTTPLine {
    private let bytes: [UInt8]

    init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

    var isEmpty: Bool { bytes.allSatisfy { $0 == 0x0d || $0 == 0x0a } }

    /// The name in lower case, and the value without the blanks around it.
    var field: (name: String, value: String)? {
        guard let colon = bytes.firstIndex(of: 0x3a) else { return nil }
        return (String(decoding: bytes[..<colon], as: UTF8.self).lowercased(), Self.trimmed(bytes.suffix(from: colon).dropFirst()))
    }

    /// The status of a first line: three digits after one blank, and before another one or the end of the line.
    var status: Int? {
        let rest = bytes.drop { $0 != 0x20 }.dropFirst()
        let digits = rest.prefix { (0x30...0x39).contains($0) }
        let end = rest.dropFirst(digits.count).first
        guard digits.count == 3, end.map({ [0x20, 0x0d, 0x0a].contains($0) }) ?? true else { return nil }
        return Int(String(decoding: digits, as: UTF8.self))
    }

    /// The value of `Content-Length`: one number, or several equal ones. nil: it is not valid.
    static func length(_ value: String) -> Int64? {
        let numbers = Set(
            value.utf8.split(separator: 0x2c, omittingEmptySubsequences: false).map { part in
                let digits = trimmed(part)
                return digits.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int64(digits) : nil
            })
        return numbers.count == 1 ? numbers.first ?? nil : nil
    }

    private static func trimmed(_ bytes: some BidirectionalCollection<UInt8>) -> String {
        let isBlank: (UInt8) -> Bool = { [0x20, 0x09, 0x0d, 0x0a].contains($0) }
        return String(decoding: bytes.drop(while: isBlank).reversed().drop(while: isBlank).reversed(), as: UTF8.self)
    }
}
