import Testing

@testable import MsgQueue

@Suite struct DraftRuleTests {
    private func check(
        id: String? = nil, conversation: String = "", bodySize: Int = 0, metadata: [(key: String, value: String)] = [],
        notBefore: Int64 = 0, expiresAt: Int64 = 0, priority: Int32 = 0, _ change: (inout Options) -> Void = { _ in }
    ) -> QueueError.Code? {
        var options = Options()
        change(&options)
        let body = [UInt8](repeating: 0x61, count: bodySize)
        return body.withUnsafeBytes { bytes in
            let draft = BorrowedDraft(
                id: id, conversation: Name(conversation), body: bytes, metadata: metadata, notBefore: notBefore, expiresAt: expiresAt,
                unmeteredOnly: false, priority: priority)
            return refusal { try DraftRule.check(draft, options) }
        }
    }

    @Test(
        arguments: [(-101, .invalid), (-100, nil), (0, nil), (100, nil), (101, .invalid), (Int32.max, .invalid)]
            as [(Int32, QueueError.Code?)])
    func F2_a_priority_is_minus_100_to_100(priority: Int32, expected: QueueError.Code?) {
        #expect(check(priority: priority) == expected)
    }

    private let controls = (Array(0x00...0x1f) + Array(0x7f...0x9f)).compactMap { UnicodeScalar($0) }

    @Test func M1_an_ordinary_draft_is_valid() {
        #expect(check() == nil)
        #expect(check(id: "a", conversation: "ana", bodySize: 10, metadata: [("k", "v"), ("l", "")]) == nil)
        #expect(check(id: "ключ ✓ 👩‍👩‍👧 \u{200b}", conversation: "café") == nil)
    }

    @Test(arguments: [
        ("", QueueError.Code?.some(.invalid)), ("x", nil), (String(repeating: "x", count: 255), nil),
        (String(repeating: "x", count: 256), .invalid),
        // The limit counts bytes, not characters.
        (String(repeating: "é", count: 127), nil), (String(repeating: "é", count: 128), .invalid),
        (String(repeating: "👍", count: 63) + "xyz", nil), (String(repeating: "👍", count: 64), .invalid),
    ])
    func X11_an_id_has_1_to_255_bytes(id: String, expected: QueueError.Code?) {
        #expect(check(id: id) == expected)
        #expect(refusal { try DraftRule.check(id: id) } == expected)
    }

    @Test func X11_a_conversation_has_at_most_255_bytes_and_may_be_empty() {
        #expect(check(conversation: "") == nil)
        #expect(refusal { try DraftRule.check(conversation: "") } == nil)
        #expect(check(conversation: String(repeating: "c", count: 255)) == nil)
        #expect(check(conversation: String(repeating: "c", count: 256)) == .invalid)
    }

