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
        guard let bits = uuid(of: id), bits.high >> 12 & 0xf == 7, bits.low >> 62 == 0b10 else { return nil }
        return bits
    }

    /// Returns the 128 bits of a UUID of any version in lower case, from which `text` makes the same id; nil for any other id.
    package static func uuid(of id: String) -> (high: UInt64, low: UInt64)? {
        guard id.utf8.count == 36 else { return nil }
        var id = id
        return id.withUTF8 { text in
            var isUUID = [8, 13, 18, 23].allSatisfy { text[$0] == 0x2d }
            func append(_ places: Range<Int>, to number: inout UInt64) {
                for place in places {
                    let (digit, letter) = (text[place] &- 0x30, text[place] &- 0x61)
                    isUUID = isUUID && (digit < 10 || letter < 6)
                    number = number << 4 | UInt64(digit < 10 ? digit : letter &+ 10)
                }
            }
            var (high, low): (UInt64, UInt64) = (0, 0)
            for places in [0..<8, 9..<13, 14..<18] { append(places, to: &high) }
            for places in [19..<23, 24..<36] { append(places, to: &low) }
            return isUUID ? (high, low) : nil
        }
    }
}
