import Testing

@testable import MsgQueue

/// The texts of the banner and of explanations, as tables.
@Suite struct WordsTests {
    struct Row: Sendable, CustomStringConvertible {
        let text: String
        let change: @Sendable (inout BannerFacts) -> Void
        var description: String { text }

        init(_ text: String, _ change: @escaping @Sendable (inout BannerFacts) -> Void) { (self.text, self.change) = (text, change) }

        var facts: BannerFacts {
            var facts = BannerFacts()
            change(&facts)
            return facts
        }
    }

    @Test(arguments: [
        Row("") { _ in },
        Row("") { $0.mode = .manual },
        Row("Sending is paused.") { $0.isPaused = true },
        Row("1 message queued.") { $0.queued = 1 },
        Row("5 messages queued.") { ($0.queued, $0.mode) = (5, .ask) },
        Row("1 message failed.") { $0.failed = 1 },
        Row("3 messages queued. 2 messages failed.") { ($0.queued, $0.failed) = (3, 2) },
        Row("Sending is paused. 3 messages queued. 2 messages failed.") { ($0.queued, $0.failed, $0.isPaused) = (3, 2, true) },
        Row("Sending 3 messages…") { ($0.queued, $0.sending, $0.underWay) = (2, 1, 2) },
        Row("Sending 3 messages… 4 messages queued.") { ($0.queued, $0.sending, $0.underWay) = (6, 1, 2) },
        Row("Sending 1 message…") { ($0.sending, $0.mode) = (1, .manual) },
        Row("Sending 1 message… 2 messages queued.") { ($0.queued, $0.sending) = (2, 1) },
        Row("Sending 1 message… 2 messages queued.") { ($0.queued, $0.sending, $0.isPaused, $0.underWay) = (2, 1, true, 2) },
        Row("Sending 3 messages… 1 message failed.") { ($0.queued, $0.failed, $0.underWay) = (3, 1, 3) },
    ])
    func Q2_A7_the_banner_online(row: Row) {
        for connectivity in [Connectivity.online, .unknown] {
            var facts = row.facts
            facts.connectivity = connectivity
            #expect(Words.banner(facts) == row.text)
        }
    }

    @Test(arguments: [
        Row("You're offline. Messages will send when connected.") { $0.mode = .auto },
        Row("You're offline.") { $0.mode = .ask },
        Row("You're offline.") { $0.mode = .manual },
        Row("You're offline.") { $0.isPaused = true },
        Row("You're offline.") { $0.isHeldBack = true },
        Row("You're offline. 2 messages failed.") { $0.failed = 2 },
        Row("You're offline. 1 message queued.") { $0.queued = 1 },
        Row("You're offline. Sending 1 message… 4 messages queued.") { ($0.queued, $0.sending) = (4, 1) },
        Row("You're offline. Sending 1 message…") { $0.sending = 1 },
        Row("You're offline. 3 messages queued.") { ($0.queued, $0.mode) = (3, .manual) },
        Row("You're offline. 3 messages queued.") { ($0.queued, $0.mode) = (3, .ask) },
        Row("You're offline. 3 messages queued.") { ($0.queued, $0.isPaused) = (3, true) },
        Row("You're offline. 3 messages queued. 1 message failed.") { ($0.queued, $0.failed, $0.underWay) = (3, 1, 3) },
    ])
    func Q2_H7_the_banner_offline(row: Row) {
        var facts = row.facts
        facts.connectivity = .offline
        #expect(Words.banner(facts) == row.text)
    }

    /// No text of other modes promises what only mode auto does.
    @Test func H7_only_mode_auto_sends_when_connected() {
        for mode in [Mode.ask, .manual] {
            for queued in [0, 1, 5] as [Int64] {
                for failed in [0, 2] as [Int64] {
                    for isPaused in [false, true] {
                        var facts = BannerFacts()
                        (facts.connectivity, facts.mode, facts.queued, facts.failed) = (.offline, mode, queued, failed)
                        facts.isPaused = isPaused
                        #expect(!Words.banner(facts).contains("when connected"))
                        #expect(!Words.queue(Wait(reason: .offline), facts, now: 0).contains("when connected"))
                    }
                }
            }
        }
    }

    private func said(
        _ reason: Explanation.Reason, after: Explanation.Reason = .next, connected: Wait? = nil, isAsking: Bool = false
    ) -> String {
        let wait = Wait(reason: reason, until: 31_000, after: after, earliest: 31_000)
        return Words.explanation(wait, connected: connected, now: 1_000, isAsking: isAsking)
    }

    @Test func X1_explanations_say_what_happens_next() {
        #expect(said(.retrying) == "The last attempt failed. It is tried again in 30 s.")
        #expect(said(.retrying, after: .person) == "The last attempt failed. It will be ready to send again in 30 s.")
        let trigger = "It will be sent the next time the queue runs, in 30 s at the earliest."
        #expect(said(.retrying, after: .trigger) == "The last attempt failed. \(trigger)")
        #expect(said(.scheduled) == "It is scheduled to be sent in 30 s.")
        #expect(said(.scheduled, after: .person) == "It will be ready to send in 30 s.")
        #expect(said(.scheduled, after: .trigger) == trigger)
        #expect(said(.holding) == "Sending resumes in 30 s.")
        #expect(said(.holding, after: .person) == "It will be ready to send in 30 s.")
        #expect(said(.storage) == "The device cannot save or send right now. Sending resumes when it can.")
        #expect(said(.storage, after: .person) == "The device cannot save or send right now.")
        #expect(said(.person) == "Waiting for you to send it.")
        #expect(said(.person, isAsking: true) == "Waiting for your confirmation.")
        #expect(said(.trigger) == "It will be sent the next time the queue runs.")
        var inTurn = Wait(reason: .trigger)
        inTurn.isInTurn = true
        #expect(Words.explanation(inTurn, now: 1_000) == "It will be sent in its turn when the queue runs.")
    }

