/// The calls of the control socket and their fields: the one table from which requests are decoded and with which the documentation is
/// compared.
package struct ControlRule: Sendable {
    package enum Kind: Sendable {
        case text
        case integer(ClosedRange<Int64>)
        case boolean
        /// One of these words.
        case word([String])
        /// A non-empty array of these words.
        case words([String])
        /// An object of strings.
        case texts
        /// An array of 1 to 1000 texts.
        case list
        /// An array of 1 to 1000 objects with these fields.
        case objects([Field])
    }

    /// The most elements of an array, so that a call takes not too long.
    private static let elements = 1...1000

    package struct Field: Sendable {
        package let name: String
        package let kind: Kind
        package var isRequired = false
    }

    package let call: String
    package let fields: [Field]

    package static let all: [ControlRule] = [
        ControlRule(
            call: "list",
            fields: [
                conversation, Field(name: "statuses", kind: .words(WireWords.statuses)),
                Field(name: "after", kind: .integer(0...Int64.max)),
                limit, Field(name: "newest_first", kind: .boolean), Field(name: "bodies", kind: .boolean), order,
                Field(name: "after_time_ms", kind: .integer(0...Int64.max)), Field(name: "reasons", kind: .boolean),
                Field(name: "waiting_for", kind: .word(["paused", "scheduled", "retrying"])),
            ] + failure),
        ControlRule(call: "get", fields: [message]), ControlRule(call: "explain", fields: [message]),
        ControlRule(call: "attempts", fields: [message]), ControlRule(call: "counts", fields: [conversation]),
        ControlRule(
            call: "conversations",
            fields: [
                Field(name: "before", kind: .integer(0...Int64.max)), limit, order,
                Field(name: "before_time_ms", kind: .integer(0...Int64.max)),
            ]),
        ControlRule(call: "conversation", fields: [Field(name: "conversation", kind: .text, isRequired: true)]),
        ControlRule(
            call: "set_title",
            fields: [Field(name: "conversation", kind: .text, isRequired: true), Field(name: "title", kind: .text, isRequired: true)]),
        ControlRule(call: "failures", fields: [limit]), ControlRule(call: "waiting", fields: []),
        ControlRule(call: "changes", fields: [Field(name: "after", kind: .text), limit]),
        ControlRule(call: "stats", fields: []), ControlRule(call: "stats_text", fields: []),
        ControlRule(call: "minutes", fields: []), ControlRule(call: "state", fields: []),
        ControlRule(call: "banner", fields: [conversation]),
        ControlRule(
            call: "drain",
            fields: [
                conversation, Field(name: "batch", kind: .integer(0...Int64(Int32.max))),
                Field(name: "timeout_ms", kind: .integer(0...Int64.max)), Field(name: "include_failed", kind: .boolean),
            ]),
        ControlRule(call: "retry", fields: [message]), ControlRule(call: "retry_all", fields: [conversation] + failure),
        ControlRule(call: "send_now", fields: [message]),
        ControlRule(
            call: "edit",
            fields: [message] + body + [metadata, Field(name: "if_edited_ms", kind: .integer(ChangeRule.anyEdit...Int64.max))]),
        ControlRule(call: "update", fields: [message] + body + [metadata, time]),
        ControlRule(call: "delete", fields: [message]), ControlRule(call: "clear", fields: [conversation]),
        ControlRule(call: "clear_failed", fields: [conversation] + failure),
        ControlRule(call: "delete_conversation", fields: [Field(name: "conversation", kind: .text, isRequired: true)]),
        ControlRule(call: "pause", fields: [conversation]), ControlRule(call: "resume", fields: [conversation]),
        ControlRule(call: "backup", fields: [Field(name: "path", kind: .text, isRequired: true)]), ControlRule(call: "check", fields: []),
        ControlRule(call: "enqueue", fields: draft),
        ControlRule(call: "enqueue_batch", fields: [Field(name: "drafts", kind: .objects(draft), isRequired: true)]),
        ControlRule(call: "record", fields: [Field(name: "sender", kind: .text, isRequired: true)] + recorded),
        ControlRule(
            call: "record_batch",
            fields: [Field(name: "drafts", kind: .objects([Field(name: "sender", kind: .text)] + recorded), isRequired: true)]),
        ControlRule(call: "mark", fields: [message, receipt]),
        ControlRule(call: "mark_batch", fields: [Field(name: "messages", kind: .list, isRequired: true), receipt]),
        ControlRule(call: "mark_up_to", fields: [message, receipt]),
        ControlRule(
            call: "set_lifecycle", fields: [Field(name: "lifecycle", kind: .word(["foreground", "background"]), isRequired: true)]),
        ControlRule(call: "withdraw_prompt", fields: []), ControlRule(call: "request_collect", fields: []),
        ControlRule(
            call: "subscribe",
            fields: [
                Field(name: "events", kind: .words(EventName.allCases.map(\.rawValue))),
                Field(name: "interval_ms", kind: .integer(0...60_000)),
            ]),
        ControlRule(call: "unsubscribe", fields: []), ControlRule(call: "ping", fields: []),
    ]

    private static let message = Field(name: "message", kind: .text, isRequired: true)
    private static let conversation = Field(name: "conversation", kind: .text)
    private static let order = Field(name: "order", kind: .word(["sequence", "time"]))
    private static let time = Field(name: "time_ms", kind: .integer(0...DraftRule.lastTime))
    private static let metadata = Field(name: "metadata", kind: .texts)
    private static let limit = Field(name: "limit", kind: .integer(1...1000))
    private static let failure = [
        Field(name: "kind", kind: .word(Array(WireWords.failures.dropFirst()))),
        Field(name: "code", kind: .integer(Int64(Int32.min)...Int64(Int32.max))),
    ]
    /// Exactly one of the two.
    private static let body = [Field(name: "body", kind: .text), Field(name: "body_base64", kind: .text)]
    private static let recorded = [Field(name: "message", kind: .text), conversation, metadata, time] + body
    private static let draft =
        recorded + [
            Field(name: "not_before_ms", kind: .integer(0...Int64.max)), Field(name: "delay_ms", kind: .integer(0...Int64.max)),
            Field(name: "expires_at_ms", kind: .integer(0...Int64.max)), Field(name: "expiry_ms", kind: .integer(0...Int64.max)),
            Field(name: "unmetered_only", kind: .boolean), Field(name: "replace_key", kind: .text),
            Field(name: "priority", kind: .integer(-100...100)),
        ]
    private static let receipt = Field(name: "status", kind: .word(["delivered", "read"]), isRequired: true)

    // MARK: Checking

    /// Throws if a field of the request is unknown, missing, or has a wrong value.
    func check(_ members: [JSONValue.Member]) throws(QueueError) {
        try check(fields, of: members.filter { $0.key != "id" && $0.key != "call" })
    }

    private func check(_ fields: [Field], of members: [JSONValue.Member]) throws(QueueError) {
        for member in members {
            guard let field = fields.first(where: { Name($0.name) == Name(member.key) }) else {
                throw QueueError(.invalid, "\(call): unknown field \(ControlRequest.shown(member.key))")
            }
            // `null` is the same as no value.
            guard member.value != .null || field.isRequired else { continue }
            try check(member.value, field)
        }
        for field in fields where field.isRequired && !members.contains(where: { Name($0.key) == Name(field.name) }) {
            throw QueueError(.invalid, "\(call): the field \(field.name) is missing")
        }
    }

    private func check(_ value: JSONValue, _ field: Field) throws(QueueError) {
        switch field.kind {
        case .text:
            guard value.string != nil else { throw wrong(field, "must be a string") }
        case .integer(let range):
            guard let number = value.integer else { throw wrong(field, "must be an integer") }
            guard range.contains(number) else {
                throw wrong(field, "must be \(range.lowerBound) to \(range.upperBound), got \(number)")
            }
        case .boolean:
            guard value.bool != nil else { throw wrong(field, "must be true or false") }
        case .word(let words):
            guard let word = value.string, words.contains(word) else { throw wrong(field, "must be one of \(Self.list(words))") }
        case .words(let words):
            guard let given = value.array, !given.isEmpty, given.allSatisfy({ $0.string.map(words.contains) ?? false }) else {
                throw wrong(field, "must be a non-empty array of \(Self.list(words))")
            }
        case .texts:
            guard let members = value.members, members.allSatisfy({ $0.value.string != nil }) else {
                throw wrong(field, "must be an object whose values are strings")
            }
        case .list:
            guard try elements(value, field).allSatisfy({ $0.string != nil }) else { throw wrong(field, "must be an array of strings") }
        case .objects(let parts):
            for (index, element) in try elements(value, field).enumerated() {
                guard let members = element.members else { throw wrong(field, "must be an array of objects") }
                do throws(QueueError) { try check(parts, of: members) } catch {
                    throw QueueError(error.code, "\(error.detail), in element \(index) of \(field.name)")
                }
            }
        }
    }

    private func elements(_ value: JSONValue, _ field: Field) throws(QueueError) -> [JSONValue] {
        guard let elements = value.array, Self.elements.contains(elements.count) else {
            throw wrong(field, "must be an array of \(Self.elements.lowerBound) to \(Self.elements.upperBound) elements")
        }
        return elements
    }

    private func wrong(_ field: Field, _ text: String) -> QueueError { QueueError(.invalid, "\(call): \(field.name) \(text)") }

    private static func list(_ words: [String]) -> String { words.joined(separator: ", ") }
}
