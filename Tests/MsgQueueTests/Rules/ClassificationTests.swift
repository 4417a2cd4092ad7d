import Testing

@testable import MsgQueue

@Suite struct ClassificationTests {
    enum Meaning: Equatable, Sendable {
        case sent
        case retry(FailureKind)
        case reject(FailureKind)
        case offline
    }

    private func meaning(_ judgement: Judgement) -> Meaning {
        switch judgement {
        case .sent: .sent
        case .offline: .offline
        case .retry(let kind, _, _, _, _): .retry(kind)
        case .reject(let kind, _, _): .reject(kind)
        }
    }

    private func judge(_ outcome: Outcome, perhapsArrived: Bool = false, conflictIsSent: Bool = false) -> Judgement {
        Classification.judge(outcome, now: 1_000, perhapsArrived: perhapsArrived, conflictIsSent: conflictIsSent)
    }

    static let statuses: [(Int32, Meaning)] = [
        (200, .sent), (201, .sent), (202, .sent), (204, .sent), (206, .sent), (226, .sent), (299, .sent),
        // Statuses that are listed as retryable.
        (408, .retry(.timeout)), (425, .retry(.server)), (429, .retry(.rateLimit)),
        (500, .retry(.server)), (502, .retry(.server)), (503, .retry(.server)), (504, .retry(.server)),
        // Statuses that are listed as final.
        (400, .reject(.rejected)), (401, .reject(.unauthorized)), (403, .reject(.unauthorized)), (404, .reject(.notFound)),
        // Other 4xx.
        (402, .reject(.rejected)), (405, .reject(.rejected)), (406, .reject(.rejected)), (409, .reject(.rejected)),
        (410, .reject(.notFound)), (411, .reject(.rejected)), (413, .reject(.rejected)), (415, .reject(.rejected)),
        (418, .reject(.rejected)), (422, .reject(.rejected)), (451, .reject(.rejected)), (499, .reject(.rejected)),
        // In a replaced system one unusual 520 blocked messages for good.
        (501, .retry(.server)), (505, .retry(.server)), (507, .retry(.server)), (520, .retry(.server)), (529, .retry(.server)),
        (599, .retry(.server)),
        // Unknown statuses are retried.
        (0, .retry(.unknown)), (1, .retry(.unknown)), (99, .retry(.unknown)), (100, .retry(.unknown)), (103, .retry(.unknown)),
        (199, .retry(.unknown)), (300, .retry(.unknown)), (301, .retry(.unknown)), (302, .retry(.unknown)),
        (304, .retry(.unknown)), (399, .retry(.unknown)), (600, .retry(.unknown)), (999, .retry(.unknown)), (-1, .retry(.unknown)),
        (-200, .retry(.unknown)), (Int32.max, .retry(.unknown)), (Int32.min, .retry(.unknown)),
    ]

    @Test(arguments: statuses)
    func M6_each_http_status_has_its_outcome(status: Int32, expected: Meaning) {
        #expect(meaning(judge(.http(status))) == expected)
    }

    @Test func M6_every_status_that_is_not_final_or_sent_is_retried() {
        for status in Int32(-10)...1100 {
            let meaning = meaning(judge(.http(status)))
            switch status {
            case 200..<300: #expect(meaning == .sent, "\(status)")
            case 408, 425, 429:
                guard case .retry = meaning else { Issue.record("\(status): \(meaning)"); continue }
            case 400..<500:
                guard case .reject = meaning else { Issue.record("\(status): \(meaning)"); continue }
            default:
                guard case .retry = meaning else { Issue.record("\(status): \(meaning)"); continue }
            }
        }
    }

