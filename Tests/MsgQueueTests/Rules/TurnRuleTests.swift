import Testing

@testable import MsgQueue

/// The division of attempts between the backlog and live messages, and the order within each.
@Suite struct TurnRuleTests {
    /// B: the backlog has the attempt; L: a live message.
    @Test(
        arguments: [
            (0, "BBBBBBBB"), (0.1, "BBBBBBBBBLBBBBBBBBBL"), (0.25, "BBBLBBBL"), (0.5, "BLBLBLBL"), (0.75, "BLLLBLLL"),
            (0.9, "BLLLLLLLLLBL"), (1, "LLLLLLLL"), (1.0 / 3, "BBBLBBLBBL"),
        ] as [(Double, String)])
    func F1_live_messages_have_their_share_of_the_attempts(share: Double, expected: String) {
        var rule = TurnRule(liveShare: share)
        var found = ""
        for _ in expected {
            guard let side = rule.side(hasBacklog: true, hasLive: true) else { break }
            rule.started(side, isContested: true, isOldest: true)
            found += side == .live ? "L" : "B"
        }
        #expect(found == expected)
    }

    @Test(arguments: [0, 0.5, 1])
    func F1_attempts_that_only_one_side_can_have_change_no_share(share: Double) {
        var rule = TurnRule(liveShare: share)
        #expect(rule.side(hasBacklog: false, hasLive: false) == nil)
        #expect(rule.side(hasBacklog: true, hasLive: false) == .backlog)
        #expect(rule.side(hasBacklog: false, hasLive: true) == .live)
        let before = rule
        for side in [TurnRule.Side.backlog, .live] { rule.started(side, isContested: false, isOldest: true) }
        #expect(rule == before)
    }

    @Test func F2_the_oldest_message_of_a_side_has_one_of_8_attempts() {
        var rule = TurnRule(liveShare: 0.5)
        for number in 0..<7 {
            #expect(!rule.takesOldest(.backlog), "\(number)")
            rule.started(.backlog, isContested: false, isOldest: false)
        }
        #expect(rule.takesOldest(.backlog))
        #expect(!rule.takesOldest(.live), "each side counts its own attempts")
        rule.started(.backlog, isContested: false, isOldest: true)
        #expect(!rule.takesOldest(.backlog))
    }

    /// The messages by their sequences; the expected order with and without `soonest_expiry_first`.
    @Test func F2_the_rank_is_the_priority_then_the_expiry_then_the_age() {
        let heads = [
            Head(sequence: 1, priority: -1), Head(sequence: 2), Head(sequence: 3, expiresAt: 900), Head(sequence: 4, expiresAt: 500),
            Head(sequence: 5, priority: 100), Head(sequence: 6, expiresAt: 900), Head(sequence: 7, expiresAt: 100, priority: -1),
            Head(sequence: 8, priority: 7), Head(sequence: 9, priority: -100),
        ]
        func order(byExpiry: Bool) -> [Int64] { heads.map { Rank($0, byExpiry: byExpiry) }.sorted().map(\.sequence) }
        #expect(order(byExpiry: false) == [5, 8, 2, 3, 4, 6, 1, 7, 9])
        #expect(order(byExpiry: true) == [5, 8, 4, 3, 6, 2, 7, 1, 9])
    }
}
