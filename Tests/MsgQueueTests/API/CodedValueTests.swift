import Foundation
import Testing

@testable import MsgQueue

/// The coded form of values, and that they can be compared and kept in sets.
@Suite struct CodedValueTests {
    typealias Value = Codable & Hashable & Sendable & CustomStringConvertible

    /// The public types of MsgQueue that are values. `PublicValueTests` compares the list with the sources.
    static let types: [String: any Value.Type] = [
        "Message": MessageQueue.Message.self, "Failure": MessageQueue.Failure.self, "Attempt": MessageQueue.Attempt.self,
        "Explanation": MessageQueue.Explanation.self, "Delivery": MessageQueue.Delivery.self, "Draft": MessageQueue.Draft.self,
        "RecordedDraft": MessageQueue.RecordedDraft.self,
        "Filter": MessageQueue.Filter.self, "Conversation": MessageQueue.Conversation.self, "Counts": MessageQueue.Counts.self,
        "Network": MessageQueue.Network.self, "State": MessageQueue.State.self, "Prompt": MessageQueue.Prompt.self,
        "Report": MessageQueue.Report.self, "CheckReport": MessageQueue.CheckReport.self,
        "StatusChange": MessageQueue.StatusChange.self, "Error": MessageQueue.Error.self, "Statistics": MessageQueue.Statistics.self,
        "Minute": MessageQueue.Minute.self,
        "Options": MessageQueue.Options.self, "BatchOptions": MessageQueue.BatchOptions.self, "Outcome": MessageQueue.Outcome.self,
        "Event": MessageQueue.Event.self, "Backoff": MessageQueue.Backoff.self, "FailureGroup": MessageQueue.FailureGroup.self,
        "Waiting": MessageQueue.Waiting.self, "HandOver": MessageQueue.HandOver.self, "HandOver.Entry": MessageQueue.HandOver.Entry.self,
        "Change": MessageQueue.Change.self, "ChangePage": MessageQueue.ChangePage.self,
    ]

    /// The fields without which a value has no meaning.
    private static let required: [String: Set<String>] = [
        "Message": ["id", "status", "sequence", "createdAt"], "Failure": ["kind", "at"], "Attempt": ["number", "startedAt", "outcome"],
        "Explanation": ["reason"], "Delivery": ["id", "token", "createdAt"], "Conversation": ["name", "counts", "last"],
        "Network": ["connectivity"], "State": ["network", "mode", "reason"], "Prompt": ["messages", "oldestAt"], "Report": ["stop"],
        "CheckReport": ["isSound"], "StatusChange": ["id", "to", "at"], "Error": ["code"], "Statistics": ["openedAt"],
        "Minute": ["startedAt"], "FailureGroup": ["kind", "count", "first", "last"],
        "Outcome": ["verdict"], "HandOver": ["source", "entries", "token"], "HandOver.Entry": ["id", "bodySize", "at"],
        "Change": ["kind", "status", "at", "id", "conversation", "token"], "ChangePage": ["changes", "next", "oldest"],
    ]

