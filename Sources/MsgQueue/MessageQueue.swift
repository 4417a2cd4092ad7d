/// A durable, offline-first queue of outbound messages in one file.
///
///     let queue = try MessageQueue(path: "outbox.db") { delivery in
///         await post(delivery.body) ? .sent : .retry(.network)
///     }
///     let id = try queue.enqueue("hello", conversation: "ana")   // on disk when it returns
///     let report = try await queue.drain()                       // what is due is sent, in order
///
/// Every function may be called from any thread or task at any time. All of them throw `MessageQueue.Error`, and then nothing has changed
/// (except that after `.unknown` nobody knows: the same id may safely be enqueued again).
public final class MessageQueue: Sendable {
    public typealias Error = QueueError

    /// Sends one message. Never called for two messages of one conversation at a time. What it answers after the delivery's `timeout`
    /// counts only if it is a success and nothing was tried since. Its task is cancelled when a newer attempt of the message begins, and
    /// when the queue is closed; cancelled or not, what it answers in time is what happened.
    public typealias Transport = @Sendable (Delivery) async -> Outcome

    private let engine: Engine
    private let broadcaster = Broadcaster()
    private let senders = Senders()

    /// Opens the store in the file `path`, or makes it; its directory must be there. Without a transport messages are kept until
    /// `setTransport` gives one.
    ///
    /// Throws `.invalid`, `.permission` (a directory, a link, an unsafe place), `.locked` (another owner), `.corrupt` (not a store),
    /// `.tooNew`, `.storage`.
    public init(path: String, options: Options = Options(), transport: Transport? = nil) throws(QueueError) {
        engine = try Engine.open(path: path, options: options)
        if let transport { try setTransport(transport) }
    }

    /// A queue that nobody holds any more is closed without waiting; what was under way is found as cut by the next open.
    deinit {
        do throws(QueueError) { _ = try engine.close(timeout: 0) } catch  where error.code == .closed {} catch {
            Log.error("failed to close a deallocated queue: \(error.detail)")
        }
        broadcaster.finish()
        senders.cancel()
    }

    /// Sets what sends messages; nil takes it away.
    public func setTransport(_ transport: Transport?) throws(QueueError) {
        guard let transport else { return try engine.setTransport(nil) }
        let start: TransportFunction = { [weak engine, senders] delivery in
            senders.begin(delivery) { [weak engine] in
                var outcome = await transport(delivery)
                if outcome.verdict == .pending { outcome = .retry(.unknown, text: "the transport gave no verdict") }
                do throws(QueueError) { try engine?.complete(delivery.token, outcome) } catch {
                    Log.warning("ignored the outcome for message \(delivery.id): \(error.detail)")
                }
            }
            return .pending
        }
        try engine.setTransport(Registration(start))
    }

    // MARK: Messages in

    /// Stores one message as `queued`; when this returns its id, the message survives a power cut.
    ///
    /// Throws `.invalid`, `.duplicate` (the id is in the store), `.full`, `.tooLarge`, `.storage`, `.unknown`, `.closed`.
    @discardableResult
    public func enqueue(_ draft: Draft) throws(QueueError) -> String {
        guard let id = try enqueue([draft]).first else { throw QueueError(.internal, "no id came back") }
        return id
    }

    @discardableResult
    public func enqueue(
        _ text: String, conversation: String = "", metadata: [String: String] = [:], id: String? = nil
    ) throws(QueueError) -> String {
        try enqueue(Draft(text, conversation: conversation, metadata: metadata, id: id))
    }

    /// Stores messages in this order, all or none, and gives their ids.
    @discardableResult
    public func enqueue(_ drafts: [Draft]) throws(QueueError) -> [String] {
        // The bodies side by side, so that the engine can read them where they are.
        let bodies = drafts.flatMap(\.body)
        return try Self.borrowing(bodies) { bytes throws(QueueError) in
            var offset = 0
            let borrowed = drafts.map { draft in
                defer { offset += draft.body.count }
                return Self.lend(draft, UnsafeRawBufferPointer(rebasing: bytes[offset..<offset + draft.body.count]))
            }
            var result: Result<[String], QueueError> = .success([])
            borrowed.withUnsafeBufferPointer { drafts in
                do throws(QueueError) { result = .success(try engine.enqueue(drafts)) } catch { result = .failure(error) }
            }
            return try result.get()
        }
    }

