import MsgQueue

/// The calls of `MessageQueue`, with the same names. Each throws the same errors, and `.unknown` if the process ended during the call:
/// whether it had an effect is then unknown.
extension Simulation {
    // MARK: Inserting

    /// Stores one message as `queued` and returns its id. Throws `.invalid`, `.duplicate`, `.full`, `.tooLarge`, `.unknown`.
    @discardableResult
    public func enqueue(_ draft: MessageQueue.Draft) throws(MessageQueue.Error) -> String {
        guard let id = try enqueue([draft]).first else { throw QueueError(.internal, "enqueue returned no id") }
        return id
    }

    /// The same for a message whose body is a text, as UTF-8.
    @discardableResult
    public func enqueue(
        _ text: String, conversation: String = "", metadata: [String: String] = [:], id: String? = nil
    ) throws(MessageQueue.Error) -> String {
        try enqueue(MessageQueue.Draft(text, conversation: conversation, metadata: metadata, id: id))
    }

    /// Stores messages in this order, all or none, in one commit, and returns their ids.
    @discardableResult
    public func enqueue(_ drafts: [MessageQueue.Draft]) throws(MessageQueue.Error) -> [String] {
        let ids = try calling { engine throws(QueueError) in
            try MessageQueue.Draft.withBorrowed(drafts) { batch throws(QueueError) in try engine.enqueue(batch).ids() }
        }
        for id in ids { recorder.enqueued(id, try calling { engine throws(QueueError) in try engine.message(id: id).sequence }) }
        return ids
    }

    // MARK: One message

    /// Returns the message's status; nil: it is not in the store.
    public func status(of id: String) -> MessageQueue.Status? {
        try? calling { engine throws(QueueError) in try engine.message(id: id).status }
    }

    /// Retries a failed message, like `MessageQueue.retry`. Throws `.notFound`, `.conflict`, `.busy`, `.noTransport`, `.unknown`.
    public func retry(_ id: String) throws(MessageQueue.Error) { try calling { engine throws(QueueError) in try engine.retry(id) } }

    /// Sends one queued message now, ahead of all others. Throws the same errors as `retry`, and `.conflict` while paused.
    public func sendNow(_ id: String) throws(MessageQueue.Error) { try calling { engine throws(QueueError) in try engine.sendNow(id) } }

    /// Deletes one message. Throws `.notFound`, `.busy` (being sent), `.unknown`.
    public func delete(_ id: String) throws(MessageQueue.Error) { try calling { engine throws(QueueError) in try engine.delete(id) } }

    // MARK: Many messages

    /// Puts the failed messages of one conversation or of all back to `queued` and sends them. Returns how many. While offline nothing
    /// changes in the modes ask and manual. Throws `.noTransport`, `.unknown`.
    @discardableResult
    public func retryAll(conversation: String? = nil) throws(MessageQueue.Error) -> Int {
        Int(clamping: try calling { engine throws(QueueError) in try engine.retryAll(conversation) })
    }

    /// Deletes the queued and failed messages of one conversation or of all. Throws `.unknown`.
    public func clear(conversation: String? = nil) throws(MessageQueue.Error) {
        let before = Set(messages.filter { conversation == nil || $0.conversation == conversation }.map(\.id))
        do throws(QueueError) { try calling { engine throws(QueueError) in try engine.clear(conversation) } } catch {
            recorder.removed(before.subtracting(messages.map(\.id)))
            throw error
        }
        // Those that are being sent are deleted when their attempts end, perhaps by the recovery after a crash.
        recorder.removed(before)
    }

    // MARK: Sending

    /// Begins a drain or joins the current one, like `MessageQueue.drain`. Its result is added to `report.drains` when it ends. `batch`:
    /// the maximum number of attempts; nil: as in the options. `timeout`: nil: none. `includeFailed`: puts the failed messages back first.
    /// Throws `.invalid` (a batch below 1), `.noTransport`.
    public func drain(
        conversation: String? = nil, batch: Int? = nil, timeout: Duration? = nil, includeFailed: Bool = false
    ) throws(MessageQueue.Error) {
        if let batch, !(1...Int(Int32.max)).contains(batch) {
            throw QueueError(.invalid, "batch must be 1 to \(Int32.max) or nil for the default, got \(batch)")
        }
        _ = try calling { engine throws(QueueError) in
            try engine.drain(conversation, batch: batch ?? 0, timeout: timeout?.wholeMilliseconds, includesFailed: includeFailed) { _ in }
        }
    }

    /// Pauses one conversation or (nil) the whole queue until `resume`.
    public func pause(conversation: String? = nil) { try? calling { engine throws(QueueError) in try engine.pause(conversation) } }

    /// Ends a pause of the same scope.
    public func resume(conversation: String? = nil) { try? calling { engine throws(QueueError) in try engine.resume(conversation) } }

    // MARK: Report

    /// The messages in the store.
    private var messages: [Message] {
        var filter = Filter(statuses: .all, limit: 1_000, withoutBodies: true)
        var found: [Message] = []
        while let page = try? calling({ engine throws(QueueError) in try engine.list(filter) }), let last = page.last {
            found += page
            filter.after = last.sequence
        }
        return found
    }

    /// The report of the run so far.
    public var report: Report {
        let statuses = Dictionary(messages.map { ($0.id, $0.status) }, uniquingKeysWith: { $1 })
        let counts = (try? calling { engine throws(QueueError) in try engine.counts(nil) }) ?? Counts()
        return Report(
            time: time, attempts: recorder.attempts, statuses: statuses, counts: MessageQueue.Counts(counts), accepted: recorder.accepted,
            overtaking: recorder.overtaking, sentTwice: recorder.sentTwice, lost: recorder.lost { statuses[$0] != nil },
            drains: recorder.drains, prompts: recorder.prompts, writes: disk.commits, crashes: recorder.crashes)
    }
}