    @Test func X1_what_follows_a_wait_is_not_promised_as_an_attempt() {
        #expect(said(.scheduled, after: .metered) == "Waiting for an unmetered connection. It is sent in 30 s at the earliest.")
        #expect(
            said(.scheduled, after: .behind)
                == "Another message of this conversation goes first. This one is sent in 30 s at the earliest.")
        #expect(
            said(.retrying, after: .blocked)
                == "The last attempt failed. A message before it could not be sent. Retry or delete that message first.")
        var expiring = Wait(reason: .retrying, until: 31_000, after: .expired)
        expiring.expiresAt = 11_000
        #expect(
            Words.explanation(expiring, now: 1_000) == "The last attempt failed. It expires in 10 s, before it can be sent again.")
        #expect(
            Words.explanation(Wait(reason: .offline), connected: expiring, now: 1_000)
                == "You're offline. The last attempt failed. It expires in 10 s, before it can be sent again.")
        expiring.reason = .scheduled
        #expect(Words.queue(expiring, BannerFacts(), now: 1_000) == "The next message expires in 10 s, before it can be sent.")
    }

    /// While offline no prompt is open.
    @Test func X1_offline_no_confirmation_is_waited_for() {
        #expect(said(.offline, connected: Wait(reason: .person), isAsking: true) == "You're offline. Waiting for you to send it.")
        var inTurn = Wait(reason: .next)
        inTurn.isInTurn = true
        #expect(said(.offline, connected: inTurn) == "You're offline. It will be sent in its turn when connected.")
    }

    @Test(arguments: [
        (0, "0 s"), (1, "0.001 s"), (250, "0.25 s"), (700, "0.7 s"), (1_000, "1 s"), (1_500, "1.5 s"), (30_000, "30 s"), (90_000, "90 s"),
        (120_000, "2 min"), (3_600_000, "1 h"), (86_400_000, "1 d"), (604_800_000, "7 d"), (-1, "-0.001 s"), (-5_000, "-5 s"),
        (Int64.min, "-9223372036854775.808 s"),
    ])
    func R10_exact_times_have_units(milliseconds: Int64, text: String) { #expect(TimeText.exact(milliseconds) == text) }

    /// A text has a number only when all counted messages are known.
    @Test(arguments: [
        (Explanation.Reason.person, Int64?.some(2), "Waiting for you to send 2 messages."),
        (.person, 0, "5 messages queued."), (.person, nil, "5 messages queued. Waiting for you to start sending."),
        (.trigger, 2, "2 messages will be sent the next time the queue runs."),
        (.trigger, nil, "5 messages queued. Sending resumes the next time the queue runs."),
    ])
    func Q20_the_state_gives_only_numbers_that_are_known(reason: Explanation.Reason, count: Int64?, text: String) {
        var facts = BannerFacts()
        facts.queued = 5
        var wait = Wait(reason: reason)
        wait.count = count
        #expect(Words.queue(wait, facts, now: 0) == text)
    }

    @Test func X1_offline_explanations_say_what_happens_when_connected() {
        #expect(said(.offline, connected: Wait(reason: .next)) == "You're offline. It will be sent when connected.")
        #expect(said(.offline, connected: Wait(reason: .person)) == "You're offline. Waiting for you to send it.")
        #expect(said(.offline, connected: Wait(reason: .paused)) == "You're offline. Sending is paused.")
        let retry = Wait(reason: .retrying, until: 31_000)
        #expect(said(.offline, connected: retry) == "You're offline. It will be sent when connected, in 30 s at the earliest.")
        let byHand = Wait(reason: .scheduled, until: 31_000, after: .person)
        #expect(said(.offline, connected: byHand) == "You're offline. It will be ready to send in 30 s.")
        for reason in Explanation.Reason.allCases where reason != .next {
            for after in [Explanation.Reason.person, .trigger] {
                let text = said(.offline, connected: Wait(reason: reason, until: 31_000, after: after))
                #expect(!text.contains("when connected"), "\(reason), \(after)")
            }
        }
    }

    @Test func Q20_every_reason_has_a_sentence() {
        for reason in Explanation.Reason.allCases {
            for after in [Explanation.Reason.next, .person, .trigger] {
                for queued in [0, 1, 5] as [Int64] {
                    var facts = BannerFacts()
                    (facts.connectivity, facts.queued) = (.offline, queued)
                    let wait = Wait(reason: reason, until: 31_000, after: after)
                    let explanation = Words.explanation(wait, connected: Wait(reason: .next), now: 1_000)
                    for text in [Words.queue(wait, facts, now: 1_000), explanation] {
                        #expect(text.hasSuffix(".") && text.count > 5 && !text.contains("  "), "\(reason)")
                    }
                }
            }
        }
    }

    @Test func A7_connectivity_has_labels() {
        #expect(Connectivity.allCases.map(\.label) == ["Unknown", "Offline", "Online"])
    }
}
