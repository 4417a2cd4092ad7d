import Testing

@testable import MsgQueue

@Suite struct JSONTests {
    private func parse(_ text: String) -> JSONValue? { try? JSONParser.parse(Array(text.utf8)) }
    private func write(_ value: JSONValue) -> String { String(decoding: JSONWriter.line(value).dropLast(), as: UTF8.self) }

    @Test(
        arguments: [
            ("null", .null), (" true ", true), ("\t\r\nfalse", false), ("0", 0), ("-0", 0), ("17", 17), ("-17", -17),
            ("9223372036854775807", .integer(.max)), ("-9223372036854775808", .integer(.min)), ("1.5", .number(1.5)),
            ("-1e3", .number(-1000)), ("1E+2", .number(100)), ("25e-2", .number(0.25)), ("\"\"", ""),
            (#""a\"\\\/\b\f\n\r\t""#, "a\"\\/\u{8}\u{c}\n\r\t"),
            (#""\u0041\u00e4\u20AC\ud83d\ude00\u0000""#, "Aä€😀\0"), ("\"ä€😀\u{7f}\"", "ä€😀\u{7f}"), ("[]", []), ("[ ]", []),
            ("[1,[2] , {}]", [1, [2], [:]]), ("{}", [:]), ("{ }", [:]), (#"{"a":1,"":[null]}"#, ["a": 1, "": [.null]]),
            // Canonically equivalent keys are different keys.
            (#"{"\u00e9":1,"e\u0301":2}"#, ["é": 1, "e\u{301}": 2]),
        ] as [(String, JSONValue)])
    func valid_texts(text: String, value: JSONValue) { #expect(parse(text) == value) }

    @Test(
        arguments: [
            "", " ", "nul", "nulll", "True", "01", "-", "-a", "+1", ".5", "1.", "1.e1", "1e", "1e+", "0x10", "NaN", "Infinity", "1e999",
            "-1e999",
            "9223372036854775808", "-9223372036854775809", "99999999999999999999999", String(repeating: "1", count: 65),
            "0." + String(repeating: "1", count: 64), "\"", "\"a", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", #""\ud800""#,
            #""\ud800x""#,
            #""\ud800\n""#, #""\ud800\u0041""#, #""\ude00""#, "\"\n\"", "\"\0\"", "'a'", "[", "[1", "[1,", "[1,]", "[,]", "[1 2]", "]", "{",
            "{1:2}",
            #"{"a"}"#, #"{"a":}"#, #"{"a":1,}"#, #"{"a":1 "b":2}"#, #"{"a":1,"a":2}"#, #"{"a":1,"\u0061":2}"#, "{}{}", "1 1", "// a",
            "\u{feff}1",
        ])
    func invalid_texts(text: String) { #expect(parse(text) == nil) }

    @Test(
        arguments: [
            [0x22, 0x80, 0x22], [0x22, 0xc0, 0x80, 0x22], [0x22, 0xc3, 0x22], [0x22, 0xed, 0xa0, 0x80, 0x22],
            [0x22, 0xf4, 0x90, 0x80, 0x80, 0x22],
            [0x22, 0x5c, 0x6e, 0xff, 0x22], [0xff], [0x00], [0x31, 0x00],
        ] as [[UInt8]])
    func bytes_that_are_not_UTF_8(bytes: [UInt8]) {
        #expect(throws: JSONParser.Failure.self) { try JSONParser.parse(bytes) }
    }

    @Test func the_depth_and_the_number_of_values_are_limited() {
        func nested(_ depth: Int) -> String { String(repeating: "[", count: depth) + String(repeating: "]", count: depth) }
        #expect(parse(nested(32)) != nil)
        #expect(parse(nested(33)) == nil)
        #expect(parse(nested(1_000_000)) == nil)
        #expect(parse(String(repeating: "[", count: 1_000_000)) == nil)
        #expect(parse(String(repeating: #"{"a":"#, count: 1_000_000)) == nil)
        func many(_ count: Int) -> String { "[" + Array(repeating: "0", count: count).joined(separator: ",") + "]" }
        #expect(parse(many(19_999)) != nil)
        #expect(parse(many(20_000)) == nil)
    }

    @Test func a_failure_has_its_place() {
        #expect(throws: JSONParser.Failure(text: "a value must be here", offset: 5)) { try JSONParser.parse(Array(#"{"a":x}"#.utf8)) }
    }

    @Test(
        arguments: [
            (.null, "null"), (true, "true"), (-5, "-5"), (.number(0.1), "0.1"), (.number(.infinity), "null"),
            ("ä\n\u{1}\"\\\u{1f}/", #""ä\n\u0001\"\\\u001f/""#),
            ("\u{8}\u{c}\r\t", #""\b\f\r\t""#), ([1, "a", [], [:]], #"[1,"a",[],{}]"#), (["b": 1, "a": [:]], #"{"b":1,"a":{}}"#),
        ] as [(JSONValue, String)])
    func written_texts(value: JSONValue, text: String) { #expect(write(value) == text) }

    private func random(_ random: inout SeededGenerator, depth: Int) -> JSONValue {
        func text(_ random: inout SeededGenerator) -> String {
            let scalars: [Unicode.Scalar] = (0..<random.int(0...8)).compactMap { _ in
                random.chance(50) ? Unicode.Scalar(UInt8(random.int(0...127))) : Unicode.Scalar(UInt32(random.int(0...0x10ffff)))
            }
            return scalars.reduce(into: "") { $0.unicodeScalars.append($1) }
        }
        switch random.int(0...(depth > 4 ? 4 : 6)) {
        case 0: return .null
        case 1: return .bool(random.chance(50))
        case 2: return .integer(random.chance(20) ? random.pick([.min, .max, 0]) : random.int64(.min ... .max))
        case 3:
            let number = Double(bitPattern: random.next())
            return .number(number.isFinite && number != number.rounded() ? number : 0.5)
        case 4: return .string(text(&random))
        case 5: return .array((0..<random.int(0...4)).map { _ in self.random(&random, depth: depth + 1) })
        default:
            var keys = Set<Name>()
            return .object(
                (0..<random.int(0...4)).compactMap { _ in
                    let key = text(&random)
                    let value = self.random(&random, depth: depth + 1)
                    return keys.insert(Name(key)).inserted ? JSONValue.Member(key, value) : nil
                })
        }
    }

    @Test func a_written_value_is_read_as_it_was() throws {
        var generator = SeededGenerator(13)
        for _ in 0..<3_000 {
            let value = random(&generator, depth: 0)
            let line = JSONWriter.line(value)
            #expect(line.dropLast().allSatisfy { $0 != 0x0a })
            #expect(try JSONParser.parse(line) == value)
        }
    }

    @Test func random_and_changed_bytes_never_trap() {
        var generator = SeededGenerator(14)
        let marks = Array(#"{}[]",:\u0123456789eE+-.tfn "#.utf8)
        for round in 0..<20_000 {
            var bytes: [UInt8]
            if round % 2 == 0 {
                bytes = (0..<generator.int(0...40)).map { _ in generator.chance(90) ? generator.pick(marks) : UInt8(generator.int(0...255))
                }
            } else {
                bytes = JSONWriter.line(random(&generator, depth: 0))
                for _ in 0..<generator.int(1...3) {
                    let place = generator.int(0...bytes.count - 1)
                    switch generator.int(0...2) {
                    case 0: bytes[place] = UInt8(generator.int(0...255))
                    case 1: bytes.insert(generator.pick(marks), at: place)
                    default: bytes.removeSubrange(place...)
                    }
                    if bytes.isEmpty { break }
                }
            }
            guard let value = try? JSONParser.parse(bytes) else { continue }
            // What was accepted is written and read again without a change.
            #expect((try? JSONParser.parse(JSONWriter.line(value))) == value)
        }
    }

    @Test(arguments: [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="), ("foobar", "Zm9vYmFy"),
    ])
    func base64(text: String, encoded: String) {
        #expect(Base64.encode(Array(text.utf8)) == encoded)
        #expect(Base64.decode(encoded) == Array(text.utf8))
    }

    @Test(arguments: ["Z", "Zg", "Zg=", "Zg===", "Zm8", "Zm9=", "Zh==", "=", "====", "Zg==Zg==", "Zm 9", "Zm9v\n", "Zm-_", "Zä=="])
    func text_that_is_not_base64(text: String) { #expect(Base64.decode(text) == nil) }

    @Test func base64_of_random_bytes() {
        var generator = SeededGenerator(15)
        for count in 0..<300 {
            let bytes = generator.bytes(count)
            #expect(Base64.decode(Base64.encode(bytes)) == bytes)
        }
    }
}
