import Foundation
import Testing

@testable import MsgQueue

/// The form of messages, events and the rest as JSON, and its agreement with the header.
@Suite struct FormTests {
    private let header: String = {
        var root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        for _ in 0..<4 { root.deleteLastPathComponent() }
        return (try? String(contentsOf: root.appendingPathComponent("Include/msgqueue.h"), encoding: .utf8)) ?? ""
    }()

    private func line(_ value: JSONValue) -> String { String(decoding: JSONWriter.line(value).dropLast(), as: UTF8.self) }
    private func keys(_ value: JSONValue) -> Set<String> { Set(value.members?.map(\.key) ?? []) }

    private func message(body: [UInt8]?, failure: Failure? = nil) -> Message {
        Message(
            id: "m1", conversation: "ana", sender: nil, body: body, bodySize: body?.count ?? 5, preview: "hello",
            pairs: [("b", "1"), ("a", "2")],
            status: .failed, sequence: 7, createdAt: 1, time: 13, editedAt: 2, notBefore: 3, expiresAt: 4, nextAttemptAt: 5,
            lastAttemptAt: 6,
            sentAt: 8,
            deliveredAt: 9, readAt: 10, attempts: 11, retriesUsed: 12, unmeteredOnly: true, priority: 0, failure: failure,
            failureBefore: nil)
    }

    private let failure = Failure(kind: .rateLimit, code: 429, text: "slow", at: 6, retryable: true, attempts: 11)

    @Test func a_message() {
        #expect(
            line(JSONValue(message(body: Array("hello".utf8), failure: failure))) == #"{"id":"m1","conversation":"ana","status":"failed","#
                + #""sequence":7,"sender":null,"body":"hello","body_size":5,"preview":"hello","metadata":{"b":"1","a":"2"},"created_ms":1,"time_ms":13,"#
                + #""edited_ms":2,"sent_ms":8,"delivered_ms":9,"read_ms":10,"not_before_ms":3,"expires_at_ms":4,"next_attempt_ms":5,"#
                + #""last_attempt_ms":6,"attempts":11,"retries_used":12,"unmetered_only":true,"priority":0,"failure":{"kind":"rate_limit","code":429,"#
                + #""text":"slow","at_ms":6,"retryable":true,"attempts":11,"#
                + #""sentence":"Too many messages in a short time. Please wait a moment, then retry."},"failure_before":null}"#)
    }

    @Test func a_body_that_is_not_text_is_base64() {
        let value = JSONValue(message(body: [0xff, 0x00]))
        #expect(value["body"] == nil && value["body_base64"] == "/wA=" && value["body_size"] == 2)
        #expect(JSONValue(message(body: []))["body"] == "")
        let without = JSONValue(message(body: nil))
        #expect(without["body"] == nil && without["body_base64"] == nil)
    }

