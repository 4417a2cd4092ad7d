// The descriptions of the values are short texts for developers, for logs and tests. They contain no body, no metadata and no preview.

/// Text and numbers, separated by commas, without those that are nil.
private func list(_ parts: String?...) -> String { parts.compactMap { $0 }.joined(separator: ", ") }

/// "2 queued"; nil for 0.
private func some(_ number: Int, _ word: String) -> String? { number == 0 ? nil : "\(number) \(word)" }

/// The name of a conversation; nil for "".
private func within(_ conversation: String) -> String? {
    conversation.isEmpty ? nil : "conversation \(String(reflecting: conversation))"
}

/// "server 503", "timeout".
private func cause(_ kind: MessageQueue.FailureKind?, _ code: Int?) -> String? {
    guard let kind else { return code.map { "\($0)" } }
    return code.map { "\(kind) \($0)" } ?? "\(kind)"
}

/// The properties that differ from those of another value: "mode: manual, maxInFlight: 4".
private func differences<T>(_ value: T, from other: T) -> String {
    zip(Mirror(reflecting: value).children, Mirror(reflecting: other).children).compactMap { own, theirs in
        let text = String(describing: own.value)
        return text == String(describing: theirs.value) ? nil : "\(own.label ?? ""): \(text)"
    }.joined(separator: ", ")
}

extension MessageQueue.Message: CustomStringConvertible {
    /// The id, the conversation, the status and the size.
    public var description: String { list("message \(id)", within(conversation), "\(status)", "\(bodySize) bytes") }
}

extension MessageQueue.Failure: CustomStringConvertible {
    /// The kind, the code and the text from the transport.
    public var description: String { list(cause(kind, code), text.isEmpty ? nil : text) }
}

extension MessageQueue.Draft: CustomStringConvertible {
    /// The id if there is one, the conversation and the size.
    public var description: String { list(id.map { "draft \($0)" } ?? "draft", within(conversation), "\(body.count) bytes") }
}

extension MessageQueue.RecordedDraft: CustomStringConvertible {
    /// The draft, and who wrote it.
    public var description: String { list("\(draft)", sender.map { "from \"\($0)\"" }) }
}

extension MessageQueue.Delivery: CustomStringConvertible {
    /// The id, the conversation, the number of the attempt and the size.
    public var description: String { list("message \(id)", within(conversation), "attempt \(attempt)", "\(body.count) bytes") }
}

extension MessageQueue.Token: CustomStringConvertible {
    /// The number.
    public var description: String { "token \(rawValue)" }
}

extension MessageQueue.Attempt: CustomStringConvertible {
    /// The number, how it ended and why.
    public var description: String { list("attempt \(number)", "\(outcome)", cause(kind, code)) }
}

extension MessageQueue.Outcome: CustomStringConvertible {
    /// The verdict, and why.
    public var description: String {
        let code = engine.code == 0 ? nil : Int(engine.code)
        return list(
            engine.receipt.map { "\($0)" } ?? "\(engine.verdict)", cause(engine.verdict == .offline ? nil : .init(engine.kind), code),
            engine.text.isEmpty ? nil : engine.text
        )
    }
}

extension MessageQueue.Explanation: CustomStringConvertible {
    /// The reason and the sentences for users.
    public var description: String { "\(reason): \(text)" }
}

extension MessageQueue.Conversation: CustomStringConvertible {
    /// The name and the counts.
    public var description: String { "conversation \(String(reflecting: name)): \(counts)" }
}

extension MessageQueue.Minute: CustomStringConvertible {
    /// The beginning and the numbers.
    public var description: String {
        "\(startedAt): \(enqueued) enqueued, \(sent) sent, \(failedAttempts) failed attempts, \(failed) failed"
    }
}

extension MessageQueue.FailureGroup: CustomStringConvertible {
    /// The number of messages, and what they failed with.
    public var description: String { list("\(count) failed", cause(kind, code), text.isEmpty ? nil : text) }
}

extension MessageQueue.Waiting: CustomStringConvertible {
    /// The numbers that are not 0: "3 queued, 1 paused".
    public var description: String {
        let text = list(some(queued, "queued"), some(paused, "paused"), some(scheduled, "scheduled"), some(retrying, "retrying"))
        return text.isEmpty ? "no messages" : text
    }
}

extension MessageQueue.HandOver: CustomStringConvertible {
    /// The source and the number of entries.
    public var description: String { "source \(String(reflecting: source)): \(entries.count) handed over" }
}

extension MessageQueue.HandOver.Entry: CustomStringConvertible {
    /// The id, the size, and why it could not be kept.
    public var description: String { list("message \(String(reflecting: id))", "\(bodySize) bytes", error.map { "\($0)" }) }
}

extension MessageQueue.Change: CustomStringConvertible {
    /// The id, the conversation, and what happened.
    public var description: String {
        list(
            "message \(String(reflecting: id))", within(conversation), kind == .status ? "\(status)" : "\(kind)",
            failureKind.map { "\($0)" }, code.map { "code \($0)" })
    }
}

