/// The kinds of event, with the names of `msgq_event_kind`.
package enum EventName: String, CaseIterable, Sendable {
    case status, summary, connectivity, prompt
    case promptWithdrawn = "prompt_withdrawn"
    case drainStarted = "drain_started"
    case drainProgress = "drain_progress"
    case drainFinished = "drain_finished"
    case discarded, deleted, storage, paused, resync, replaced, edited
    case promptChanged = "prompt_changed"
    case collect

    package init(_ event: Event) {
        switch event {
        case .status: self = .status
        case .summary: self = .summary
        case .connectivity: self = .connectivity
        case .prompt: self = .prompt
        case .promptWithdrawn: self = .promptWithdrawn
        case .promptChanged: self = .promptChanged
        case .drainStarted: self = .drainStarted
        case .drainProgress: self = .drainProgress
        case .drainFinished: self = .drainFinished
        case .discarded: self = .discarded
        case .deleted, .cleared: self = .deleted
        case .storage: self = .storage
        case .paused: self = .paused
        case .resync: self = .resync
        case .replaced: self = .replaced
        case .edited: self = .edited
        case .collect: self = .collect
        }
    }
}

/// Events as JSON: `event` is the name of the kind; the other members are those of `msgq_event` that the kind has.
extension JSONValue {
    package init(_ event: Event, at: Int64) {
        let kind = EventName(event)
        self = .object([Member("event", .string(kind.rawValue)), Member("at_ms", .integer(at))] + Self.members(of: event))
    }

    private static func members(of event: Event) -> [Member] {
        switch event {
        case .status(let change):
            [
                Member("id", .string(change.id)), Member("conversation", .string(change.conversation)),
                Member("from", JSONValue(change.from.map { WireWords.word($0) })), Member("to", .string(WireWords.word(change.to))),
                Member("attempt", JSONValue(change.attempt)), Member("failure", change.failure.map { JSONValue($0) } ?? .null),
            ]
        case .summary(let counts, let network): [Member("counts", JSONValue(counts))] + members(of: network)
        case .connectivity(let network):
            members(of: network) + [Member("text", network.offlineReason.isEmpty ? .null : .string(network.offlineReason))]
        case .prompt(let prompt), .promptChanged(let prompt): [Member("prompt", JSONValue(prompt))]
        case .promptWithdrawn, .collect: []
        case .resync(let lostEvents): [Member("lost_events", .integer(lostEvents))]
        case .drainStarted(let counts): [Member("counts", JSONValue(counts))]
        case .drainProgress(let report), .drainFinished(let report): [Member("report", JSONValue(report))]
        case .discarded(let id, let conversation, let failure):
            [
                Member("id", .string(id)), Member("conversation", .string(conversation)), Member("failure", JSONValue(failure)),
            ]
        case .deleted(let id, let conversation), .edited(let id, let conversation):
            [Member("id", .string(id)), Member("conversation", .string(conversation))]
        case .cleared(let conversation): [Member("id", .null), Member("conversation", JSONValue(conversation))]
        case .storage(let error):
            [Member("result", .string(error.map { WireWords.word($0.code) } ?? "OK")), Member("text", JSONValue(error?.detail))]
        case .paused(let conversation, let isPaused, let kind):
            [
                Member("conversation", JSONValue(conversation)), Member("paused", .bool(isPaused)),
                Member("failure_kind", .string(WireWords.word(kind))),
            ]
        case .replaced(let id, let new, let conversation):
            [Member("id", .string(id)), Member("by", .string(new)), Member("conversation", .string(conversation))]
        }
    }

    private static func members(of network: Network) -> [Member] {
        [
            Member("connectivity", .string(WireWords.word(network.connectivity))), Member("link", .string(WireWords.word(network.link))),
            Member("metered", .bool(network.metered)),
        ]
    }
}
