/// The checksum of a row (XXH64). SQLite has no checksums of its own, so a changed bit in a row would otherwise not be detected.
struct Checksum {
    private static let prime1: UInt64 = 0x9E37_79B1_85EB_CA87
    private static let prime2: UInt64 = 0xC2B2_AE3D_27D4_EB4F
    private static let prime3: UInt64 = 0x1656_67B1_9E37_79F9
    private static let prime4: UInt64 = 0x85EB_CA77_C2B2_AE63
    private static let prime5: UInt64 = 0x27D4_EB2F_1656_67C5

    static func hash(_ bytes: UnsafeRawBufferPointer, seed: UInt64) -> UInt64 {
        var offset = 0
        let count = bytes.count
        var result: UInt64
        if count >= 32 {
            var lanes = (seed &+ prime1 &+ prime2, seed &+ prime2, seed, seed &- prime1)
            while offset &+ 32 <= count {
                lanes.0 = round(lanes.0, word(bytes, offset))
                lanes.1 = round(lanes.1, word(bytes, offset &+ 8))
                lanes.2 = round(lanes.2, word(bytes, offset &+ 16))
                lanes.3 = round(lanes.3, word(bytes, offset &+ 24))
                offset &+= 32
            }
            result = rotate(lanes.0, 1) &+ rotate(lanes.1, 7) &+ rotate(lanes.2, 12) &+ rotate(lanes.3, 18)
            result = merge(merge(merge(merge(result, lanes.0), lanes.1), lanes.2), lanes.3)
        } else {
            result = seed &+ prime5
        }
        result = result &+ UInt64(truncatingIfNeeded: count)
        while offset &+ 8 <= count {
            result = rotate(result ^ round(0, word(bytes, offset)), 27) &* prime1 &+ prime4
            offset &+= 8
        }
        if offset &+ 4 <= count {
            let half = UInt64(UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)))
            result = rotate(result ^ (half &* prime1), 23) &* prime2 &+ prime3
            offset &+= 4
        }
        while offset < count {
            result = rotate(result ^ (UInt64(bytes[offset]) &* prime5), 11) &* prime1
            offset &+= 1
        }
        result = (result ^ (result >> 33)) &* prime2
        result = (result ^ (result >> 29)) &* prime3
        return result ^ (result >> 32)
    }

    private static func word(_ bytes: UnsafeRawBufferPointer, _ offset: Int) -> UInt64 {
        UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }

    private static func rotate(_ value: UInt64, _ bits: UInt64) -> UInt64 { (value << bits) | (value >> (64 &- bits)) }

    private static func round(_ lane: UInt64, _ input: UInt64) -> UInt64 { rotate(lane &+ input &* prime2, 31) &* prime1 }

    private static func merge(_ result: UInt64, _ lane: UInt64) -> UInt64 { (result ^ round(0, lane)) &* prime1 &+ prime4 }

    // MARK: Checksum of several values

    private(set) var value: UInt64 = 0

    mutating func add(_ bytes: UnsafeRawBufferPointer) { value = Self.hash(bytes, seed: value) }

    mutating func add(_ number: Int64) {
        withUnsafeBytes(of: number.littleEndian) { add($0) }
    }

    mutating func add(_ text: String) {
        var text = text
        text.withUTF8 { add(UnsafeRawBufferPointer($0)) }
    }

    /// The value as a signed integer, as SQLite stores it.
    var stored: Int64 { Int64(bitPattern: value) }
}