extension MessageQueue.ChangePage: CustomStringConvertible {
    /// The number of changes.
    public var description: String { "\(changes.count) changes" }
}

extension MessageQueue.Counts: CustomStringConvertible {
    /// The numbers that are not 0: "2 queued, 1 failed".
    public var description: String {
        let text = list(
            some(queued, "queued"), some(sending, "sending"), some(sent, "sent"), some(delivered, "delivered"), some(read, "read"),
            some(failed, "failed"), some(received, "received"), some(unread, "unread"))
        return text.isEmpty ? "no messages" : text
    }
}

extension MessageQueue.Filter: CustomStringConvertible {
    /// What the messages have in common, and the page.
    public var description: String {
        let names = MessageQueue.Status.allCases.filter(statuses.contains).map { "\($0)" }.joined(separator: " or ")
        return list(
            names, conversation.map { "conversation \(String(reflecting: $0))" }, newestFirst ? "newest first" : nil,
            after.map { "after \($0)" }, "at most \(limit)")
    }
}

extension MessageQueue.Network: CustomStringConvertible {
    /// The connectivity and the link.
    public var description: String {
        list("\(connectivity)", link == .none ? nil : "\(link)", isMetered ? "metered" : nil, offlineReason)
    }
}

extension MessageQueue.State: CustomStringConvertible {
    /// The mode, the network, and why nothing is being sent.
    public var description: String { list("mode \(mode)", "\(network)", "\(reason): \(text)") }
}

extension MessageQueue.Prompt: CustomStringConvertible {
    /// The question for the user.
    public var description: String { text }
}

extension MessageQueue.Report: CustomStringConvertible {
    /// Why the drain stopped, and the numbers that are not 0.
    public var description: String {
        list(
            "\(stop)", "\(sent) sent", some(failed, "failed"), some(discarded, "discarded"), some(remaining, "remaining"),
            some(remainingFailed, "failed remaining"))
    }
}

extension MessageQueue.Statistics: CustomStringConvertible {
    /// The numbers of messages and attempts.
    public var description: String {
        list(
            "\(enqueued) enqueued", "\(attempts) attempts", "\(sent) sent", some(retried, "retried"), some(failed, "failed"),
            some(discarded, "discarded"), some(replaced, "replaced"))
    }
}

extension MessageQueue.CheckReport: CustomStringConvertible {
    /// The findings in sentences.
    public var description: String { text }
}

extension MessageQueue.Options: CustomStringConvertible {
    /// The options that differ from their defaults: "mode: manual, maxInFlight: 4".
    public var description: String { differences(self, from: Self()) }
}

extension MessageQueue.BatchOptions: CustomStringConvertible {
    /// The options that differ from their defaults.
    public var description: String { differences(self, from: Self()) }
}

extension MessageQueue.Backoff: CustomStringConvertible {
    /// The delays.
    public var description: String {
        switch self {
        case .automatic: "automatic"
        case .ladder(let delays): "ladder \(delays)"
        case .exponential(let base, let factor, let cap): "exponential from \(base) by \(factor) to \(cap)"
        }
    }
}

extension MessageQueue.StatusChange: CustomStringConvertible {
    /// The id, the statuses, and why it failed.
    public var description: String {
        list("message \(id): \(from.map { "\($0)" } ?? "new") to \(to)", attempt.map { "attempt \($0)" }, failure.map { "\($0)" })
    }
}

extension MessageQueue.Event: CustomStringConvertible {
    /// What happened.
    public var description: String {
        switch self {
        case .status(let change): "\(change)"
        case .summary(let counts, let network): "\(counts); \(network)"
        case .connectivity(let network): "connectivity: \(network)"
        case .prompt(let prompt): "prompt: \(prompt)"
        case .promptWithdrawn: "prompt withdrawn"
        case .promptChanged(let prompt): "prompt changed: \(prompt)"
        case .collect: "collect"
        case .drainStarted(let counts): "drain started: \(counts)"
        case .drainProgress(let report): "drain: \(report)"
        case .drainFinished(let report): "drain finished: \(report)"
        case .paused(let conversation, let isPaused, let kind):
            list(isPaused ? "paused" : "resumed", conversation.map { "conversation \(String(reflecting: $0))" }, kind.map { "\($0)" })
        case .discarded(let id, _, let failure): "message \(id) discarded: \(failure)"
        case .deleted(let id, _): "message \(id) deleted"
        case .cleared(let conversation): conversation.map { "conversation \(String(reflecting: $0)) cleared" } ?? "queue cleared"
        case .storage(let error): error.map { "storage: \($0)" } ?? "the store works again"
        case .resync(let lost): "\(lost) events lost"
        case .replaced(let id, let new, _): "message \(id) replaced by \(new)"
        case .edited(let id, _): "message \(id) edited"
        }
    }
}
