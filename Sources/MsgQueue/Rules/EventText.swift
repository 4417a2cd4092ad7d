/// The lines of the log, at the level `debug`, for the events of a queue. They contain ids, names of conversations, sizes and the texts of
/// transports; never a body, metadata or a preview.
package enum EventText {
    /// Returns the line of an event; nil: it has none, because it repeats others or the log says it at another level.
    package static func line(_ event: Event) -> String? {
        switch event {
        // The line of an attempt without a failure, after which the message is queued, is that of `offline` or `notMade`.
        case .status(let change) where change.from == .sending && change.to == .queued && change.failure == nil: nil
        case .status(let change): "message \(change.id): \(status(change))"
        case .connectivity(let network): "connectivity: \(connectivity(network))"
        case .prompt(let prompt):
            "prompt raised: \(count(prompt.messages, "message")), \(count(prompt.bytes, "byte")), "
                + count(prompt.conversations, "conversation")
        case .collect: "messages may wait to be taken over"
        case .promptChanged(let prompt): "prompt changed: \(count(prompt.messages, "message")), \(count(prompt.failed, "failed message"))"
        case .promptWithdrawn: "prompt withdrawn"
        case .drainStarted(let counts): "drain started: \(counts.queued) queued, \(counts.sending) being sent, \(counts.failed) failed"
        case .drainFinished(let report):
            "drain finished (\(report.stop)): \(report.sent) sent, \(report.failed) failed, \(report.discarded) discarded, "
                + "\(report.putBack) put back, \(report.remaining) remaining"
        case .paused(let conversation, let isPaused, let kind):
            (isPaused ? "paused" : "resumed") + within(conversation) + (kind == .none ? "" : " (\(kind.word))")
        case .discarded(let id, _, let failure): "message \(id): discarded\(cause(failure))"
        case .deleted(let id, _): "message \(id): deleted"
        case .edited(let id, _): "message \(id): edited"
        case .cleared(let conversation): "messages deleted" + within(conversation)
        case .replaced(let id, let by, _): "message \(id): replaced by message \(by)"
        case .summary, .drainProgress, .storage, .resync: nil
        }
    }

    /// Returns the line of messages that one call enqueued. `id`, `conversation`, `bytes`: of the first of them.
    package static func enqueued(_ count: Int, _ id: String, _ conversation: Name, bytes: Int) -> String {
        count == 1
            ? "message \(id): enqueued\(within(conversation.text)), \(Self.count(Int64(bytes), "byte"))"
            : "\(count) messages enqueued, the first is message \(id)\(within(conversation.text))"
    }

    /// Returns the line of messages that one call recorded. `id`, `conversation`: of the first of them.
    package static func recorded(_ count: Int, _ id: String, _ conversation: Name) -> String {
        count == 1
            ? "message \(id): recorded\(within(conversation.text))"
            : "\(count) messages recorded, the first is message \(id)\(within(conversation.text))"
    }

    /// Returns the line of an attempt whose outcome is unknown, because the process ended during it.
    package static func interrupted(_ id: String, _ resolution: Resolution) -> String {
        "message \(id): attempt \(resolution.attempt?.number ?? 0) was interrupted: \(resolution.fate)"
    }

    /// Returns the line of an attempt that was not transmitted, after which the message is queued without a failure.
    package static func offline(_ number: UInt32, of id: String, _ reason: String) -> String {
        "message \(id): attempt \(number) ended: queued (offline)\(reason.isEmpty ? "" : ": \(reason)")"
    }

    /// Returns the line of an attempt of a message that was cleared meanwhile.
    package static func cleared(_ number: UInt32, of id: String, _ failure: Failure?) -> String {
        "message \(id): attempt \(number) ended: not sent\(cause(failure)), and deleted because it was cleared"
    }

    /// Returns the line of an attempt whose call was not made, or whose message the transport skipped.
    package static func notMade(_ number: UInt32, of id: String) -> String { "message \(id): attempt \(number) was not made: queued" }

    // MARK: Parts

    private static func status(_ change: StatusChange) -> String {
        guard let from = change.from else { return (change.to == .queued ? "enqueued" : "recorded") + within(change.conversation) }
        switch (from, change.to) {
        case (_, .sending): return "attempt \(change.attempt) begins\(was(from))"
        case (.sending, _): return "attempt \(change.attempt) ended: \(change.to)\(cause(change.failure))"
        case (_, .sent): return "attempt \(change.attempt) ended late: sent\(was(from))"
        default: return "\(change.to)\(was(from))\(cause(change.failure))"
        }
    }

    private static func was(_ status: MessageStatus) -> String { status == .queued ? "" : ", was \(status)" }

    /// " (server, code 503): busy"; "" without a failure.
    private static func cause(_ failure: Failure?) -> String {
        guard let failure else { return "" }
        let code = failure.code == 0 ? "" : ", code \(failure.code)"
        return " (\(failure.kind.word)\(code))" + (failure.text.isEmpty ? "" : ": \(failure.text)")
    }

    private static func connectivity(_ network: Network) -> String {
        let link = network.link == .none ? "" : ", link \(network.link)"
        let reason = network.offlineReason.isEmpty ? "" : ": \(network.offlineReason)"
        return "\(network.connectivity)\(link)\(network.metered ? ", metered" : "")\(reason)"
    }

    /// " in conversation "ana""; "" for the conversation "" and for all.
    private static func within(_ conversation: String?) -> String {
        guard let conversation, !conversation.isEmpty else { return "" }
        return " in conversation \"\(conversation)\""
    }

    private static func count(_ number: Int64, _ word: String) -> String { "\(number) \(word)\(number == 1 ? "" : "s")" }
}
