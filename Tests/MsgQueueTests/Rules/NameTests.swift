import Testing

@testable import MsgQueue

@Suite struct NameTests {
    /// Long ones and short ones, which Swift stores inside the string.
    @Test func names_are_equal_if_all_their_bytes_are() {
        for length in 0...40 {
            let text = String(repeating: "a", count: length)
            let copy = String(decoding: Array(text.utf8), as: UTF8.self)
            #expect(Name(text) == Name(copy) && Name(text).hashValue == Name(copy).hashValue)
            #expect(Name(text) != Name(text + "a"))
            for place in 0..<length {
                var bytes = Array(text.utf8)
                bytes[place] = UInt8(ascii: "b")
                #expect(Name(text) != Name(String(decoding: bytes, as: UTF8.self)), "byte \(place) of \(length)")
            }
        }
    }

    @Test func names_that_look_alike_are_different() {
        #expect("\u{e9}" == "e\u{301}", "Swift compares strings by canonical equivalence")
        #expect(Name("\u{e9}") != Name("e\u{301}"))
        #expect("a\u{323}\u{307}" == "a\u{307}\u{323}")
        #expect(Name("a\u{323}\u{307}") != Name("a\u{307}\u{323}"), "of the same length")
        #expect(Set<Name>(["\u{e9}", "e\u{301}", "\u{e9}"]).count == 2)
    }
}
