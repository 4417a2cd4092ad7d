/// Writes JSON on one line: line breaks in strings are escaped.
package struct JSONWriter {
    package private(set) var bytes: [UInt8] = []

    package init() {}

    package static func line(_ value: JSONValue) -> [UInt8] {
        var writer = JSONWriter()
        writer.write(value)
        writer.bytes.append(0x0a)
        return writer.bytes
    }

    package mutating func write(_ value: JSONValue) {
        switch value {
        case .null: bytes += "null".utf8
        case .bool(let flag): bytes += (flag ? "true" : "false").utf8
        case .integer(let number): bytes += String(number).utf8
        // JSON has no infinity and no NaN.
        case .number(let number): bytes += (number.isFinite ? number.description : "null").utf8
        case .string(let text): write(text)
        case .array(let elements):
            bytes.append(0x5b)
            for (index, element) in elements.enumerated() {
                if index > 0 { bytes.append(0x2c) }
                write(element)
            }
            bytes.append(0x5d)
        case .object(let members):
            bytes.append(0x7b)
            for (index, member) in members.enumerated() {
                if index > 0 { bytes.append(0x2c) }
                write(member.key)
                bytes.append(0x3a)
                write(member.value)
            }
            bytes.append(0x7d)
        }
    }

    private mutating func write(_ given: String) {
        var text = given
        bytes.append(0x22)
        text.withUTF8 { content in
            var start = 0
            for (index, byte) in content.enumerated() where byte < 0x20 || byte == 0x22 || byte == 0x5c {
                bytes += content[start..<index]
                bytes += Self.escape(byte)
                start = index + 1
            }
            bytes += content[start...]
        }
        bytes.append(0x22)
    }

    private static func escape(_ byte: UInt8) -> [UInt8] {
        switch byte {
        case 0x22, 0x5c: return [0x5c, byte]
        case 0x08: return [0x5c, 0x62]
        case 0x09: return [0x5c, 0x74]
        case 0x0a: return [0x5c, 0x6e]
        case 0x0c: return [0x5c, 0x66]
        case 0x0d: return [0x5c, 0x72]
        default:
            let digits = Array("0123456789abcdef".utf8)
            return Array("\\u00".utf8) + [digits[Int(byte >> 4)], digits[Int(byte & 0xf)]]
        }
    }
}
