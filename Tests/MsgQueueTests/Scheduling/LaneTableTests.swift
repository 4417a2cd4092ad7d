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
        #expect(Set((0..<LaneTable.partCount).flatMap { table.names(inPart: $0) }) == Set(single.keys))
        #expect(table.allSatisfy { $0.value.last == single[$0.key] })
        for (name, last) in single {
            #expect(table[name]?.last == last)
            #expect(table.index(forKey: name).map { table[$0].last } == last)
        }
        table.replaceAll { $0.last % 2 == 0 ? $0 : nil }
        #expect(table.count == single.count { $0.value % 2 == 0 })
        #expect(table.allSatisfy { $0.value.last % 2 == 0 })
        #expect(table.index(forKey: "no such") == nil)
        #expect(table["no such"]?.last == nil)
    }

    @Test func F9_a_change_of_all_lanes_is_made_part_by_part_when_one_of_them_changes() {
        var table = LaneTable()
        for number in 0..<6_400 { table[Name("c\(number)")] = Lane() }
        table.changeAll(LaneChanges(isUnread: true))
        #expect(table.unchangedParts == LaneTable.partCount)
        #expect(table.allSatisfy { $0.value.more })
        #expect(table["c7"]?.more == true)
        #expect(table.unchangedParts == LaneTable.partCount)
        table["c7"]?.more = false
        #expect(table.unchangedParts == LaneTable.partCount - 1)
        #expect(table.count { !$0.value.more } == 1)
        // Of a part without lanes nothing is left to do.
        var few = LaneTable()
        few["c"] = Lane()
        few.changeAll(LaneChanges(isUnread: true))
        #expect(few.unchangedParts == 1)
    }

    private func lane(_ number: Int64) -> Lane {
        var lane = Lane()
        for place in 1...3 {
            var head = Head(sequence: 10 * number + Int64(place))
            (head.due, head.dueMono, head.waitsForNetwork) = (Due(delay: 50), 50 + number, true)
            lane.append(head, isDeferred: place == 1)
        }
        (lane.direct, lane.isDirectRangeOpen, lane.approved) = (1..<number + 2, true, [10 * number + 2])
        return lane
    }

    /// Whatever is changed, read, added and removed meanwhile.
    @Test func F9_lanes_that_are_changed_later_are_those_that_are_changed_at_once() {
        var random = SeededGenerator(7)
        var (table, single) = (LaneTable(), [Name: Lane]())
        func all(_ change: LaneChanges) {
            table.changeAll(change)
            single = single.mapValues { lane in
                var lane = lane
                change.make(in: &lane)
                return lane
            }
        }
        func text(_ lane: Lane?) -> String { lane.map { "\($0)" } ?? "none" }
        for round: Int64 in 0..<2_000 {
            let name = Name("c\(Int.random(in: 0..<200, using: &random))")
            switch Int.random(in: 0..<12, using: &random) {
            case 0: all(LaneChanges(isDisconnected: true))
            case 1: all(LaneChanges(isClockSet: true))
            case 2: all(LaneChanges(isUnread: true))
            case 3: all(LaneChanges(networkReturnedAt: round / 20))
            case 4: all(LaneChanges(isCleared: true))
            case 5: (table[name], single[name]) = (nil, nil)
            case 6:
                table[name]?.wakeAt = round
                single[name]?.wakeAt = round
            case 7:
                if let place = table.index(forKey: name) { table[place].dueAt = round }
                single[name]?.dueAt = round
            default: (table[name], single[name]) = (lane(round), lane(round))
            }
            #expect(text(table[name]) == text(single[name]))
            #expect(text(table.index(forKey: name).map { table[$0] }) == text(single[name]))
            guard round % 100 == 99 else { continue }
            #expect(table.known == single.values.reduce(0) { $0 + $1.known })
            #expect(Dictionary(uniqueKeysWithValues: table.map { ($0.key, text($0.value)) }) == single.mapValues { text($0) })
        }
    }
}
