// The coded form of values: each property under its name; see <doc:CodedValues>. Where each property is written as it is, the compiler makes
// the encoding.

extension MessageQueue.Conversation: Decodable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            name: try fields.value("name"),
            counts: try fields.value("counts"),
            last: try fields.value("last"),
            title: try fields.optional("title"),
            isPaused: try fields.value("isPaused", or: false))
    }
}

extension MessageQueue.Counts: Decodable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            queued: try fields.value("queued", or: 0),
            sending: try fields.value("sending", or: 0),
            sent: try fields.value("sent", or: 0),
            delivered: try fields.value("delivered", or: 0),
            read: try fields.value("read", or: 0),
            failed: try fields.value("failed", or: 0),
            received: try fields.value("received", or: 0),
            unread: try fields.value("unread", or: 0),
            unsentBytes: try fields.value("unsentBytes", or: 0))
    }
}

extension MessageQueue.FailureGroup: Decodable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            kind: try fields.value("kind"),
            code: try fields.optional("code"),
            count: try fields.value("count"),
            first: try fields.value("first"),
            last: try fields.value("last"),
            text: try fields.value("text", or: ""))
    }
}

extension MessageQueue.Waiting: Decodable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            queued: try fields.value("queued", or: 0),
            paused: try fields.value("paused", or: 0),
            scheduled: try fields.value("scheduled", or: 0),
            retrying: try fields.value("retrying", or: 0),
            nextScheduled: try fields.optional("nextScheduled"),
            nextRetry: try fields.optional("nextRetry"))
    }
}

extension MessageQueue.Network: Decodable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            connectivity: try fields.value("connectivity"),
            link: try fields.value("link", or: .other),
            isMetered: try fields.value("isMetered", or: false),
            offlineReason: try fields.optional("offlineReason"))
    }
}

extension MessageQueue.State: Decodable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            network: try fields.value("network"),
            isInBackground: try fields.value("isInBackground", or: false),
            mode: try fields.value("mode"),
            isPaused: try fields.value("isPaused", or: false),
            pausedConversations: try fields.value("pausedConversations", or: 0),
            isDraining: try fields.value("isDraining", or: false),
            inFlight: try fields.value("inFlight", or: 0),
            hasTransport: try fields.value("hasTransport", or: false),
            prompt: try fields.optional("prompt"),
            promptExpiresAt: try fields.optional("promptExpiresAt"),
            storage: try fields.optional("storage"),
            hasStorageTrouble: try fields.value("hasStorageTrouble", or: false),
            reason: try fields.value("reason"),
            until: try fields.optional("until"),
            text: try fields.value("text", or: ""),
            offlineReason: try fields.optional("offlineReason"),
            sqliteVersion: try fields.value("sqliteVersion", or: ""))
    }
}

extension MessageQueue.Prompt: Codable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            messages: try fields.value("messages"),
            failed: try fields.value("failed", or: 0),
            bytes: try fields.value("bytes", or: 0),
            oldestAt: try fields.value("oldestAt"),
            conversations: try fields.value("conversations", or: 1),
            timeout: try fields.duration("timeout") ?? .zero)
    }

    /// Writes each property under its name.
    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: FieldName.self)
        try fields.encode(messages, forKey: "messages")
        try fields.encode(failed, forKey: "failed")
        try fields.encode(bytes, forKey: "bytes")
        try fields.encode(oldestAt, forKey: "oldestAt")
        try fields.encode(conversations, forKey: "conversations")
        try fields.encode(milliseconds: timeout, forKey: "timeout")
    }
}

extension MessageQueue.Report: Decodable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            stop: try fields.value("stop"),
            sent: try fields.value("sent", or: 0),
            failed: try fields.value("failed", or: 0),
            discarded: try fields.value("discarded", or: 0),
            remaining: try fields.value("remaining", or: 0),
            remainingFailed: try fields.value("remainingFailed", or: 0),
            putBack: try fields.value("putBack", or: 0))
    }
}

