import Testing

@testable import MsgQueue

/// The texts of values for developers.
@Suite struct DescriptionTests {
    private let directory = TemporaryDirectory()

    private func names<T: CaseIterable & CustomStringConvertible>(_ type: T.Type) -> String {
        T.allCases.map(\.description).joined(separator: " ")
    }

    @Test func an_enumeration_is_described_by_the_names_of_its_cases() {
        #expect(names(MessageQueue.Status.self) == "queued sending sent delivered read failed")
        #expect(
            names(MessageQueue.FailureKind.self)
                == "offline timeout network server rateLimit unauthorized rejected notFound expired unknown dropped local")
        #expect(names(MessageQueue.Mode.self) == "auto ask manual")
        #expect(names(MessageQueue.Connectivity.self) == "unknown offline online")
        #expect(names(MessageQueue.Link.self) == "none wifi ethernet cellular other")
        #expect(names(MessageQueue.LogLevel.self) == "error warning info debug")
        #expect(names(MessageQueue.OnFull.self) == "refuse dropOldest")
        #expect(names(MessageQueue.Exhausted.self) == "keep discard")
        #expect(names(MessageQueue.Refused.self) == "keep discard")
        #expect(names(MessageQueue.FinalFailure.self) == "stepAside block")
        #expect(names(MessageQueue.Report.Stop.self) == "empty waiting offline batch timeout storage closed started paused")
        #expect(names(MessageQueue.Attempt.Outcome.self) == "underWay sent retry rejected unknown")
        #expect(names(MessageQueue.Attempt.Arrival.self) == "no yes perhaps")
        #expect(names(MessageQueue.Explanation.Reason.self).hasPrefix("done next sending failed behind blocked retrying"))
        #expect(names(MessageQueue.Error.Code.self).hasPrefix("invalid notFound duplicate conflict busy full tooLarge"))
    }

    @Test func descriptions_are_short_and_contain_no_body_and_no_metadata() async throws {
        let queue = try MessageQueue(path: directory.store, options: .init(mode: .manual)) { _ in .reject(.server, code: 503, text: "busy")
        }
        let events = queue.events
        try queue.setConnectivity(.online, link: .wifi, isMetered: true)
        let draft = MessageQueue.Draft("secret body", conversation: "ana", metadata: ["key": "secret value"], id: "a")
        try queue.enqueue(draft)
        try await queue.drain()
        let message = try queue.message(id: "a")
        let failure = try #require(message.failure)
        #expect("\(draft)" == "draft a, conversation \"ana\", 11 bytes")
        #expect("\(message)" == "message a, conversation \"ana\", failed, 11 bytes")
        #expect("\(failure)" == "server 503, busy")
        #expect("\(try queue.attempts("a"))" == "[attempt 1, rejected, server 503]")
        #expect("\(try queue.counts())" == "1 failed")
        #expect("\(try queue.counts(conversation: "ben"))" == "no messages")
        #expect("\(try queue.conversations())" == "[conversation \"ana\": 1 failed]")
        #expect("\(try queue.explain("a"))".hasPrefix("failed: "))
        #expect("\(try queue.state())".hasPrefix("mode manual, online, wifi, metered, done: "))
        #expect("\(try queue.statistics())" == "1 enqueued, 1 attempts, 0 sent, 1 failed")
        try await queue.close()
        var lines: [String] = []
        for await event in events { lines.append("\(event)") }
        #expect(lines.contains("message a: new to queued"))
        #expect(lines.contains("message a: sending to failed, attempt 1, server 503, busy"))
        for line in lines + ["\(draft)", "\(message)"] { #expect(!line.contains("secret") && line.count < 120, "\(line)") }
    }

    @Test func options_and_outcomes_are_described_by_what_was_set() {
        var options = MessageQueue.Options(mode: .manual)
        options.expiry = .seconds(5)
        #expect("\(options)" == "mode: manual, expiry: Optional(5.0 seconds)")
        #expect("\(MessageQueue.Options())" == "" && "\(MessageQueue.BatchOptions())" == "")
        #expect("\(MessageQueue.Outcome.sent)" == "sent" && "\(MessageQueue.Outcome.offline)" == "offline")
        #expect("\(MessageQueue.Outcome.retry(.timeout, text: "late"))" == "retry, timeout, late")
        #expect("\(MessageQueue.Outcome.http(503))" == "http, 503")
        #expect("\(MessageQueue.Backoff.ladder([.seconds(5)]))" == "ladder [5.0 seconds]")
        #expect("\(MessageQueue.Filter(conversation: "ana"))" == "queued or sending or failed, conversation \"ana\", at most 50")
    }
}
