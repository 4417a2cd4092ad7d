/// Messages, attempts and what belongs to them as JSON. The names are those of the structs in the header; times are milliseconds since 1970,
/// 0: none. The control socket, the command line, `export` and `import` use this form.
extension JSONValue {
    package init(_ message: Message) {
        var members: [Member] = [
            Member("id", .string(message.id)), Member("conversation", .string(message.conversation)),
            Member("status", .string(WireWords.word(message.status))), Member("sequence", .integer(message.sequence)),
            Member("sender", JSONValue(message.sender)),
        ]
        if let body = message.body { members.append(Self.body(body)) }
        members += [
            Member("body_size", JSONValue(message.bodySize)), Member("preview", .string(message.preview)),
            Member("metadata", .object(message.pairs.map { Member($0.key, .string($0.value)) })),
            Member("created_ms", .integer(message.createdAt)), Member("time_ms", .integer(message.time)),
            Member("edited_ms", .integer(message.editedAt)),
            Member("sent_ms", .integer(message.sentAt)), Member("delivered_ms", .integer(message.deliveredAt)),
            Member("read_ms", .integer(message.readAt)), Member("not_before_ms", .integer(message.notBefore)),
            Member("expires_at_ms", .integer(message.expiresAt)), Member("next_attempt_ms", .integer(message.nextAttemptAt)),
            Member("last_attempt_ms", .integer(message.lastAttemptAt)), Member("attempts", JSONValue(message.attempts)),
            Member("retries_used", JSONValue(message.retriesUsed)), Member("unmetered_only", .bool(message.unmeteredOnly)),
            Member("priority", .integer(Int64(message.priority))),
            Member("failure", message.failure.map { JSONValue($0) } ?? .null),
            Member("failure_before", message.failureBefore.map { JSONValue($0) } ?? .null),
        ]
        if let explanation = message.explanation { members.append(Member("explanation", JSONValue(explanation))) }
        self = .object(members)
    }

    /// The body: `body` if it is UTF-8, otherwise `body_base64`.
    package static func body(_ bytes: [UInt8]) -> Member {
        guard let text = String(validating: bytes, as: UTF8.self) else { return Member("body_base64", .string(Base64.encode(bytes))) }
        return Member("body", .string(text))
    }

    package init(_ failure: Failure) {
        self = [
            "kind": .string(WireWords.word(failure.kind)), "code": JSONValue(failure.code), "text": .string(failure.text),
            "at_ms": .integer(failure.at), "retryable": .bool(failure.retryable), "attempts": JSONValue(failure.attempts),
            "sentence": .string(Words.failure(failure.kind)),
        ]
    }

    package init(_ group: FailureGroup) {
        self = [
            "kind": .string(WireWords.word(group.kind)), "code": JSONValue(group.code), "count": .integer(group.count),
            "first_ms": .integer(group.firstAt), "last_ms": .integer(group.lastAt), "text": .string(group.text),
            "sentence": .string(Words.failure(group.kind)),
        ]
    }

    package init(_ attempt: Attempt) {
        self = [
            "number": JSONValue(attempt.number), "started_ms": .integer(attempt.startedAt),
            "duration_ms": JSONValue(attempt.duration ?? -1),
            "outcome": .string(WireWords.word(attempt.result)), "kind": .string(WireWords.word(attempt.kind)),
            "code": JSONValue(attempt.code), "arrival": .string(WireWords.word(attempt.arrival)), "text": .string(attempt.text),
        ]
    }

    package init(_ explanation: Explanation) {
        self = [
            "reason": .string(WireWords.word(explanation.reason)), "until_ms": .integer(explanation.until),
            "behind": JSONValue(explanation.behind), "text": .string(explanation.text), "retries": JSONValue(explanation.retries),
        ]
    }

    package init(_ conversation: Conversation) {
        self = [
            "name": .string(conversation.name), "counts": JSONValue(conversation.counts), "last": JSONValue(conversation.last),
            "title": JSONValue(conversation.title), "paused": .bool(conversation.isPaused),
        ]
    }
}
