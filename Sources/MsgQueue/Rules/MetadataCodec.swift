/// Encodes metadata for the store: a JSON object of strings, which the sqlite3 shell can show.
enum MetadataCodec {
    static func encode(_ pairs: [(key: String, value: String)]) -> String {
        var text = "{"
        for (key, value) in pairs {
            if text.utf8.count > 1 { text += "," }
            quote(key, into: &text)
            text += ":"
            quote(value, into: &text)
        }
        return text + "}"
    }

    private static func quote(_ string: String, into text: inout String) {
        text += "\""
        for scalar in string.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case _ where scalar.value < 0x20:
                let digits = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: text.unicodeScalars.append(scalar)
            }
        }
        text += "\""
    }

    /// Returns the pairs that `encode` wrote, in the same order; nil for any other text.
    static func decode(_ text: String) -> [(key: String, value: String)]? {
        var reader = Reader(bytes: Array(text.utf8))
        guard reader.take(0x7b) else { return nil }
        var pairs: [(key: String, value: String)] = []
        if reader.take(0x7d) { return reader.isAtEnd ? pairs : nil }
        while true {
            guard let key = reader.string(), reader.take(0x3a), let value = reader.string() else { return nil }
            pairs.append((key, value))
            if reader.take(0x2c) { continue }
            return reader.take(0x7d) && reader.isAtEnd ? pairs : nil
        }
    }

    private struct Reader {
        let bytes: [UInt8]
        var position = 0

        var isAtEnd: Bool { position == bytes.count }

        mutating func next() -> UInt8? {
            guard position < bytes.count else { return nil }
            defer { position += 1 }
            return bytes[position]
        }

        mutating func take(_ byte: UInt8) -> Bool {
            guard position < bytes.count, bytes[position] == byte else { return false }
            position += 1
            return true
        }

        mutating func string() -> String? {
            guard take(0x22) else { return nil }
            var content: [UInt8] = []
            while let byte = next() {
                switch byte {
                case 0x22: return String(validating: content, as: UTF8.self)
                case 0x5c:
                    guard let escaped = escape() else { return nil }
                    content.append(escaped)
                default: content.append(byte)
                }
            }
            return nil
        }

        /// Reads an escape sequence that `quote` writes: a quotation mark, a backslash or a control character.
        private mutating func escape() -> UInt8? {
            switch next() {
            case 0x22: return 0x22
            case 0x5c: return 0x5c
            case 0x75:
                guard position + 4 <= bytes.count,
                    let value = UInt8(String(decoding: bytes[position..<position + 4], as: UTF8.self), radix: 16), value < 0x20
                else { return nil }
                position += 4
                return value
            default: return nil
            }
        }
    }
}
