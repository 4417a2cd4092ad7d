import Testing

@testable import MsgQueue

@Suite struct WaitRuleTests {
    @Test func M14_a_wait_continues_only_while_the_message_is_or_will_be_sent() {
        for reason in Explanation.Reason.allCases {
            let isBeingSent = reason == .sending || reason == .expired
            let wait = Wait(reason: reason)
            #expect(WaitRule.continues(wait, hasOutcome: true, holder: nil) == isBeingSent, "\(reason)")
            let isSentNext = reason == .next || reason == .rate
            #expect(WaitRule.continues(wait, hasOutcome: false, holder: nil) == (isBeingSent || isSentNext), "\(reason)")
            // Behind another message: as long as that one is or will be sent, and until the call of its last attempt has returned.
            let hasEnded = reason == .done || reason == .failed
            #expect(
                WaitRule.continues(Wait(reason: .behind), hasOutcome: false, holder: wait) == (isBeingSent || isSentNext || hasEnded),
                "\(reason)")
        }
        var skipped = Wait(reason: .retrying)
        skipped.isSkipped = true
        #expect(WaitRule.continues(skipped, hasOutcome: false, holder: nil))
        #expect(!WaitRule.continues(skipped, hasOutcome: true, holder: nil))
    }
}