    /// What the first version with coded values wrote: a value of each type, of an enumeration with values one for each case.
    private static func recorded() throws -> [String: [[String: Any]]] {
        var tests = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        for _ in 0..<3 { tests.deleteLastPathComponent() }
        let data = try Data(contentsOf: tests.appendingPathComponent("fixtures/coded-values.json"))
        let all = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        return try all.mapValues { value in
            if let objects = value as? [[String: Any]] { return objects }
            return [try #require(value as? [String: Any])]
        }
    }

    private func decode<T: Value>(_ type: T.Type, _ object: [String: Any]) throws -> T {
        try JSONDecoder().decode(T.self, from: JSONSerialization.data(withJSONObject: object))
    }

    private func encode(_ value: some Value) throws -> NSDictionary {
        let object = try JSONSerialization.jsonObject(with: try JSONEncoder().encode(value))
        return try #require(object as? NSDictionary)
    }

    @Test func X13_every_value_survives_its_coded_form_under_the_names_of_its_properties() throws {
        let recorded = try Self.recorded()
        #expect(Set(recorded.keys) == Set(Self.types.keys))
        for (name, type) in Self.types {
            for object in recorded[name] ?? [] { try roundTrip(name, type, object) }
        }
    }

    private func roundTrip<T: Value>(_ name: String, _ type: T.Type, _ object: [String: Any]) throws {
        let value = try decode(T.self, object)
        let coded = try encode(value)
        for (key, field) in object { #expect(coded[key] as? NSObject == field as? NSObject, "\(name).\(key)") }
        let again = try JSONDecoder().decode(T.self, from: try JSONEncoder().encode(value))
        #expect(again == value && again.hashValue == value.hashValue, "\(name)")
        #expect(Set([value, again]).count == 1, "\(name)")
        let listed = try PropertyListDecoder().decode([T].self, from: try PropertyListEncoder().encode([value]))
        #expect(listed == [value], "\(name) as a property list")
        // A property that is not coded would be lost; an outcome has one, whose fields are coded.
        guard name != "Event", name != "Backoff", name != "Outcome" else { return }
        for child in Mirror(reflecting: value).children {
            let label = try #require(child.label)
            #expect(coded[label] != nil || (name == "Error" && label == "cause"), "\(name).\(label) is not coded")
        }
    }

    @Test(arguments: [QueueError.Cause.other, .full, .index, .unopened, .replaced])
    func X13_an_error_survives_its_coded_form_with_its_cause(cause: QueueError.Cause) throws {
        let error = QueueError(.storage, "detail", cause)
        let again = try JSONDecoder().decode(QueueError.self, from: try JSONEncoder().encode(error))
        #expect(again == error && again.cause == cause)
    }

    @Test func X13_values_decode_without_the_fields_that_they_did_not_always_have() throws {
        for (name, objects) in try Self.recorded() where name != "Event" && name != "Backoff" {
            let object = try #require(objects.first)
            let type = try #require(Self.types[name])
            for key in object.keys {
                var older = object
                older[key] = nil
                let isRequired = Self.required[name]?.contains(key) == true
                #expect(((try? decode(type, older)) != nil) == !isRequired, "\(name) without \(key)")
            }
            var later = object
            later["addedLater"] = ["x": 1]
            #expect(throws: Never.self) { _ = try decode(type, later) }
            let least = object.filter { Self.required[name]?.contains($0.key) == true }
            #expect(throws: Never.self, "\(name)") { _ = try decode(type, least) }
        }
        #expect(try decode(MessageQueue.Options.self, [:]) == MessageQueue.Options())
        #expect(try decode(MessageQueue.BatchOptions.self, [:]) == MessageQueue.BatchOptions())
        #expect(try decode(MessageQueue.Filter.self, [:]) == MessageQueue.Filter())
        #expect(try decode(MessageQueue.Draft.self, [:]) == MessageQueue.Draft([]))
    }

    @Test func X13_options_without_a_limit_differ_from_those_that_are_absent() throws {
        var options = MessageQueue.Options()
        (options.keepSent, options.keepSentFor) = (nil, nil)
        let decoded = try JSONDecoder().decode(MessageQueue.Options.self, from: try JSONEncoder().encode(options))
        #expect(decoded.keepSent == nil && decoded.keepSentFor == nil)
        #expect(try decode(MessageQueue.Options.self, [:]).keepSent == 10_000)
    }

    @Test func X13_wrong_coded_values_are_errors() throws {
        let wrong: [(String, [String: Any])] = [
            ("Draft", ["body": "?"]), ("Draft", ["priority": "high"]), ("Event", ["event": "nothing"]), ("Event", [:]),
            ("Outcome", ["verdict": 99]), ("Backoff", ["kind": "none"]), ("Report", ["stop": -1]), ("Network", ["connectivity": 9]),
        ]
        for (name, object) in wrong {
            let type = try #require(Self.types[name])
            #expect(throws: DecodingError.self, "\(name) \(object)") { _ = try decode(type, object) }
        }
        // Numbers from outside end in an error or a value, not in a trap.
        let huge = Int64.max
        let statistics = try decode(
            MessageQueue.Statistics.self,
            ["openedAt": huge, "latencies": [huge, huge], "latencyMax": huge, "failures": ["later": huge, "unknown": huge]])
        #expect(statistics.latency(share: 1) != nil && statistics.failures == [.unknown: Int.max])
        #expect(try decode(MessageQueue.Prompt.self, ["messages": huge, "oldestAt": -huge, "timeout": huge]).messages == Int(huge))
        #expect(try decode(MessageQueue.Counts.self, ["queued": huge, "failed": huge]).unsent < 0)
    }

    @Test func X13_values_with_an_id_are_identifiable() throws {
        func id<T: Identifiable>(_ value: T) -> T.ID { value.id }
        let directory = TemporaryDirectory()
        let queue = try MessageQueue(path: directory.store, options: .init(mode: .manual))
        try queue.enqueue("hello", conversation: "ana", id: "a")
        #expect(id(try queue.message(id: "a")) == "a")
        #expect(try queue.conversations().map { id($0) } == ["ana"])
        #expect(try queue.message(id: "a") == queue.list().first)
        let delivery = try decode(MessageQueue.Delivery.self, try #require(try Self.recorded()["Delivery"]?.first))
        #expect(id(delivery) == "a")
        try queue.syncClose()
    }
}
