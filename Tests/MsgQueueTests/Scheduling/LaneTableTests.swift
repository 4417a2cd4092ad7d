import Testing

@testable import MsgQueue

@Suite struct LaneTableTests {
    /// A dictionary that grows moves all of its values.
    @Test(arguments: ["c%", "%", "user%@example.com", "conversation-00000000-%-0000", "%%%%%%"])
    func F9_no_part_of_the_lanes_has_many_of_them(pattern: String) {
        var table = LaneTable()
        let parts = pattern.split(separator: "%", omittingEmptySubsequences: false)
        for number in 0..<10_000 { table[Name(parts.joined(separator: "\(number)"))] = Lane() }
        #expect(table.count == 10_000)
        #expect(table.most < 10_000 / 64 * 2, "\(pattern): \(table.most)")
    }

    @Test func F9_a_divided_table_has_the_lanes_that_one_dictionary_has() {
        var (table, single) = (LaneTable(), [Name: Int64]())
        for number: Int64 in 0..<3_000 {
            let name = Name("\(number * 7_919 % 1_000)")
            if number % 5 == 4 {
                (table[name], single[name]) = (nil, nil)
            } else {
                table[name, default: Lane()].last += number
                single[name, default: 0] += number
            }
        }
        #expect(table.count == single.count && !table.isEmpty)
        #expect(Set(table.keys) == Set(single.keys))
        #expect(table.allSatisfy { $0.value.last == single[$0.key] })
        table.changeAll { $0.last += 1 }
        for (name, last) in single {
            #expect(table[name]?.last == last + 1)
            #expect(table.index(forKey: name).map { table[$0].last } == last + 1)
        }
        table.replaceAll { $0.last % 2 == 0 ? $0 : nil }
        #expect(table.count == single.count { ($0.value + 1) % 2 == 0 })
        #expect(table.allSatisfy { $0.value.last % 2 == 0 })
        #expect(table.index(forKey: "no such") == nil)
        #expect(table["no such"]?.last == nil)
    }
}
