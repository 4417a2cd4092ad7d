/// The ids that the engine generates: version 7 UUIDs that contain the message's sequence number, so that a message can be found by its id
/// without an index.
///
///     48 bits   milliseconds since 1970
///      4 bits   version 7
///     12 bits   random
///      2 bits   variant
///     40 bits   sequence number
///     22 bits   random
package enum MessageID {
    package static let sequenceCeiling: Int64 = (1 << 40) - 1

    package static func make(sequence: Int64, now: Int64, random: UInt64) -> String {
        let high =
            (UInt64(truncatingIfNeeded: max(now, 0)) << 16) | 0x7000 | (random & 0xfff)
        let low =
            (0b10 << 62) | ((UInt64(truncatingIfNeeded: sequence) & 0xff_ffff_ffff) << 22) | ((random >> 12) & 0x3f_ffff)
        return text(high: high, low: low)
    }

    package static func text(high: UInt64, low: UInt64) -> String {
        String(unsafeUninitializedCapacity: 36) { buffer in
            var position = 0
            func put(_ value: UInt64, digits: Int) {
                for digit in stride(from: digits - 1, through: 0, by: -1) {
                    let nibble = UInt8(truncatingIfNeeded: (value >> UInt64(digit * 4)) & 0xf)
                    buffer[position] = nibble < 10 ? 0x30 + nibble : 0x57 + nibble
                    position += 1
                }
            }
            func dash() {
                buffer[position] = 0x2d
                position += 1
            }
            put(high >> 32, digits: 8)
            dash()
            put(high >> 16, digits: 4)
            dash()
            put(high, digits: 4)
            dash()
            put(low >> 48, digits: 4)
            dash()
            put(low, digits: 12)
            return position
        }
    }

    /// Returns the sequence number in an id of the form that `make` generates; nil for any other id.
    package static func sequence(in id: String) -> Int64? {
        bits(of: id).map { Int64(($0.low >> 22) & 0xff_ffff_ffff) }
    }

    /// Returns the 128 bits of an id of the form that `make` generates, from which `text` makes the same id; nil for any other id.
    package static func bits(of id: String) -> (high: UInt64, low: UInt64)? {
        var (high, low): (UInt64, UInt64) = (0, 0)
        var position = 0
        for byte in id.utf8 {
            let nibble: UInt64
            switch (position, byte) {
            case (8, 0x2d), (13, 0x2d), (18, 0x2d), (23, 0x2d):
                position += 1
                continue
            case (8, _), (13, _), (18, _), (23, _): return nil
            case (14, let version) where version != 0x37: return nil
            case (_, 0x30...0x39): nibble = UInt64(byte - 0x30)
            case (_, 0x61...0x66): nibble = UInt64(byte - 0x57)
            default: return nil
            }
            if position > 18 { low = (low << 4) | nibble } else { high = (high << 4) | nibble }
            position += 1
        }
        guard position == 36, low >> 62 == 0b10 else { return nil }
        return (high, low)
    }
}
