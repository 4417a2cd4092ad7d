import Testing

@testable import MsgQueue

@Suite struct MessageIDTests {
    @Test func Q14_the_sequence_can_be_read_from_an_id() {
        var random = SeededGenerator(14)
        var sequences: [Int64] = [0, 1, 2, 255, 1 << 22, 1 << 32, MessageID.sequenceCeiling - 1, MessageID.sequenceCeiling]
        for _ in 0..<500 { sequences.append(random.int64(0...MessageID.sequenceCeiling)) }
        for sequence in sequences {
            for now in [Int64(0), 1_700_000_000_000, Int64(1 << 48) - 1] {
                let id = MessageID.make(sequence: sequence, now: now, random: random.next())
                #expect(MessageID.sequence(in: id) == sequence, "\(id)")
            }
        }
    }

    @Test func Q14_an_id_is_a_uuid_of_version_7_with_its_time_in_front() throws {
        var random = SeededGenerator(7)
        for now in [Int64(0), 1, 1_700_000_000_000, Int64(1 << 48) - 1] {
            for random in [UInt64(0), .max, random.next()] {
                let id = Array(MessageID.make(sequence: 5, now: now, random: random))
                #expect(id.count == 36)
                for place in [8, 13, 18, 23] { #expect(id[place] == "-") }
                #expect(id[14] == "7")
                #expect("89ab".contains(id[19]))
                #expect(id.allSatisfy { "0123456789abcdef-".contains($0) })
                #expect(Int64(String(id[0..<8] + id[9..<13]), radix: 16) == now)
            }
        }
    }

    @Test func Q14_later_ids_sort_later() {
        var random = SeededGenerator(17)
        var last = ""
        for step in 0..<200 {
            let id = MessageID.make(sequence: Int64(step), now: 1_700_000_000_000 + Int64(step), random: random.next())
            #expect(id > last)
            last = id
        }
    }

    @Test func Q14_a_clock_before_1970_makes_a_valid_id() {
        let id = MessageID.make(sequence: 3, now: -5, random: 1)
        #expect(id.hasPrefix("00000000-0000-7"))
        #expect(MessageID.sequence(in: id) == 3)
    }

    @Test func Q14_ids_are_unique() {
        var random = SeededGenerator(21)
        // In one store the sequence alone makes them unique.
        #expect(Set((1...2_000).map { MessageID.make(sequence: $0, now: 0, random: 0) }).count == 2_000)
        // In many stores in the same millisecond with the same sequence: 34 random bits.
        #expect(Set((1...2_000).map { _ in MessageID.make(sequence: 1, now: 0, random: random.next()) }).count == 2_000)
    }

    @Test func Q14_every_random_bit_appears_in_the_id() {
        let plain = MessageID.make(sequence: 1, now: 1, random: 0)
        for bit in 0..<34 {
            let id = MessageID.make(sequence: 1, now: 1, random: 1 << UInt64(bit))
            #expect(id != plain, "bit \(bit)")
            #expect(MessageID.sequence(in: id) == 1, "bit \(bit)")
        }
    }

    @Test(arguments: [
        "", "a", "hello", "018f3c7a-1234-7000-8000-00000000000", "018f3c7a-1234-7000-8000-0000000000000",
        "018f3c7a-1234-4000-8000-000000000000",  // version 4
        "018f3c7a-1234-7000-c000-000000000000",  // another variant
        "018f3c7a-1234-7000-0000-000000000000",
        "018F3C7A-1234-7000-8000-00000000000A",  // upper case
        "018f3c7a-1234-7000-8000-00000000000A", "018f3c7a01234-7000-8000-000000000000", "018f3c7a-1234-7000-8000-00000000000g",
        "{18f3c7a-1234-7000-8000-000000000000", "018f3c7a-1234-7000-8000-0000000000é", "018f3c7a12347000800000000000000012345",
        "------------------------------------", "018f3c7a-1234-7000-8000--00000000000",
    ])
    func Q14_an_id_of_another_form_has_no_sequence(id: String) {
        #expect(MessageID.sequence(in: id) == nil)
    }

    @Test func Q14_any_text_is_accepted() {
        var random = SeededGenerator(23)
        let alphabet = Array("0123456789abcdefABCDEFg-7 é\u{0}")
        for _ in 0..<3_000 {
            let text = String((0..<random.int(0...40)).map { _ in random.pick(alphabet) })
            if let sequence = MessageID.sequence(in: text) { #expect((0...MessageID.sequenceCeiling).contains(sequence)) }
        }
    }
}
