// The coded form of values: each property under its name; see <doc:CodedValues>. Where each property is written as it is, the compiler makes
// the encoding.

extension MessageQueue.Message: Codable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        let createdAt: MessageQueue.Timestamp = try fields.value("createdAt")
        self.init(
            id: try fields.value("id"),
            conversation: try fields.value("conversation", or: ""),
            sender: try fields.optional("sender"),
            body: try fields.bytes("body"),
            bodySize: try fields.value("bodySize", or: 0),
            preview: try fields.value("preview", or: ""),
            metadata: try fields.value("metadata", or: [:]),
            status: try fields.value("status"),
            sequence: try fields.value("sequence"),
            createdAt: createdAt,
            time: try fields.value("time", or: createdAt),
            editedAt: try fields.optional("editedAt"),
            notBefore: try fields.optional("notBefore"),
            expiresAt: try fields.optional("expiresAt"),
            nextAttemptAt: try fields.optional("nextAttemptAt"),
            lastAttemptAt: try fields.optional("lastAttemptAt"),
            sentAt: try fields.optional("sentAt"),
            deliveredAt: try fields.optional("deliveredAt"),
            readAt: try fields.optional("readAt"),
            attempts: try fields.value("attempts", or: 0),
            retriesUsed: try fields.value("retriesUsed", or: 0),
            unmeteredOnly: try fields.value("unmeteredOnly", or: false),
            priority: try fields.value("priority", or: 0),
            failure: try fields.optional("failure"),
            failureBefore: try fields.optional("failureBefore"),
            explanation: try fields.optional("explanation"))
    }

    /// Writes each property under its name.
    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: FieldName.self)
        try fields.encode(id, forKey: "id")
        try fields.encode(conversation, forKey: "conversation")
        try fields.encodeIfPresent(sender, forKey: "sender")
        try fields.encode(base64: body, forKey: "body")
        try fields.encode(bodySize, forKey: "bodySize")
        try fields.encode(preview, forKey: "preview")
        try fields.encode(metadata, forKey: "metadata")
        try fields.encode(status, forKey: "status")
        try fields.encode(sequence, forKey: "sequence")
        try fields.encode(createdAt, forKey: "createdAt")
        try fields.encode(time, forKey: "time")
        try fields.encodeIfPresent(editedAt, forKey: "editedAt")
        try fields.encodeIfPresent(notBefore, forKey: "notBefore")
        try fields.encodeIfPresent(expiresAt, forKey: "expiresAt")
        try fields.encodeIfPresent(nextAttemptAt, forKey: "nextAttemptAt")
        try fields.encodeIfPresent(lastAttemptAt, forKey: "lastAttemptAt")
        try fields.encodeIfPresent(sentAt, forKey: "sentAt")
        try fields.encodeIfPresent(deliveredAt, forKey: "deliveredAt")
        try fields.encodeIfPresent(readAt, forKey: "readAt")
        try fields.encode(attempts, forKey: "attempts")
        try fields.encode(retriesUsed, forKey: "retriesUsed")
        try fields.encode(unmeteredOnly, forKey: "unmeteredOnly")
        try fields.encode(priority, forKey: "priority")
        try fields.encodeIfPresent(failure, forKey: "failure")
        try fields.encodeIfPresent(failureBefore, forKey: "failureBefore")
        try fields.encodeIfPresent(explanation, forKey: "explanation")
    }
}

extension MessageQueue.Failure: Decodable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            kind: try fields.value("kind"),
            code: try fields.optional("code"),
            text: try fields.value("text", or: ""),
            at: try fields.value("at"),
            isRetryable: try fields.value("isRetryable", or: false),
            attempts: try fields.value("attempts", or: 0))
    }
}

extension MessageQueue.Attempt: Codable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            number: try fields.value("number"),
            startedAt: try fields.value("startedAt"),
            duration: try fields.duration("duration"),
            outcome: try fields.value("outcome"),
            kind: try fields.optional("kind"),
            code: try fields.optional("code"),
            text: try fields.value("text", or: ""),
            arrival: try fields.value("arrival", or: .no))
    }

    /// Writes each property under its name.
    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: FieldName.self)
        try fields.encode(number, forKey: "number")
        try fields.encode(startedAt, forKey: "startedAt")
        try fields.encode(milliseconds: duration, forKey: "duration")
        try fields.encode(outcome, forKey: "outcome")
        try fields.encodeIfPresent(kind, forKey: "kind")
        try fields.encodeIfPresent(code, forKey: "code")
        try fields.encode(text, forKey: "text")
        try fields.encode(arrival, forKey: "arrival")
    }
}

