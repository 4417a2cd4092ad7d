import Testing

@testable import MsgQueue

@Suite struct MetadataCodecTests {
    private let pieces = [
        "a", "key", "\"", "\\", "\n", "\r", "\t", "\u{1}", "\u{1f}", "\u{7f}", "\u{80}", "é", "e\u{301}", "👩‍👩‍👧‍👦", "🇩🇪", "漢", "\u{2028}",
        "\u{fffd}", "\u{feff}", "{", "}", ",", ":", "/", "u0041", "\\u0041", "  ", "'", "\u{10ffff}",
    ]

    private func text(_ random: inout SeededGenerator) -> String {
        (0..<random.int(0...8)).map { _ in random.pick(pieces) }.joined()
    }

    private func isSame(_ left: [(key: String, value: String)]?, _ right: [(key: String, value: String)]) -> Bool {
        guard let left, left.count == right.count else { return false }
        return zip(left, right).allSatisfy { Name($0.key) == Name($1.key) && Name($0.value) == Name($1.value) }
    }

    @Test func M1_metadata_is_read_as_it_was_written_in_order() {
        var random = SeededGenerator(31)
        for _ in 0..<2_000 {
            let pairs = (0..<random.int(0...6)).map { _ in (key: text(&random), value: text(&random)) }
            let encoded = MetadataCodec.encode(pairs)
            #expect(isSame(MetadataCodec.decode(encoded), pairs), "\(encoded)")
        }
    }

    /// SQLite can read it as JSON.
    @Test func X12_metadata_is_a_json_object_of_strings() throws {
        var random = SeededGenerator(37)
        let database = try PlainDatabase(":memory:")
        for round in 0..<500 {
            let pairs = (0..<random.int(0...6)).map { _ in (key: text(&random), value: text(&random)) }
            let json = MetadataCodec.encode(pairs).split(separator: "'", omittingEmptySubsequences: false).joined(separator: "''")
            let rows = try database.rows("SELECT key, value, type FROM json_each('\(json)')")
            let read = rows.map { (key: $0[0] ?? "", value: $0[1] ?? "") }
            let isRead = isSame(read, pairs) && rows.allSatisfy { $0[2] == "text" }
            #expect(isRead, "round \(round)")
        }
    }

    @Test func M1_empty_strings_and_no_pairs_are_kept() {
        #expect(MetadataCodec.encode([]) == "{}")
        #expect(MetadataCodec.decode("{}")?.isEmpty == true)
        #expect(isSame(MetadataCodec.decode(MetadataCodec.encode([("", "")])), [("", "")]))
    }

    @Test(arguments: [
        "", "{", "}", "{}x", "{\"a\"}", "{\"a\":}", "{\"a\":1}", "{\"a\":\"b\"", "{\"a\":\"b\",}", "{\"a\":\"b\"}}", "{\"a\":\"b\" }",
        "{\"a\":\"\\n\"}", "{\"a\":\"\\u00\"}", "{\"a\":\"\\u0041\"}", "{\"a\":\"\\u00zz\"}", "{\"a\":\"\\", "[]", "null", "\"a\"",
    ])
    func M1_any_other_json_is_refused(text: String) {
        #expect(MetadataCodec.decode(text) == nil)
    }

    @Test func M1_any_text_is_accepted() {
        var random = SeededGenerator(41)
        for _ in 0..<3_000 {
            var bytes = Array(MetadataCodec.encode([(text(&random), text(&random)), (text(&random), text(&random))]).utf8)
            for _ in 0..<random.int(1...3) where !bytes.isEmpty {
                bytes[random.int(0...bytes.count - 1)] = random.pick([0x22, 0x5c, 0x7b, 0x7d, 0x3a, 0x2c, 0x75, 0x00, 0xff])
            }
            _ = MetadataCodec.decode(String(decoding: bytes.prefix(random.int(0...bytes.count)), as: UTF8.self))
        }
    }
}
