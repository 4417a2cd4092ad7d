// The coded form of events, outcomes, errors and times; see <doc:CodedValues>.

extension MessageQueue.Event: Codable {
    /// Reads the value.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        let name: String = try fields.value("event")
        switch name {
        case "status": self = .status(try fields.value("change"))
        case "summary": self = .summary(try fields.value("counts"), try fields.value("network"))
        case "connectivity": self = .connectivity(try fields.value("network"))
        case "prompt": self = .prompt(try fields.value("prompt"))
        case "promptWithdrawn": self = .promptWithdrawn
        case "promptChanged": self = .promptChanged(try fields.value("prompt"))
        case "drainStarted": self = .drainStarted(try fields.value("counts"))
        case "drainProgress": self = .drainProgress(try fields.value("report"))
        case "drainFinished": self = .drainFinished(try fields.value("report"))
        case "paused":
            self = .paused(
                conversation: try fields.optional("conversation"), isPaused: try fields.value("isPaused"), kind: try fields.optional("kind")
            )
        case "discarded":
            self = .discarded(
                id: try fields.value("id"), conversation: try fields.value("conversation", or: ""), failure: try fields.value("failure"))
        case "deleted": self = .deleted(id: try fields.value("id"), conversation: try fields.value("conversation", or: ""))
        case "cleared": self = .cleared(conversation: try fields.optional("conversation"))
        case "storage": self = .storage(try fields.optional("error"))
        case "resync": self = .resync(lostEvents: try fields.value("lostEvents", or: 1))
        case "replaced":
            self = .replaced(
                id: try fields.value("id"), by: try fields.value("by"), conversation: try fields.value("conversation", or: ""))
        case "edited": self = .edited(id: try fields.value("id"), conversation: try fields.value("conversation", or: ""))
        case "collect": self = .collect
        default: throw fields.error("event", "unknown: \(name)")
        }
    }

    /// Writes the name of the case as "event", and its values under their names.
    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: FieldName.self)
        try fields.encode(name, forKey: "event")
        switch self {
        case .status(let change): try fields.encode(change, forKey: "change")
        case .summary(let counts, let network):
            try fields.encode(counts, forKey: "counts")
            try fields.encode(network, forKey: "network")
        case .connectivity(let network): try fields.encode(network, forKey: "network")
        case .prompt(let prompt), .promptChanged(let prompt): try fields.encode(prompt, forKey: "prompt")
        case .promptWithdrawn, .collect: break
        case .drainStarted(let counts): try fields.encode(counts, forKey: "counts")
        case .drainProgress(let report), .drainFinished(let report): try fields.encode(report, forKey: "report")
        case .paused(let conversation, let isPaused, let kind):
            try fields.encodeIfPresent(conversation, forKey: "conversation")
            try fields.encode(isPaused, forKey: "isPaused")
            try fields.encodeIfPresent(kind, forKey: "kind")
        case .discarded(let id, let conversation, let failure):
            try fields.encode(id, forKey: "id")
            try fields.encode(conversation, forKey: "conversation")
            try fields.encode(failure, forKey: "failure")
        case .deleted(let id, let conversation), .edited(let id, let conversation):
            try fields.encode(id, forKey: "id")
            try fields.encode(conversation, forKey: "conversation")
        case .cleared(let conversation): try fields.encodeIfPresent(conversation, forKey: "conversation")
        case .storage(let error): try fields.encodeIfPresent(error, forKey: "error")
        case .resync(let lost): try fields.encode(lost, forKey: "lostEvents")
        case .replaced(let id, let new, let conversation):
            try fields.encode(id, forKey: "id")
            try fields.encode(new, forKey: "by")
            try fields.encode(conversation, forKey: "conversation")
        }
    }

    private var name: String {
        switch self {
        case .status: "status"
        case .summary: "summary"
        case .connectivity: "connectivity"
        case .prompt: "prompt"
        case .promptWithdrawn: "promptWithdrawn"
        case .promptChanged: "promptChanged"
        case .drainStarted: "drainStarted"
        case .drainProgress: "drainProgress"
        case .drainFinished: "drainFinished"
        case .paused: "paused"
        case .discarded: "discarded"
        case .deleted: "deleted"
        case .cleared: "cleared"
        case .storage: "storage"
        case .resync: "resync"
        case .replaced: "replaced"
        case .edited: "edited"
        case .collect: "collect"
        }
    }
}