extension MessageQueue.Explanation: Decodable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            reason: try fields.value("reason"),
            until: try fields.optional("until"),
            behind: try fields.optional("behind"),
            text: try fields.value("text", or: ""),
            retries: try fields.value("retries", or: 0))
    }
}

extension MessageQueue.Delivery: Codable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            id: try fields.value("id"),
            conversation: try fields.value("conversation", or: ""),
            body: try fields.bytes("body") ?? [],
            metadata: try fields.value("metadata", or: [:]),
            attempt: try fields.value("attempt", or: 1),
            token: try fields.value("token"),
            createdAt: try fields.value("createdAt"),
            timeout: try fields.duration("timeout") ?? .zero)
    }

    /// Writes each property under its name.
    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: FieldName.self)
        try fields.encode(id, forKey: "id")
        try fields.encode(conversation, forKey: "conversation")
        try fields.encode(base64: body, forKey: "body")
        try fields.encode(metadata, forKey: "metadata")
        try fields.encode(attempt, forKey: "attempt")
        try fields.encode(token, forKey: "token")
        try fields.encode(createdAt, forKey: "createdAt")
        try fields.encode(milliseconds: timeout, forKey: "timeout")
    }
}

extension MessageQueue.Draft: Codable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            try fields.bytes("body") ?? [],
            conversation: try fields.value("conversation", or: ""),
            metadata: try fields.value("metadata", or: [:]),
            id: try fields.optional("id"),
            notBefore: try fields.optional("notBefore"),
            expiresAt: try fields.optional("expiresAt"),
            unmeteredOnly: try fields.value("unmeteredOnly", or: false),
            replaceKey: try fields.optional("replaceKey"),
            priority: try fields.value("priority", or: 0),
            time: try fields.optional("time"),
            delay: try fields.duration("delay"),
            expiry: try fields.duration("expiry"))
    }

    /// Writes each property under its name.
    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: FieldName.self)
        try fields.encodeIfPresent(id, forKey: "id")
        try fields.encode(conversation, forKey: "conversation")
        try fields.encode(base64: body, forKey: "body")
        try fields.encode(metadata, forKey: "metadata")
        try fields.encodeIfPresent(notBefore, forKey: "notBefore")
        try fields.encodeIfPresent(expiresAt, forKey: "expiresAt")
        try fields.encode(unmeteredOnly, forKey: "unmeteredOnly")
        try fields.encodeIfPresent(replaceKey, forKey: "replaceKey")
        try fields.encode(priority, forKey: "priority")
        try fields.encodeIfPresent(time, forKey: "time")
        try fields.encode(milliseconds: delay, forKey: "delay")
        try fields.encode(milliseconds: expiry, forKey: "expiry")
    }
}

extension MessageQueue.RecordedDraft: Decodable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(try fields.value("draft", or: MessageQueue.Draft([])), sender: try fields.optional("sender"))
    }
}

extension MessageQueue.Filter: Codable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init()
        conversation = try fields.optional("conversation")
        statuses = try fields.value("statuses", or: statuses)
        after = try fields.optional("after")
        limit = try fields.value("limit", or: limit)
        newestFirst = try fields.value("newestFirst", or: newestFirst)
        withoutBodies = try fields.value("withoutBodies", or: withoutBodies)
        order = try fields.value("order", or: order)
        afterTime = try fields.optional("afterTime")
        withReasons = try fields.value("withReasons", or: withReasons)
        failureKind = try fields.optional("failureKind")
        failureCode = try fields.optional("failureCode")
        waitingFor = try fields.optional("waitingFor")
    }

    /// Writes each property under its name.
    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: FieldName.self)
        try fields.encodeIfPresent(conversation, forKey: "conversation")
        try fields.encode(statuses.sorted { $0.rawValue < $1.rawValue }, forKey: "statuses")
        try fields.encodeIfPresent(after, forKey: "after")
        try fields.encode(limit, forKey: "limit")
        try fields.encode(newestFirst, forKey: "newestFirst")
        try fields.encode(withoutBodies, forKey: "withoutBodies")
        try fields.encode(order, forKey: "order")
        try fields.encodeIfPresent(afterTime, forKey: "afterTime")
        try fields.encode(withReasons, forKey: "withReasons")
        try fields.encodeIfPresent(failureKind, forKey: "failureKind")
        try fields.encodeIfPresent(failureCode, forKey: "failureCode")
        try fields.encodeIfPresent(waitingFor, forKey: "waitingFor")
    }
}

extension MessageQueue.Token: Codable {}