    @Test func D14_409_after_an_attempt_that_may_have_arrived_is_retried_unless_conflict_is_sent() {
        #expect(meaning(judge(.http(409), perhapsArrived: true)) == .retry(.server))
        #expect(judge(.http(409), perhapsArrived: true).arrival == .perhaps)
        #expect(
            judge(.http(409, retryAfter: "7", text: "busy"), perhapsArrived: true)
                == .retry(.server, code: 409, text: "busy", after: 7_000))
        #expect(judge(.http(409), perhapsArrived: true, conflictIsSent: true) == .sent(code: 409))
        #expect(meaning(judge(.http(409))) == .reject(.rejected))
        #expect(meaning(judge(.http(409), conflictIsSent: true)) == .reject(.rejected))
        // The option changes no other status.
        for status in Int32(0)...700 where status != 409 {
            #expect(judge(.http(status), perhapsArrived: true, conflictIsSent: true) == judge(.http(status)), "\(status)")
        }
    }

    @Test func M6_code_and_text_are_kept() {
        #expect(judge(.http(503, text: "busy")) == .retry(.server, code: 503, text: "busy", after: nil))
        #expect(judge(.http(404, text: "gone")) == .reject(.notFound, code: 404, text: "gone"))
        #expect(judge(.http(202)) == .sent(code: 202))
        #expect(judge(.retry(.network, code: 111, text: "refused")) == .retry(.network, code: 111, text: "refused", after: nil))
        #expect(judge(.reject(.rejected, code: 7, text: "no")) == .reject(.rejected, code: 7, text: "no"))
        #expect(judge(Outcome(verdict: .offline, text: "no route")) == .offline(text: "no route"))
        #expect(judge(Outcome(verdict: .sent, code: 250)) == .sent(code: 250))
    }

    @Test func M6_the_transport_may_decide() {
        for kind in FailureKind.allCases where kind != .none {
            #expect(meaning(judge(.retry(kind))) == .retry(kind))
            #expect(meaning(judge(.reject(kind))) == .reject(kind))
        }
        #expect(meaning(judge(.retry(.none))) == .retry(.unknown))
        #expect(meaning(judge(.reject(.none))) == .reject(.rejected))
    }

    @Test(arguments: [Outcome.Verdict.unknown, .pending])
    func M6_a_missing_verdict_is_retried_and_never_success(verdict: Outcome.Verdict) {
        guard case .retry(.unknown, 3, let text, nil, false) = judge(Outcome(verdict: verdict, code: 3)) else {
            Issue.record("\(judge(Outcome(verdict: verdict)))")
            return
        }
        #expect(!text.isEmpty)
        #expect(Outcome.Verdict(rawValue: 0) == .unknown, "a callback that fails and answers 0 is not a success")
    }

    @Test func M6_retry_after_is_read_from_the_header_and_from_the_transport() {
        #expect(judge(.http(429, retryAfter: "7")) == .retry(.rateLimit, code: 429, text: "", after: 7_000))
        #expect(judge(.http(503, retryAfter: "Thu, 01 Jan 1970 00:00:09 GMT")) == .retry(.server, code: 503, text: "", after: 8_000))
        #expect(judge(.retry(.server, retryAfter: 12)) == .retry(.server, code: 0, text: "", after: 12))
        #expect(judge(.http(503, retryAfter: "soon")) == .retry(.server, code: 503, text: "", after: nil))
        var both = Outcome.http(503, retryAfter: "7")
        both.retryAfter = 1
        #expect(judge(both) == .retry(.server, code: 503, text: "", after: 1), "the parsed value takes precedence over the header")
    }

    @Test func X2_each_outcome_has_an_arrival() {
        let cases: [(Outcome, Attempt.Arrival)] = [
            (.sent, .yes), (.http(200), .yes), (.offline, .no), (.reject(), .no), (.http(404), .no), (.http(429), .no),
            (.retry(.rateLimit), .no), (.retry(.offline), .no), (.retry(.timeout), .perhaps), (.retry(.network), .perhaps),
            (.retry(.server), .perhaps), (.http(500), .perhaps), (.http(0), .perhaps), (.retry(), .perhaps), (.pending, .perhaps),
        ]
        for (outcome, arrival) in cases { #expect(judge(outcome).arrival == arrival, "\(outcome)") }
    }
}
