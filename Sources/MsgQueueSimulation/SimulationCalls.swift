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
        for draft in drafts {
            try DraftRule.check(borrowed(draft), settings, wall: engine.now.wall)
            try DraftRule.check(bodySize: draft.body.count, settings)
        }
        try checkDuplicates(drafts)
        let stored = try engine.enqueue(drafts.map(entry))
        for id in engine.removing { recorder.removed(id) }
        guard let stored else { throw interrupted() }
        for entry in stored { recorder.enqueued(entry.message.id) }
        return stored.map(\.message.id)
    }

    /// The draft without its body, which is checked separately.
    private func borrowed(_ draft: MessageQueue.Draft) -> BorrowedDraft {
        var borrowed = BorrowedDraft(
            id: draft.id, conversation: Name(draft.conversation), body: UnsafeRawBufferPointer(start: nil, count: 0),
            metadata: pairs(draft), notBefore: notBefore(draft), expiresAt: expiresAt(draft), unmeteredOnly: draft.unmeteredOnly,
            replaceKey: draft.replaceKey, priority: Int32(clamping: draft.priority))
        (borrowed.delay, borrowed.expiry) = (draft.delay?.milliseconds ?? 0, draft.expiry?.milliseconds ?? 0)
        return borrowed
    }

    private func notBefore(_ draft: MessageQueue.Draft) -> Int64 { draft.notBefore?.millisecondsSince1970 ?? 0 }

    private func expiresAt(_ draft: MessageQueue.Draft) -> Int64 { draft.expiresAt?.millisecondsSince1970 ?? 0 }

    private func pairs(_ draft: MessageQueue.Draft) -> [(key: String, value: String)] {
        draft.metadata.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    private func checkDuplicates(_ drafts: [MessageQueue.Draft]) throws(MessageQueue.Error) {
        var seen = Set<Name>()
        for id in drafts.compactMap(\.id) {
            guard seen.insert(Name(id)).inserted else { throw QueueError(.duplicate, "id \(id) occurs twice in the batch") }
            guard engine.store[id] == nil else { throw QueueError(.duplicate, "id \(id) is already in the store") }
            guard !engine.store.known.contains(id) else { throw QueueError(.duplicate, "id \(id) is still remembered") }
        }
    }

    private func entry(_ draft: MessageQueue.Draft) -> SimulatedEngine.Entry {
        let now = engine.now
        let times = DraftTimes(borrowed(draft), life: settings.expiry, now)
        let key = draft.replaceKey == "" ? nil : draft.replaceKey
        let id = { [self] in draft.id ?? makeID($0) }
        return SimulatedEngine.Entry(conversation: Name(draft.conversation), key: key, id: id) { [self] message in
            message.body = draft.body
            message.metadata = pairs(draft)
            message.createdAt = now.wall
            (message.notBefore, message.expiresAt) = (times.notBefore, times.expiresAt)
            message.unmeteredOnly = draft.unmeteredOnly
            message.priority = Int32(clamping: draft.priority)
        }
    }

    // MARK: One message

    /// Returns the message's status; nil: it is not in the store.
    public func status(of id: String) -> MessageQueue.Status? {
        guard let message = engine.store[id] else { return nil }
        return engine.sendingSequences.contains(message.sequence) ? .sending : message.progress.status
    }

    /// Retries a failed message, like `MessageQueue.retry`. Throws `.notFound`, `.conflict`, `.busy`, `.noTransport`, `.unknown`.
    public func retry(_ id: String) throws(MessageQueue.Error) { try force(id, .retry, .retry) }

    /// Sends one queued message now, ahead of all others. Throws the same errors as `retry`, and `.conflict` while paused.
    public func sendNow(_ id: String) throws(MessageQueue.Error) { try force(id, .sendNow, .sendNow) }

    private func force(_ id: String, _ action: UserAction, _ hand: Hand) throws(MessageQueue.Error) {
        guard try engine.force(find(id), action, hand) != nil else { throw interrupted() }
    }

    /// Deletes one message. Throws `.notFound`, `.busy` (being sent), `.unknown`.
    public func delete(_ id: String) throws(MessageQueue.Error) {
        guard try engine.delete(find(id)) else { throw interrupted(removing: [id]) }
        recorder.removed(id)
    }

    private func find(_ id: String) throws(MessageQueue.Error) -> Int64 {
        guard let message = engine.store[id] else { throw QueueError(.notFound, "message not found: \(id)") }
        return message.sequence
    }

    /// Restarts the process, which ended during a call, and returns the error of that call.
    private func interrupted(removing ids: [String] = []) -> QueueError {
        for id in ids { recorder.removed(id) }
        restart()
        return QueueError(.unknown, "the process ended during the call")
    }

    // MARK: Many messages

    /// Puts the failed messages of one conversation or of all back to `queued` and sends them. Returns how many. While offline nothing
    /// changes in the modes ask and manual. Throws `.noTransport`, `.unknown`.
    @discardableResult
    public func retryAll(conversation: String? = nil) throws(MessageQueue.Error) -> Int {
        guard hasTransport else { throw QueueError(.noTransport, "no transport is set") }
        let count = engine.retryAll(conversation.map { Name($0) }).count
        if engine.isDown { throw interrupted() }
        return count
    }

    /// Deletes the queued and failed messages of one conversation or of all. Throws `.unknown`.
    public func clear(conversation: String? = nil) throws(MessageQueue.Error) {
        let unsent = engine.store.all.filter { conversation == nil || $0.conversation.text == conversation }
        let ids = Dictionary(unsent.map { ($0.sequence, $0.id) }, uniquingKeysWith: { first, _ in first })
        guard let removed = engine.clear(conversation.map { Name($0) }) else { throw interrupted(removing: Array(ids.values)) }
        for sequence in removed { if let id = ids[sequence] { recorder.removed(id) } }
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
        guard hasTransport else { throw QueueError(.noTransport, "no transport is set") }
        _ = engine.scheduler.drain(
            conversation.map { Name($0) }, batch: batch ?? 0, timeout: timeout?.wholeMilliseconds, includesFailed: includeFailed,
            engine.now)
    }

    /// Pauses one conversation or (nil) the whole queue until `resume`.
    public func pause(conversation: String? = nil) { _ = engine.scheduler.pause(conversation.map { Name($0) }, engine.now) }

    /// Ends a pause of the same scope.
    public func resume(conversation: String? = nil) { _ = engine.core.resume(conversation.map { Name($0) }, engine.now) }

    // MARK: Report

    /// The report of the run so far.
    public var report: Report {
        let sending = engine.sendingSequences
        var statuses: [String: MessageQueue.Status] = [:]
        var counts = Counts()
        for message in engine.store.all {
            let status = sending.contains(message.sequence) ? .sending : message.progress.status
            statuses[message.id] = status
            counts.add(status, amount: 1, bytes: Int64(message.body.count))
        }
        return Report(
            time: time, attempts: recorder.attempts, statuses: statuses, counts: MessageQueue.Counts(counts), accepted: recorder.accepted,
            overtaking: recorder.overtaking, sentTwice: recorder.sentTwice, lost: recorder.lost { statuses[$0] != nil },
            drains: recorder.drains, prompts: recorder.prompts, writes: engine.writes, crashes: recorder.crashes)
    }
}