    /// Returns the names of the fields of a struct of the header.
    private func fields(_ name: String) throws -> Set<String> {
        let start = try #require(header.range(of: "typedef struct \(name) {"))
        let end = try #require(header.range(of: "} \(name);", range: start.upperBound..<header.endIndex))
        let body = header[start.upperBound..<end.lowerBound].replacing(/\/\*(?s).*?\*\//, with: "")
        return Set(body.split(separator: ";").compactMap { $0.firstMatch(of: /(\w+)(?:\[\w+\])?\s*$/).map { String($0.1) } }).subtracting([
            "struct_size"
        ])
    }

    @Test func the_names_are_those_of_the_header() throws {
        // `explanation` is only in a list with reasons.
        #expect(try keys(JSONValue(message(body: []))) == fields("msgq_message").subtracting(["metadata_count", "explanation"]))
        #expect(try keys(JSONValue(failure)) == fields("msgq_failure").union(["sentence"]))
        #expect(try keys(JSONValue(Counts())) == fields("msgq_counts"))
        #expect(try keys(JSONValue(Waiting())) == fields("msgq_waiting"))
        let group = FailureGroup(kind: .server, code: 503, count: 1, firstAt: 2, lastAt: 3, text: "busy")
        #expect(try keys(JSONValue(group)) == fields("msgq_failure_group").union(["sentence"]))
        #expect(try keys(JSONValue(Report())) == fields("msgq_report"))
        #expect(try keys(JSONValue(Statistics())) == fields("msgq_statistics").union(["latency_bounds_ms"]))
        let attempt = Attempt(number: 1, startedAt: 2, duration: nil, result: .underWay, kind: .none, code: 0, text: "", arrival: .perhaps)
        #expect(try keys(JSONValue(attempt)) == fields("msgq_attempt"))
        let explanation = Explanation(reason: .noTransport, until: 0, behind: nil, text: "")
        #expect(try keys(JSONValue(explanation)) == fields("msgq_explanation"))
        var explained = message(body: [])
        explained.explanation = explanation
        #expect(try keys(JSONValue(explained)) == fields("msgq_message").subtracting(["metadata_count"]))
        #expect(try keys(JSONValue(Minute())) == fields("msgq_minute"))
        let conversation = Conversation(name: "ana", counts: Counts(), last: message(body: nil), title: nil, isPaused: false)
        #expect(try keys(JSONValue(conversation)) == fields("msgq_conversation"))
        let check = CheckReport(isSound: true, whole: 1, damaged: 0, missing: 0, firstMissing: nil, lastMissing: nil, text: "")
        #expect(try keys(JSONValue(check)) == fields("msgq_check_report"))
        let prompt = Prompt(messages: 1, bytes: 2, oldestAt: 3, conversations: 4, timeout: 5)
        #expect(try keys(JSONValue(prompt)) == fields("msgq_prompt"))
        #expect(try keys(JSONValue(prompt, expiresAt: 1)) == fields("msgq_standing_prompt").union(["failed"]))
        let state = QueueState(
            network: Network(), isInBackground: false, mode: .auto, isPaused: false, pausedConversations: 0, isDraining: false, inFlight: 0,
            hasTransport: false, prompt: nil, promptExpiresAt: nil, storage: nil, hasStorageTrouble: false, reason: .done, until: 0,
            text: "", offlineReason: "", sqliteVersion: "3.40.1")
        #expect(try keys(JSONValue(state)) == fields("msgq_state").subtracting(["has_prompt", "prompt_failed"]))
    }

    /// Returns the enumerators of an enumeration of the header, in lower case and without the prefix.
    private func enumerators(_ name: String, _ prefix: String) throws -> [String] {
        let start = try #require(header.range(of: "typedef enum \(name) {"))
        let end = try #require(header.range(of: "} \(name);", range: start.upperBound..<header.endIndex))
        let body = header[start.upperBound..<end.lowerBound].replacing(/\/\*(?s).*?\*\//, with: "")
        return body.split(separator: ",").compactMap { part in
            part.firstMatch(of: /(MSGQ_\w+)/).map { String($0.1.dropFirst(prefix.count)).lowercased() }
        }
    }

    @Test func the_words_are_those_of_the_header() throws {
        #expect(try WireWords.statuses == enumerators("msgq_status", "MSGQ_STATUS_"))
        #expect(try WireWords.failures == enumerators("msgq_failure_kind", "MSGQ_FAILURE_"))
        #expect(try WireWords.reasons == enumerators("msgq_reason", "MSGQ_REASON_"))
        #expect(try WireWords.codes == enumerators("msgq_result", "MSGQ_").dropFirst().map { $0.uppercased() })
        #expect(try EventName.allCases.map(\.rawValue) == enumerators("msgq_event_kind", "MSGQ_EVENT_"))
        #expect(try Connectivity.allCases.map { WireWords.word($0) } == enumerators("msgq_connectivity", "MSGQ_CONNECTIVITY_"))
        #expect(try Link.allCases.map { WireWords.word($0) } == enumerators("msgq_link", "MSGQ_LINK_"))
        #expect(try Mode.allCases.map { WireWords.word($0) } == enumerators("msgq_mode", "MSGQ_MODE_"))
        #expect(try (0...8).compactMap { Report.Stop(rawValue: $0) }.map { WireWords.word($0) } == enumerators("msgq_stop", "MSGQ_STOP_"))
        #expect(
            try (0...2).compactMap { Attempt.Arrival(rawValue: $0) }.map { WireWords.word($0) }
                == enumerators("msgq_arrival", "MSGQ_ARRIVAL_"))
        #expect(
            try (0...4).compactMap { Attempt.Outcome(rawValue: $0) }.map { WireWords.word($0) }
                == enumerators("msgq_attempt_outcome", "MSGQ_ATTEMPT_"))
    }

    @Test func the_version_is_that_of_the_header() { #expect(header.contains("/* The library's version, \"\(LibraryVersion.text)\". */")) }

    @Test func events() {
        let change = StatusChange(id: "m", conversation: "c", from: nil, to: .queued, attempt: 0, failure: nil, at: 5)
        #expect(
            line(JSONValue(.status(change), at: 5))
                == #"{"event":"status","at_ms":5,"id":"m","conversation":"c","from":null,"to":"queued","attempt":0,"failure":null}"#)
        #expect(line(JSONValue(.resync(lostEvents: 3), at: 6)) == #"{"event":"resync","at_ms":6,"lost_events":3}"#)
        #expect(
            line(JSONValue(.paused(conversation: nil, isPaused: true, kind: .unauthorized), at: 7))
                == #"{"event":"paused","at_ms":7,"conversation":null,"paused":true,"failure_kind":"unauthorized"}"#)
        #expect(
            line(JSONValue(.storage(QueueError(.storage, "disk")), at: 8))
                == #"{"event":"storage","at_ms":8,"result":"STORAGE","text":"disk"}"#)
        #expect(
            line(JSONValue(.connectivity(Network(connectivity: .online, link: .wifi)), at: 9))
                == #"{"event":"connectivity","at_ms":9,"connectivity":"online","link":"wifi","metered":false,"text":null}"#)
        #expect(
            line(JSONValue(.cleared(conversation: nil), at: 1)) == #"{"event":"deleted","at_ms":1,"id":null,"conversation":null}"#)
        #expect(
            line(JSONValue(.replaced(id: "a", by: "b", conversation: "c"), at: 1))
                == #"{"event":"replaced","at_ms":1,"id":"a","by":"b","conversation":"c"}"#)
        #expect(line(JSONValue(.edited(id: "a", conversation: "c"), at: 1)) == #"{"event":"edited","at_ms":1,"id":"a","conversation":"c"}"#)
        #expect(line(JSONValue(.collect, at: 1)) == #"{"event":"collect","at_ms":1}"#)
    }
}
