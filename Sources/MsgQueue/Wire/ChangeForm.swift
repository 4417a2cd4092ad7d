/// Changes as JSON, with the names of `msgq_change`.
extension JSONValue {
    package init(_ page: ChangePage) {
        self = .object([
            Member("changes", .array(page.changes.map { JSONValue($0) })), Member("next", .string(page.next.text)),
            Member("oldest", .string(page.oldest.text)),
        ])
    }

    private init(_ change: StoredChange) {
        self = .object([
            Member("kind", .string(WireWords.word(change.kind))), Member("status", .string(WireWords.word(change.status))),
            Member("failure_kind", .string(WireWords.word(change.failure))), Member("code", JSONValue(change.code)),
            Member("at_ms", .integer(change.at)), Member("id", .string(change.id)),
            Member("conversation", .string(change.conversation)), Member("token", .string(change.token.text)),
        ])
    }
}