extension MessageQueue.CheckReport: Decodable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            isSound: try fields.value("isSound"),
            whole: try fields.value("whole", or: 0),
            damaged: try fields.value("damaged", or: 0),
            missing: try fields.value("missing", or: 0),
            firstMissing: try fields.optional("firstMissing"),
            lastMissing: try fields.optional("lastMissing"),
            text: try fields.value("text", or: ""))
    }
}

extension MessageQueue.StatusChange: Decodable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            id: try fields.value("id"),
            conversation: try fields.value("conversation", or: ""),
            from: try fields.optional("from"),
            to: try fields.value("to"),
            attempt: try fields.optional("attempt"),
            failure: try fields.optional("failure"),
            at: try fields.value("at"))
    }
}

extension MessageQueue.Statistics: Codable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            openedAt: try fields.value("openedAt"),
            enqueued: try fields.value("enqueued", or: 0),
            attempts: try fields.value("attempts", or: 0),
            sent: try fields.value("sent", or: 0),
            retried: try fields.value("retried", or: 0),
            failed: try fields.value("failed", or: 0),
            discarded: try fields.value("discarded", or: 0),
            replaced: try fields.value("replaced", or: 0),
            sentBytes: try fields.value("sentBytes", or: 0),
            failures: try fields.failures(),
            sentPerMinute: try fields.value("sentPerMinute", or: 0),
            enqueuedPerMinute: try fields.value("enqueuedPerMinute", or: 0),
            latencies: try fields.value("latencies", or: []),
            latencySum: try fields.duration("latencySum") ?? .zero,
            latencyMax: try fields.duration("latencyMax") ?? .zero,
            fileBytes: try fields.value("fileBytes", or: 0),
            freeBytes: try fields.value("freeBytes", or: 0),
            retryable: try fields.value("retryable", or: 0),
            rejected: try fields.value("rejected", or: 0),
            offline: try fields.value("offline", or: 0),
            oldestQueuedAt: try fields.optional("oldestQueuedAt"))
    }

    /// Writes each property under its name.
    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: FieldName.self)
        try fields.encode(openedAt, forKey: "openedAt")
        try fields.encode(enqueued, forKey: "enqueued")
        try fields.encode(attempts, forKey: "attempts")
        try fields.encode(sent, forKey: "sent")
        try fields.encode(retried, forKey: "retried")
        try fields.encode(failed, forKey: "failed")
        try fields.encode(discarded, forKey: "discarded")
        try fields.encode(replaced, forKey: "replaced")
        try fields.encode(sentBytes, forKey: "sentBytes")
        try fields.encode(Dictionary(failures.map { ("\($0)", $1) }, uniquingKeysWith: +), forKey: "failures")
        try fields.encode(sentPerMinute, forKey: "sentPerMinute")
        try fields.encode(enqueuedPerMinute, forKey: "enqueuedPerMinute")
        try fields.encode(latencies, forKey: "latencies")
        try fields.encode(milliseconds: latencySum, forKey: "latencySum")
        try fields.encode(milliseconds: latencyMax, forKey: "latencyMax")
        try fields.encode(fileBytes, forKey: "fileBytes")
        try fields.encode(freeBytes, forKey: "freeBytes")
        try fields.encode(retryable, forKey: "retryable")
        try fields.encode(rejected, forKey: "rejected")
        try fields.encode(offline, forKey: "offline")
        try fields.encodeIfPresent(oldestQueuedAt, forKey: "oldestQueuedAt")
    }
}

extension MessageQueue.Minute: Decodable {
    /// Reads the value. What is absent and has a default gets it.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        self.init(
            startedAt: try fields.value("startedAt"),
            enqueued: try fields.value("enqueued", or: 0),
            sent: try fields.value("sent", or: 0),
            failedAttempts: try fields.value("failedAttempts", or: 0),
            failed: try fields.value("failed", or: 0))
    }
}
