/// Base64 (RFC 4648, section 4), with padding.
package enum Base64 {
    private static let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    package static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        var index = 0
        while index < bytes.count {
            let group = bytes[index..<min(index + 3, bytes.count)]
            var bits: UInt32 = 0
            for byte in group { bits = bits << 8 | UInt32(byte) }
            bits <<= UInt32(8 * (3 - group.count))
            for digit in 0..<4 {
                text.append(digit <= group.count ? digits[Int(bits >> UInt32(18 - 6 * digit) & 0x3f)] : 0x3d)
            }
            index += 3
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Returns the bytes; nil: the text is not base64 as `encode` writes it.
    package static func decode(_ text: String) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count / 4 * 3)
        var (bits, count, padding): (UInt32, Int, Int) = (0, 0, 0)
        for byte in text.utf8 {
            if byte == 0x3d {
                padding += 1
                continue
            }
            guard padding == 0, let value = value(byte) else { return nil }
            bits = bits << 6 | value
            count += 1
            guard count % 4 == 0 else { continue }
            bytes += [UInt8(bits >> 16 & 0xff), UInt8(bits >> 8 & 0xff), UInt8(bits & 0xff)]
            bits = 0
        }
        switch (count % 4, padding) {
        case (0, 0): return bytes
        // The unused bits of the last digit must be zero.
        case (2, 2) where bits & 0xf == 0: return bytes + [UInt8(bits >> 4 & 0xff)]
        case (3, 1) where bits & 0x3 == 0: return bytes + [UInt8(bits >> 10 & 0xff), UInt8(bits >> 2 & 0xff)]
        default: return nil
        }
    }

    private static func value(_ byte: UInt8) -> UInt32? {
        switch byte {
        case 0x41...0x5a: UInt32(byte) - 0x41
        case 0x61...0x7a: UInt32(byte) - 0x47
        case 0x30...0x39: UInt32(byte) + 4
        case 0x2b: 62
        case 0x2f: 63
        default: nil
        }
    }
}