extension MessageQueue.Outcome: Codable {
    /// Reads the value. A verdict that this version does not know is an error.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        guard let verdict = MsgQueue.Outcome.Verdict(rawValue: try fields.value("verdict")) else {
            throw fields.error("verdict", "unknown")
        }
        let kind: MessageQueue.FailureKind? = try fields.optional("kind")
        self.init(
            engine: MsgQueue.Outcome(
                verdict: verdict, kind: kind?.engine ?? .none, code: try fields.value("code", or: 0),
                text: try fields.value("text", or: ""),
                retryAfter: try fields.optional("retryAfter"), retryAfterHeader: try fields.value("retryAfterHeader", or: ""),
                retryAfterIsForQueue: try fields.value("retryAfterIsForQueue", or: false),
                isNotSent: try fields.value("isNotSent", or: false), receipt: try fields.optional("receipt")))
    }

    /// Writes the verdict as its number in the header, and what was given beside it.
    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: FieldName.self)
        try fields.encode(engine.verdict.rawValue, forKey: "verdict")
        try fields.encodeIfPresent(MessageQueue.FailureKind(engine.kind), forKey: "kind")
        if engine.code != 0 { try fields.encode(engine.code, forKey: "code") }
        if !engine.text.isEmpty { try fields.encode(engine.text, forKey: "text") }
        try fields.encodeIfPresent(engine.retryAfter, forKey: "retryAfter")
        if !engine.retryAfterHeader.isEmpty { try fields.encode(engine.retryAfterHeader, forKey: "retryAfterHeader") }
        if engine.retryAfterIsForQueue { try fields.encode(true, forKey: "retryAfterIsForQueue") }
        if engine.isNotSent { try fields.encode(true, forKey: "isNotSent") }
        try fields.encodeIfPresent(engine.receipt, forKey: "receipt")
    }
}

extension MessageQueue.Error: Codable {
    /// Reads the value.
    public init(from decoder: any Decoder) throws {
        let fields = try FieldReader(decoder)
        let cause = try Self.causes.first { try fields.value($0.name, or: false) }?.cause
        self.init(try fields.value("code"), try fields.value("detail", or: ""), cause ?? .other)
    }

    /// Writes the code as its number in the header, and the detail.
    public func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: FieldName.self)
        try fields.encode(code, forKey: "code")
        try fields.encode(detail, forKey: "detail")
        for (name, cause) in Self.causes where cause == self.cause { try fields.encode(true, forKey: name) }
    }

    private static let causes: [(name: FieldName, cause: Cause)] = [
        ("isFull", .full), ("isIndex", .index), ("isUnopened", .unopened), ("isReplaced", .replaced),
    ]
}

extension MessageQueue.Timestamp: Codable {
    /// Reads the number of milliseconds since 1970.
    public init(from decoder: any Decoder) throws {
        self.init(millisecondsSince1970: try decoder.singleValueContainer().decode(Int64.self))
    }

    /// Writes the number of milliseconds since 1970.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(millisecondsSince1970)
    }
}

// Enumerations are coded as their numbers, which are those of the header and never change.

extension MessageQueue.Status: Codable {}
extension MessageQueue.FailureKind: Codable {}
extension MessageQueue.Mode: Codable {}
extension MessageQueue.Connectivity: Codable {}
extension MessageQueue.Link: Codable {}
extension MessageQueue.Exhausted: Codable {}
extension MessageQueue.Refused: Codable {}
extension MessageQueue.FinalFailure: Codable {}
extension MessageQueue.OnFull: Codable {}
extension MessageQueue.Filter.Order: Codable {}
extension MessageQueue.LogLevel: Codable {}
extension MessageQueue.Explanation.Reason: Codable {}
extension MessageQueue.Report.Stop: Codable {}
extension MessageQueue.Attempt.Outcome: Codable {}
extension MessageQueue.Attempt.Arrival: Codable {}
extension MessageQueue.Error.Code: Codable {}
