import Testing

@testable import MsgQueue

@Suite struct PreviewTests {
    private func preview(_ text: String) -> String { Preview.make(Array(text.utf8)) }

    private func times(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }

    @Test func Q5_a_short_body_is_its_own_preview() {
        for text in ["", "a", "hello\nworld\r\n", times("x", 99), times("x", 100), "tab\tand \u{1b}[31m"] {
            #expect(preview(text) == text)
        }
    }

    @Test func Q5_a_long_body_is_cut_at_100_characters() {
        #expect(preview(times("x", 101)) == times("x", 100))
        for text in ["x", "ж"] { #expect(preview(times(text, 1 << 20)) == times(text, 100)) }
    }

    @Test(arguments: [
        "é", "e\u{301}", "👍", "👍🏽", "🇩🇪", "👨‍👩‍👧‍👦", "❤️", "각", "நி", "\r\n", "1️⃣", "🏴‍☠️",
    ])
    func Q5_a_character_of_several_scalars_counts_as_one(character: String) {
        for count in [1, 99, 100, 101, 250] {
            let isRight = preview(times(character, count)) == times(character, min(count, 100))
            #expect(isRight, "\(count) times")
        }
    }

    /// Emoji of 35 bytes (kiss with two skin tones) and 28 bytes (flags of nations of the United Kingdom).
    @Test(arguments: ["👩🏽‍❤️‍💋‍👨🏿", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "👩🏻‍🤝‍👩🏿"])
    func Q5_a_hundred_of_the_longest_emoji_fit(emoji: String) {
        for count in [100, 200] {
            let shown = preview(times(emoji, count))
            let isWhole = shown == times(emoji, 100)
            #expect(isWhole, "of \(count) there are \(shown.count)")
        }
    }

    /// Checks that the characters of a preview are the first characters of the text.
    private func isStart(_ preview: String, of text: String) -> Bool {
        Array(text).starts(with: Array(preview)) && preview.count <= 100
    }

    /// A short description, because the texts are long.
    private func expectStart(_ preview: String, of text: String, _ what: String) {
        let isStart = isStart(preview, of: text)
        #expect(isStart, "\(what): \(preview.count) characters, \(preview.utf8.count) bytes of \(text.utf8.count)")
    }

    @Test func Q5_a_preview_never_ends_inside_a_character() {
        var random = SeededGenerator(5)
        let characters = ["x", "é", "e\u{301}\u{323}", "👍🏽", "👨‍👩‍👧‍👦", "🇩🇪", "👩🏽‍❤️‍💋‍👨🏿", "\r\n", "각", " ", times("\u{300}", 40), "漢"]
        for round in 0..<400 {
            let mix = round % 2 == 0 ? characters : (0..<2).map { _ in random.pick(characters) }
            let text = (0..<random.int(0...220)).map { _ in random.pick(mix) }.joined()
            expectStart(preview(text), of: text, "round \(round)")
        }
    }

    /// The hundredth character crosses the end of the part of a body that is read.
    @Test func Q5_a_preview_never_ends_inside_its_hundredth_character() {
        for filler in 20...34 {
            for length in [40, 200, 3_000] {
                // 99 characters of `filler` bytes, then a long one, then others.
                let text = times("x" + times("\u{300}", (filler - 1) / 2), 99) + "y" + times("\u{301}", length) + times("z", 50)
                expectStart(preview(text), of: text, "99 of \(filler) bytes, then one of \(length * 2 + 1)")
            }
        }
    }

    @Test func Q5_a_character_of_unlimited_length_is_cut() {
        let hostile = "ab" + times("\u{300}", 100_000)
        let preview = preview(hostile)
        #expect(preview.utf8.count < 10_000)
        expectStart(preview, of: hostile, "hostile")
    }

    @Test func Q5_invalid_utf8_becomes_replacement_characters() {
        #expect(Preview.make([0x61, 0xff, 0x62] as [UInt8]) == "a\u{fffd}b")
        #expect(Preview.make([UInt8](repeating: 0xff, count: 300)) == times("\u{fffd}", 100))
        #expect(Preview.make([0xc3] as [UInt8]) == "\u{fffd}")
        #expect(Preview.make([0xed, 0xa0, 0x80] as [UInt8]).unicodeScalars.allSatisfy { $0 == "\u{fffd}" })
    }

    @Test func Q5_a_preview_contains_no_NUL() {
        #expect(Preview.make([0x61, 0, 0x62, 0] as [UInt8]) == "ab")
        #expect(Preview.make([UInt8](repeating: 0, count: 5_000)).isEmpty)
    }

    @Test func Q5_any_bytes_are_accepted() {
        var random = SeededGenerator(55)
        for _ in 0..<300 {
            let body = random.bytes(random.int(0...5_000))
            let preview = Preview.make(body)
            #expect(preview.count <= 100)
            #expect(!preview.utf8.contains(0))
        }
    }

    /// Bytes that count how often they are read.
    private final class CountedBytes: Collection {
        private(set) var reads = 0
        let (startIndex, endIndex) = (0, 1 << 16)

        func index(after index: Int) -> Int { index + 1 }

        subscript(index: Int) -> UInt8 {
            reads += 1
            return 0x61
        }
    }

    @Test func F9_a_preview_of_plain_text_reads_the_bytes_that_it_shows() {
        let body = CountedBytes()
        #expect(Preview.make(body) == times("a", 100))
        #expect(body.reads <= 2 * Preview.characters + 1)
    }
}
