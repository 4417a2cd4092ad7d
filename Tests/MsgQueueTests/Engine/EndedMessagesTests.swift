import Testing

@testable import MsgQueue

/// What is known of messages that ended.
@Suite struct EndedMessagesTests {
    private var ended = EndedMessages()

    private mutating func end(_ numbers: Range<Int>) {
        for number in numbers {
            ended.note(
                .status(
                    StatusChange(
                        id: "m\(number)", conversation: "ana", from: .sending, to: .sent, attempt: 1, failure: nil, at: Int64(number))))
        }
    }

    /// The numbers of those of these messages that are known.
    private mutating func known(_ numbers: Range<Int>) -> [Int] { numbers.filter { ended.message("m\($0)") != nil } }

    @Test mutating func the_latest_messages_are_known_whenever_somebody_asks() {
        end(0..<100)
        #expect(known(0..<100) == Array(0..<100))
        #expect(known(100..<101).isEmpty)
        // Nobody asks for so long that all known ones are others.
        end(100..<10_000)
        #expect(known(0..<10_000) == Array(10_000 - EndedMessages.ceiling..<10_000))
        end(10_000..<10_001)
        #expect(known(0..<10_001) == Array(10_001 - EndedMessages.ceiling..<10_001))
        #expect(ended.message("m10000")?.status == .sent)
    }

    @Test mutating func a_receipt_changes_what_is_known_of_a_message() {
        end(0..<5_000)
        ended.note(.status(StatusChange(id: "m4000", conversation: "ana", from: .sent, to: .read, attempt: 0, failure: nil, at: 1)))
        #expect(ended.message("m4000")?.status == .read)
        ended.note(.deleted(id: "m4001", conversation: "ana"))
        #expect(known(4_000..<4_003) == [4_000, 4_001, 4_002])
    }

    @Test mutating func a_new_message_with_the_id_is_another() {
        end(0..<10)
        ended.forget("m3")
        #expect(known(0..<10) == [0, 1, 2, 4, 5, 6, 7, 8, 9])
        end(10..<20)
        #expect(ended.message("m3") == nil)
        end(3..<4)
        #expect(ended.message("m3") != nil)
        ended.forget("m3")
        end(20..<20 + 2 * EndedMessages.ceiling)
        #expect(ended.message("m3") == nil)
    }
}
