import Testing

@testable import MsgQueue

/// Escaping and cutting of log lines.
@Suite struct LogTextTests {
    @Test(
        arguments: [
            ("plain", "plain"), ("", ""), ("naïve 👩‍👩‍👧 日本", "naïve 👩‍👩‍👧 日本"), ("a\nb\r\nc\td", "a\\nb\\r\\nc\\td"),
            ("\u{1b}[2J", "\\x1b[2J"), ("\u{0}\u{1}\u{1f}\u{7f}", "\\x00\\x01\\x1f\\x7f"), ("\u{80}\u{85}\u{9b}31m", "\\x80\\x85\\x9b31m"),
            ("\u{2028}\u{2029}", "\\u2028\\u2029"), ("\u{202e}cod.exe\u{2066}", "\\u202ecod.exe\\u2066"),
            ("\u{61c}\u{200f}", "\\u061c\\u200f"),
            ("back\\slash", "back\\slash"), ("\u{a0}\u{ad}", "\u{a0}\u{ad}"),
        ] as [(String, String)])
    func D13_control_characters_are_escaped(text: String, expected: String) {
        #expect(Array(LogText.line(text).utf8) == Array(expected.utf8))
    }

    @Test func D13_a_long_line_is_cut_at_the_limit_between_characters() {
        #expect(LogText.line(String(repeating: "a", count: 2047)).utf8.count == 2047)
        let cut = LogText.line(String(repeating: "a", count: 2048))
        #expect(cut.utf8.count == 2047 && cut.hasSuffix("aaa…"))
        // 25 bytes each: 81 of them and the ellipsis are 2028 bytes.
        let family = LogText.line(String(repeating: "👩‍👩‍👧‍👦", count: 100))
        #expect(family == String(repeating: "👩‍👩‍👧‍👦", count: 81) + "…")
        let escaped = LogText.line(String(repeating: "\u{1b}", count: 1_000_000))
        #expect(escaped == String(repeating: "\\x1b", count: 511) + "…")
        // One character of unlimited length.
        #expect(LogText.line("a" + String(repeating: "\u{301}", count: 100_000)) == "…")
    }

    @Test func D13_a_prefix_is_never_cut_inside_a_character() {
        #expect(LogText.prefix("aé👍b", bytes: 100) == "aé👍b")
        #expect(LogText.prefix("aé👍b", bytes: 8) == "aé👍b")
        #expect(LogText.prefix("aé👍b", bytes: 7) == "aé👍")
        #expect(LogText.prefix("aé👍b", bytes: 6) == "aé")
        #expect(LogText.prefix("aé👍b", bytes: 2) == "a")
        #expect(LogText.prefix("aé👍b", bytes: 0) == "")
        #expect(LogText.prefix("aé👍b", bytes: -1) == "")
        #expect(LogText.prefix("é", bytes: 1) == "")
    }
}