    /// The draft with its body where the bytes are.
    private static func lend(_ draft: Draft, _ body: UnsafeRawBufferPointer) -> BorrowedDraft {
        BorrowedDraft(
            id: draft.id, conversation: Name(draft.conversation), body: body,
            metadata: draft.metadata.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }, notBefore: draft.notBefore,
            expiresAt: draft.expiresAt, unmeteredOnly: draft.unmeteredOnly)
    }

    private static func borrowing<T>(
        _ bytes: [UInt8], _ body: (UnsafeRawBufferPointer) throws(QueueError) -> T
    ) throws(QueueError) -> T {
        var result: Result<T, QueueError>?
        bytes.withUnsafeBytes { pointer in
            do throws(QueueError) { result = .success(try body(pointer)) } catch { result = .failure(error) }
        }
        guard let result else { throw QueueError(.internal, "the bytes were not lent") }
        return try result.get()
    }

    /// Puts somebody else's message into the history, so that a conversation reads whole. A second time with the same id changes nothing.
    /// Throws `.duplicate` when the id is one of our own.
    @discardableResult
    public func record(_ draft: Draft, sender: String) throws(QueueError) -> String {
        try Self.borrowing(draft.body) { bytes throws(QueueError) in try engine.record(Self.lend(draft, bytes), sender: sender) }
    }

    // MARK: One message

    /// Throws `.notFound`.
    public func message(id: String) throws(QueueError) -> Message { try engine.message(id: id) }

    /// Replaces the body of a queued or failed message; id and place stay. Throws `.notFound`, `.busy` (being sent), `.conflict` (sent).
    public func edit(_ id: String, body: [UInt8]) throws(QueueError) {
        try Self.borrowing(body) { bytes throws(QueueError) in try engine.edit(id, body: bytes) }
    }

    public func edit(_ id: String, body text: String) throws(QueueError) { try edit(id, body: Array(text.utf8)) }

    /// Removes one message for good. Throws `.notFound`, `.busy` (being sent).
    public func delete(_ id: String) throws(QueueError) { try engine.delete(id) }

    /// Tries a failed message again, now, in its old place. While offline it fails again at once as offline (modes ask and manual), or is
    /// queued, to be sent when online (mode auto). While paused it is queued in any mode, to be sent after the resume in its turn (mode auto)
    /// or by the next drain (modes ask and manual). Throws `.notFound`, `.conflict` (not failed), `.busy`, `.noTransport`, `.storage`.
    public func retry(_ id: String) throws(QueueError) { try engine.retry(id) }

    /// Sends one queued message now, whatever stands before it. While offline the attempt ends at once as offline: the message stays queued.
    /// Throws as `retry`, and `.conflict` while paused.
    public func sendNow(_ id: String) throws(QueueError) { try engine.sendNow(id) }

    /// A receipt: delivered or read. One that comes twice or late changes nothing. Throws `.notFound`, `.conflict` (not sent yet).
    public func mark(_ id: String, as receipt: MessageStatus) throws(QueueError) { try engine.mark(id, as: receipt) }

    /// The ledger of one message, oldest attempt first. Throws `.notFound`.
    public func attempts(_ id: String) throws(QueueError) -> [Attempt] { try engine.attempts(id) }

    /// Why the message is not sent yet: one reason, as a code and a sentence. Throws `.notFound`.
    public func explain(_ id: String) throws(QueueError) -> Explanation { try engine.explain(id) }

    // MARK: Many messages

    /// A page of messages in the order of sending (or newest first); the next page begins after the last one's `sequence`.
    public func list(_ filter: Filter = Filter()) throws(QueueError) -> [Message] { try engine.list(filter) }

    /// How many messages there are by status, of one conversation or of all; as fast with a million.
    public func counts(conversation: String? = nil) throws(QueueError) -> Counts { try engine.counts(conversation) }

    /// Conversations, the one with the newest message first; the next page: `before` = the last one's `last.sequence`.
    public func conversations(before: Int64 = 0, limit: Int = 50) throws(QueueError) -> [Conversation] {
        try engine.conversations(before: before, limit: limit)
    }

    /// What the queue has done since it was opened.
    public func statistics() throws(QueueError) -> Statistics { try engine.statistics().0 }

    /// One line about the queue, or about one conversation of it, for a person; "" when there is nothing to say.
    public func banner(conversation: String? = nil) throws(QueueError) -> String { try engine.banner(conversation) }

    /// The state of the queue as a whole, and why nothing is being sent now. Looks at the first 64 queued messages at most: O(1).
    public func state() throws(QueueError) -> QueueState { try engine.state() }

    /// Removes the queued and failed messages of one conversation, or of all.
    public func clear(conversation: String? = nil) throws(QueueError) { try engine.clear(conversation) }

    /// Writes a consistent copy of the store to a new file. Throws `.conflict` when that exists.
    public func backup(to path: String) throws(QueueError) { try engine.backup(to: path) }

    /// Puts all failed messages, of one conversation or of all, back to `queued` in their places, with all of their retries, and sends them
    /// in any mode; returns their number at once. While offline nothing changes in the modes ask and manual. Not atomic as a whole: after an
    /// error those put back until then are queued. Throws `.noTransport`, `.storage`.
    @discardableResult
    public func retryAll(conversation: String? = nil) throws(QueueError) -> Int64 { try engine.retryAll(conversation) }

    // MARK: Sending

    /// Sends what is due, of one conversation or of all, in order, and returns when nothing is due any more. Only one drain runs at a time: a
    /// second call joins it if it asks for no more than that, and otherwise begins its drain after it.
    ///
    /// `batch`: attempts at most (0: as the options say), without the retries that are due; `timeout`: milliseconds after which this returns what was done until then (stop
    /// `.timeout`), also when another began the drain; the drain that it begins starts no attempt after that. When the waiting task is cancelled, and when a transport
    /// asks, this returns at once, with a report that says `.started`: the drain goes on. Throws `.noTransport`, `.closed`.
    @discardableResult
    public func drain(
        conversation: String? = nil, batch: Int = 0, timeout: Int64? = nil
    ) async throws(QueueError) -> Report {
        let wait = DrainWait()
        try engine.drain(conversation, batch: batch, timeout: timeout) { wait.end(.drained($0)) }
        // The drain waits for the attempt whose transport asks for it.
        if senders.isCurrent { wait.end(.abandoned) }
        let ending = await withTaskCancellationHandler {
            await withCheckedContinuation { wait.begin($0) }
        } onCancel: {
            wait.end(.abandoned)
        }
        switch ending {
        case .drained(let result): return try result.get()
        case .abandoned: return try engine.startedReport(conversation)
        }
    }

    /// Answers nothing that the transport did not: for hosts whose transport is elsewhere. Throws `.notFound`, `.conflict`.
    public func complete(token: UInt64, _ outcome: Outcome) throws(QueueError) { try engine.complete(token, outcome) }

    /// Starts nothing more, in one conversation or at all, until `resume`. Not kept over a restart.
    public func pause(conversation: String? = nil) throws(QueueError) { try engine.pause(conversation) }

    /// Ends a pause of the same scope.
    public func resume(conversation: String? = nil) throws(QueueError) { try engine.resume(conversation) }

    /// In the background the engine sends nothing by itself, unless the options say so. Coming to the foreground is a trigger.
    public func setBackground(_ isInBackground: Bool) throws(QueueError) { try engine.setLifecycle(isInBackground: isInBackground) }

    /// Tells the engine how the world is. Throws `.conflict` while the monitor tells it.
    public func setConnectivity(_ connectivity: Connectivity, link: Link = .other, metered: Bool = false) throws(QueueError) {
        try engine.setNetwork(Network(connectivity: connectivity, link: link, metered: metered))
    }

    /// Lets the kernel tell instead, beginning with how things are now: online is a default route by a link that is up, with an address to
    /// come from; cellular counts as metered. A second time changes nothing. Throws `.permission` (a sandbox forbids it), `.storage`.
    public func startMonitor() throws(QueueError) { try engine.startMonitor() }

    /// Ends it; what was known last stays true until `setConnectivity`.
    public func stopMonitor() throws(QueueError) { try engine.stopMonitor() }

    /// What happens from now on, to each reader all of it; ends when the queue is closed. A reader that stays behind by 10,000 events loses
    /// the oldest and is told so by `.resync`.
    public var events: AsyncStream<Event> {
        let (stream, isFirst) = broadcaster.subscribe()
        guard isFirst else { return stream }
        do throws(QueueError) {
            try engine.setHandler(
                Registration({ [broadcaster] event, _ in broadcaster.tell(event) }, release: { [broadcaster] in broadcaster.finish() }))
        } catch {
            broadcaster.finish()
        }
        return stream
    }

    /// Starts nothing more, waits at most `timeout` milliseconds (nil: without end) for what is under way, and closes the store. False: an
    /// attempt had not ended; it is closed all the same. Throws `.closed`, `.conflict` (a transport asks).
    @discardableResult
    public func close(timeout: Int64? = 5_000) async throws(QueueError) -> Bool {
        if senders.isCurrent { throw QueueError(.conflict, "a queue cannot be closed by its own transport") }
        // The wait has a thread of its own: those of tasks are few, and an async transport needs them to come to its end.
        let result: Result<Bool, QueueError> = await withCheckedContinuation { continuation in
            let thread = EngineThread("msgq-close") { [self] in
                do throws(QueueError) { continuation.resume(returning: .success(try closeHere(timeout))) } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
            guard let thread else {
                return continuation.resume(returning: .failure(QueueError(.storage, "the system has no thread left to wait on")))
            }
            thread.detach()
        }
        return try result.get()
    }

    /// The same where nothing can be awaited: blocks its thread.
    @discardableResult
    public func close(timeout: Int64? = 5_000) throws(QueueError) -> Bool {
        if senders.isCurrent { throw QueueError(.conflict, "a queue cannot be closed by its own transport") }
        return try closeHere(timeout)
    }

    private func closeHere(_ timeout: Int64?) throws(QueueError) -> Bool {
        defer {
            broadcaster.finish()
            senders.cancel()
            Log.flushWhileExiting()
        }
        let closing = try engine.close(timeout: timeout)
        if case .unsaved = closing, let error = closing.error { throw error }
        return closing == .quiet
    }
}
