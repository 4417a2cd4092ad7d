/// The value of the header `Idempotency-Key`.
enum IdempotencyKey {
    /// Returns an id as a string of RFC 9651; one with characters outside ASCII as a display string.
    static func of(_ id: String) -> String {
        let isPrintable = id.utf8.allSatisfy { (0x20...0x7e).contains($0) }
        var value: [UInt8] = Array(isPrintable ? "\"".utf8 : "%\"".utf8)
        for byte in id.utf8 {
            if isPrintable {
                if byte == 0x22 || byte == 0x5c { value.append(0x5c) }
                value.append(byte)
            } else if (0x20...0x7e).contains(byte), byte != 0x25, byte != 0x22 {
                value.append(byte)
            } else {
                value += [0x25] + hexadecimal(byte)
            }
        }
        value.append(0x22)
        return String(decoding: value, as: UTF8.self)
    }

    private static func hexadecimal(_ byte: UInt8) -> [UInt8] {
        [byte >> 4, byte & 15].map { $0 < 10 ? 0x30 &+ $0 : 0x57 &+ $0 }
    }
}
