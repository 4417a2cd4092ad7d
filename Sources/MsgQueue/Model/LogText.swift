/// The text of log lines. It may quote a receiver or a file name, so characters that start a new line or control a terminal are escaped.
package enum LogText {
    /// The maximum length of a line, in bytes of UTF-8.
    package static let bytes = 2047

    private static let ellipsis = Array("…".utf8)

    /// Returns the text on one line: control characters are escaped (`\n`, `\x1b`, `\u202e`); a text that is longer than `bytes` is cut
    /// between two characters and ends with "…".
    package static func line(_ text: String, bytes: Int = bytes) -> String {
        // Escaping never shortens a text.
        let start = text.utf8.count > 2 * bytes ? String(decoding: text.utf8.prefix(2 * bytes), as: UTF8.self) : text
        var line: [UInt8] = []
        var lengthBeforeEllipsis = 0
        for character in start {
            append(character, to: &line)
            guard line.count <= bytes else {
                line.removeLast(line.count - lengthBeforeEllipsis)
                line += ellipsis
                break
            }
            if line.count <= bytes - ellipsis.count { lengthBeforeEllipsis = line.count }
        }
        return String(decoding: line, as: UTF8.self)
    }

    /// Returns the longest prefix of whole characters that fits into `bytes` bytes.
    package static func prefix(_ text: String, bytes: Int) -> String {
        guard text.utf8.count > bytes else { return text }
        var left = bytes
        return String(
            text.prefix { character in
                left -= character.utf8.count
                return left >= 0
            })
    }

    private static func append(_ character: Character, to line: inout [UInt8]) {
        for scalar in character.unicodeScalars {
            if let escape = escape(scalar.value) { line += Array(escape.utf8) } else { line += Array(String(scalar).utf8) }
        }
    }

    /// Returns the escape sequence of a character; nil: it needs none.
    private static func escape(_ value: UInt32) -> String? {
        switch value {
        case 0x0a: "\\n"
        case 0x0d: "\\r"
        case 0x09: "\\t"
        case 0..<0x20, 0x7f..<0xa0: "\\x" + hexadecimal(value, digits: 2)
        // Line and paragraph separators, and characters that change the text direction.
        case 0x061c, 0x200e, 0x200f, 0x2028...0x202e, 0x2066...0x2069: "\\u" + hexadecimal(value, digits: 4)
        default: nil
        }
    }

    private static func hexadecimal(_ value: UInt32, digits: Int) -> String {
        let text = String(value, radix: 16)
        return String(repeating: "0", count: max(digits - text.count, 0)) + text
    }
}
