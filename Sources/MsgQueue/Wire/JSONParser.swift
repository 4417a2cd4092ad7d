/// Parses JSON (RFC 8259) strictly: UTF-8 without a byte order mark, no duplicate keys, no lone surrogates, integers within 64 bits, and
/// within limits. It traps on no input.
package struct JSONParser {
    package struct Limits: Sendable {
        /// The maximal nesting of arrays and objects.
        package var depth = 32
        /// The maximal number of values. A value takes more memory than its text.
        package var values = 20_000

        package init() {}
    }

    /// What is wrong, and the offset of the byte where it was found.
    package struct Failure: Error, Equatable {
        package let text: String
        package let offset: Int
    }

    private let bytes: [UInt8]
    private var position = 0
    private let limits: Limits
    private var values = 0

    /// The maximal length of a number's text.
    private static let numberCeiling = 64

    private init(_ bytes: [UInt8], _ limits: Limits) { (self.bytes, self.limits) = (bytes, limits) }

    package static func parse(_ bytes: [UInt8], limits: Limits = Limits()) throws(Failure) -> JSONValue {
        var parser = JSONParser(bytes, limits)
        let value = try parser.value(depth: 0)
        parser.skipSpace()
        guard parser.position == bytes.count else { throw parser.failure("text after the value") }
        return value
    }

    // MARK: Values

    private mutating func value(depth: Int) throws(Failure) -> JSONValue {
        values += 1
        guard values <= limits.values else { throw failure("more than \(limits.values) values") }
        skipSpace()
        guard let first = peek else { throw failure("the text ends where a value must be") }
        switch first {
        case 0x22: return .string(try string())
        case 0x7b: return try object(depth: depth + 1)
        case 0x5b: return try array(depth: depth + 1)
        case 0x2d, 0x30...0x39: return try number()
        case 0x74: return try literal("true", .bool(true))
        case 0x66: return try literal("false", .bool(false))
        case 0x6e: return try literal("null", .null)
        default: throw failure("a value must be here")
        }
    }

    private mutating func object(depth: Int) throws(Failure) -> JSONValue {
        try enter(depth)
        var members: [JSONValue.Member] = []
        var keys = Set<Name>()
        if takeAfterSpace(0x7d) { return .object(members) }
        repeat {
            skipSpace()
            guard peek == 0x22 else { throw failure("a key must be here") }
            let key = try string()
            guard keys.insert(Name(key)).inserted else { throw failure("a key occurs twice") }
            guard takeAfterSpace(0x3a) else { throw failure("a colon must be here") }
            members.append(JSONValue.Member(key, try value(depth: depth)))
        } while takeAfterSpace(0x2c)
        guard take(0x7d) else { throw failure("a comma or the end of the object must be here") }
        return .object(members)
    }

    private mutating func array(depth: Int) throws(Failure) -> JSONValue {
        try enter(depth)
        var elements: [JSONValue] = []
        if takeAfterSpace(0x5d) { return .array(elements) }
        repeat { elements.append(try value(depth: depth)) } while takeAfterSpace(0x2c)
        guard take(0x5d) else { throw failure("a comma or the end of the array must be here") }
        return .array(elements)
    }

    /// Takes the first byte of an array or an object.
    private mutating func enter(_ depth: Int) throws(Failure) {
        guard depth <= limits.depth else { throw failure("nested deeper than \(limits.depth) levels") }
        position += 1
    }

    private mutating func literal(_ word: StaticString, _ value: JSONValue) throws(Failure) -> JSONValue {
        for index in 0..<word.utf8CodeUnitCount {
            guard take(word.utf8Start[index]) else { throw failure("a value must be here") }
        }
        return value
    }

    // MARK: Numbers

    private mutating func number() throws(Failure) -> JSONValue {
        let start = position
        let isNegative = take(0x2d)
        if take(0x30) {
            guard !isDigit(peek) else { throw failure("a number must not begin with 0") }
        } else {
            try digits()
        }
        var isInteger = true
        if take(0x2e) {
            isInteger = false
            try digits()
        }
        if take(0x65) || take(0x45) {
            isInteger = false
            if !take(0x2b) { _ = take(0x2d) }
            try digits()
        }
        guard position - start <= Self.numberCeiling else { throw failure("a number has more than \(Self.numberCeiling) characters") }
        guard !isInteger else { return .integer(try integer(bytes[(isNegative ? start + 1 : start)..<position], isNegative)) }
        guard let number = Double(String(decoding: bytes[start..<position], as: UTF8.self)), number.isFinite else {
            throw failure("a number is out of range")
        }
        return .number(number)
    }

    private mutating func digits() throws(Failure) {
        guard isDigit(peek) else { throw failure("a digit must be here") }
        while isDigit(peek) { position += 1 }
    }

    private func isDigit(_ byte: UInt8?) -> Bool { byte.map { (0x30...0x39).contains($0) } ?? false }

    private func integer(_ digits: ArraySlice<UInt8>, _ isNegative: Bool) throws(Failure) -> Int64 {
        var value: Int64 = 0
        for digit in digits {
            let (product, overflow) = value.multipliedReportingOverflow(by: 10)
            let part = Int64(digit) - 0x30
            let (sum, carry) = isNegative ? product.subtractingReportingOverflow(part) : product.addingReportingOverflow(part)
            guard !overflow, !carry else { throw failure("an integer is out of range") }
            value = sum
        }
        return value
    }

    // MARK: Strings

    private mutating func string() throws(Failure) -> String {
        position += 1
        var content: [UInt8] = []
        var start = position
        while let byte = peek {
            switch byte {
            case 0x22:
                let run = bytes[start..<position]
                let text = content.isEmpty ? String(validating: run, as: UTF8.self) : String(validating: content + run, as: UTF8.self)
                guard let text else { throw failure("a string is not UTF-8") }
                position += 1
                return text
            case 0x5c:
                content += bytes[start..<position]
                position += 1
                content += try escape()
                start = position
            case ..<0x20: throw failure("a control character in a string must be escaped")
            default: position += 1
            }
        }
        throw failure("the text ends inside a string")
    }

    /// Reads an escape sequence after its backslash. Returns its character in UTF-8.
    private mutating func escape() throws(Failure) -> [UInt8] {
        guard let byte = peek else { throw failure("the text ends inside a string") }
        position += 1
        switch byte {
        case 0x22, 0x5c, 0x2f: return [byte]
        case 0x62: return [0x08]
        case 0x66: return [0x0c]
        case 0x6e: return [0x0a]
        case 0x72: return [0x0d]
        case 0x74: return [0x09]
        case 0x75: return Array(String(Character(try scalar())).utf8)
        default: throw failure("an escape sequence is unknown")
        }
    }

    /// Reads the digits of one escaped UTF-16 unit, or of a surrogate pair.
    private mutating func scalar() throws(Failure) -> Unicode.Scalar {
        let high = try unit()
        if let scalar = Unicode.Scalar(high) { return scalar }
        guard (0xd800...0xdbff).contains(high), take(0x5c), take(0x75) else { throw failure("a lone surrogate") }
        let low = try unit()
        guard (0xdc00...0xdfff).contains(low), let scalar = Unicode.Scalar(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)) else {
            throw failure("a lone surrogate")
        }
        return scalar
    }

    private mutating func unit() throws(Failure) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = peek, let digit = Self.hexadecimal(byte) else { throw failure("a hexadecimal digit must be here") }
            value = value << 4 | digit
            position += 1
        }
        return value
    }

    private static func hexadecimal(_ byte: UInt8) -> UInt32? {
        switch byte {
        case 0x30...0x39: UInt32(byte) - 0x30
        case 0x41...0x46: UInt32(byte) - 0x37
        case 0x61...0x66: UInt32(byte) - 0x57
        default: nil
        }
    }

    // MARK: Bytes

    private var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        position += 1
        return true
    }

    private mutating func takeAfterSpace(_ byte: UInt8) -> Bool {
        skipSpace()
        return take(byte)
    }

    private mutating func skipSpace() {
        while let byte = peek, byte == 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d { position += 1 }
    }

    private func failure(_ text: String) -> Failure { Failure(text: text, offset: position) }
}