    @Test func X11_a_name_with_a_control_character_is_refused() {
        for scalar in controls {
            for name in ["\(scalar)", "a\(scalar)", "\(scalar)a", "a\(scalar)b"] {
                #expect(check(id: name) == .invalid, "U+\(String(scalar.value, radix: 16)) in an id")
                #expect(check(conversation: name) == .invalid, "U+\(String(scalar.value, radix: 16)) in a conversation")
            }
        }
        // The neighbouring characters are allowed.
        for scalar in ["\u{20}", "\u{7e}", "\u{a0}"] { #expect(check(id: "a\(scalar)b", conversation: scalar) == nil) }
    }

    @Test(arguments: [(Int64(1), 0, true), (1, 1, true), (1, 2, false), (1 << 20, 1 << 20, true), (1 << 20, 1 << 20 + 1, false)])
    func X11_a_body_has_at_most_its_limit(limit: Int64, size: Int, fits: Bool) {
        #expect(check(bodySize: size) { $0.limitBody = limit } == (fits ? nil : .tooLarge))
    }

    @Test func X4_X5_expiry_must_be_after_not_before() {
        #expect(check(notBefore: 5, expiresAt: 6) == nil)
        #expect(check(notBefore: 5) == nil)
        #expect(check(expiresAt: 1) == nil)
        #expect(check(notBefore: Int64.max) == nil)
        #expect(check(notBefore: 5, expiresAt: 5) == .invalid)
        #expect(check(notBefore: 5, expiresAt: 4) == .invalid)
        #expect(check(notBefore: -1) == .invalid)
        #expect(check(expiresAt: -1) == .invalid)
        #expect(check(notBefore: Int64.min) == .invalid)
    }

    @Test(arguments: [(1024, QueueError.Code?.none), (1025, .tooLarge), (10_000, .tooLarge)])
    func X11_metadata_has_at_most_1024_pairs(count: Int, expected: QueueError.Code?) {
        let pairs = (0..<count).map { (key: "k\($0)", value: "") }
        #expect(check(metadata: pairs) == expected)
    }

    @Test func X11_metadata_has_at_most_its_limit_in_bytes() {
        #expect(check(metadata: [("ké", "vé")]) { $0.limitMetadata = 6 } == nil)
        #expect(check(metadata: [("ké", "vé")]) { $0.limitMetadata = 5 } == .tooLarge)
        #expect(check(metadata: [("a", "b"), ("c", "d")]) { $0.limitMetadata = 4 } == nil)
        #expect(check(metadata: [("a", "b"), ("c", "d")]) { $0.limitMetadata = 3 } == .tooLarge)
        #expect(check(metadata: []) { $0.limitMetadata = 0 } == nil)
        #expect(check(metadata: [("a", "")]) { $0.limitMetadata = 0 } == .tooLarge)
    }

    @Test func M1_metadata_keys_are_not_empty_and_occur_once() {
        #expect(check(metadata: [("", "v")]) == .invalid)
        #expect(check(metadata: [("k", "1"), ("l", "2"), ("k", "1")]) == .invalid)
        #expect(check(metadata: [("k\u{0}", "v")]) == .invalid)
        #expect(check(metadata: [("k", "\u{0}")]) == .invalid)
        #expect(check(metadata: [("a\"b\\\n\t", "\u{1}\u{7f}")]) == nil)
    }

    // MARK: Limits of the queue

    private func room(messages: Int64, bytes: Int64, has: (Int64, Int64), limit: (Int64, Int64)) -> QueueError.Code? {
        var options = Options()
        (options.limitMessages, options.limitBytes) = limit
        var counts = Counts()
        counts.queued = has.0
        counts.unsentBytes = has.1
        return refusal { try DraftRule.checkRoom(for: messages, bytes: bytes, in: counts, options) }
    }

    @Test func X11_messages_beyond_the_limit_are_full() {
        #expect(room(messages: 1, bytes: 0, has: (9, 0), limit: (10, 0)) == nil)
        #expect(room(messages: 1, bytes: 0, has: (10, 0), limit: (10, 0)) == .full)
        #expect(room(messages: 11, bytes: 0, has: (0, 0), limit: (10, 0)) == .full)
        #expect(room(messages: 10, bytes: 0, has: (0, 0), limit: (10, 0)) == nil)
        #expect(room(messages: 1_000_000, bytes: 1 << 40, has: (1 << 40, 1 << 40), limit: (0, 0)) == nil)
    }

    @Test func X11_bytes_beyond_the_limit_are_full() {
        #expect(room(messages: 1, bytes: 4, has: (1, 96), limit: (0, 100)) == nil)
        #expect(room(messages: 1, bytes: 5, has: (1, 96), limit: (0, 100)) == .full)
        // An edit adds bytes but no message. One that makes the body smaller is always accepted.
        #expect(room(messages: 0, bytes: 5, has: (1, 96), limit: (1, 100)) == .full)
        #expect(room(messages: 0, bytes: -5, has: (1, 200), limit: (1, 100)) == nil)
        #expect(room(messages: 1, bytes: 0, has: (1, 200), limit: (0, 100)) == nil)
    }

    @Test func X11_sending_and_failed_messages_count_sent_ones_do_not() {
        var options = Options()
        options.limitMessages = 3
        var counts = Counts()
        counts.add(.queued, amount: 1, bytes: 1)
        counts.add(.sending, amount: 1, bytes: 1)
        counts.add(.sent, amount: 50, bytes: 50)
        counts.add(.delivered, amount: 50, bytes: 50)
        counts.add(.read, amount: 50, bytes: 50)
        #expect(counts.unsentBytes == 2)
        #expect(refusal { try DraftRule.checkRoom(for: 1, bytes: 0, in: counts, options) } == nil)
        counts.add(.failed, amount: 1, bytes: 1)
        #expect(refusal { try DraftRule.checkRoom(for: 1, bytes: 0, in: counts, options) } == .full)
    }
}
