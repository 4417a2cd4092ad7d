import Testing

@testable import MsgQueue

@Suite struct ReplaceRuleTests {
    private struct Line: Sendable {
        let queued: [Int64]
        let sending: Set<Int64>
        let place: Int64?
        let replaced: [Int64]
    }

    private static let table = [
        Line(queued: [], sending: [], place: nil, replaced: []),
        Line(queued: [4], sending: [], place: 4, replaced: [4]),
        // One that is being sent is left.
        Line(queued: [4], sending: [4], place: nil, replaced: []),
        Line(queued: [4, 9], sending: [4], place: 9, replaced: [9]),
        // Several are queued after manual retries, or when one that was being sent is queued again.
        Line(queued: [4, 9], sending: [], place: 4, replaced: [4, 9]),
        Line(queued: [4, 6, 9, 12], sending: [6], place: 9, replaced: [4, 9, 12]),
        // The new value must not be sent before the old one.
        Line(queued: [4, 9], sending: [9], place: nil, replaced: [4]),
        Line(queued: [4, 9, 10], sending: [4, 10], place: nil, replaced: [9]),
    ]

    @Test(arguments: table.indices)
    func F5_the_place_is_that_of_the_first_one_behind_those_being_sent(index: Int) {
        let line = Self.table[index]
        let plan = ReplaceRule.plan(line.queued, isSending: line.sending.contains)
        #expect(plan == ReplaceRule.Plan(place: line.place, replaced: line.replaced))
    }
}
