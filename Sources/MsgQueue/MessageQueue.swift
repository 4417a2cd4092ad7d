/// A durable, offline-first queue of outbound messages in one file.
///
/// Open one with a path and a transport, ``enqueue(_:conversation:metadata:id:)`` messages, and ``drain(conversation:batch:timeout:includeFailed:)`` what
/// is due; see <doc:GettingStarted>.
///
/// Every function may be called from any thread or task at any time. Functions throw ``MessageQueue/Error``. A call that threw changed
/// nothing, unless its description says otherwise; after `.unknown` the result is not known, and the same id may safely be enqueued again.
///
/// Close a queue with ``close(timeout:)``. A queue that is deallocated without it is closed without waiting.
public final class MessageQueue: Sendable {
    /// Sends one message and returns the outcome.
    ///
    /// It is never called for two messages of one conversation at a time. An outcome that comes after the attempt's time-out counts only if
    /// it is a success and no newer attempt was made. The task is cancelled when a newer attempt of the message begins and when the queue
    /// is closed; an outcome that comes in time counts also after a cancellation.
    ///
    /// An error that it throws is a failure, never a success: an `EncodingError` means that the message cannot be prepared for sending, so
    /// that it fails for good with kind ``FailureKind/local``; any other error is a failure of kind ``FailureKind/unknown``, and is retried.
    public typealias Transport = @Sendable (Delivery) async throws -> Outcome

    let engine: Engine
    private let broadcaster = Broadcaster()
    let senders = Senders()
    let enqueueing = OnDemandThread("msgq-enqueue", EnqueueCall.perform)
    /// Reads of tasks that wait for changes.
    let readings = OnDemandThread<@Sendable () -> Void>("msgq-read") { for read in $0 { read() } }
    /// Serializes subscriptions, so that none returns before the first one has registered the event handler with the engine.
    private let subscribing = Mutex()

    /// Opens the store in the file `path`, or creates it; the directory must exist. Without a transport messages are kept until
    /// `setTransport` sets one. With ``Options/wait`` it blocks its thread while another owner has the store open.
    ///
    /// - Throws: `.invalid` (an option, a path), `.permission` (a directory, a link, an unsafe place), `.locked` (another owner),
    ///   `.corrupt` (not a store), `.tooNew`, `.storage`.
    public convenience init(path: String, options: Options = Options(), transport: Transport? = nil) throws(Error) {
        try self.init(engine: try Engine.open(path: path, options: try options.checked()), transport: transport)
    }

    /// For tests with a virtual clock.
    init(engine: Engine, transport: Transport?) throws(Error) {
        self.engine = engine
        if let transport { try setTransport(transport) }
    }

    deinit {
        do throws(Error) { _ = try engine.close(timeout: 0) } catch  where error.code == .closed {} catch {
            Log.error("failed to close a deallocated queue: \(error.detail)")
        }
        broadcaster.finish()
        senders.cancel()
    }

    /// Sets the function that sends messages; nil removes it.
    public func setTransport(_ transport: Transport?) throws(Error) {
        guard let transport else { return try engine.setTransport(nil) }
        let start: TransportFunction = { [weak engine, senders] delivery in
            senders.begin([delivery]) {
                await MsgQueue.Outcome.catching { try await transport(Delivery(delivery)).engine }
            } complete: { [weak engine] outcome in
                guard outcome.verdict != .pending else { return }
                do throws(Error) { try engine?.complete(delivery.token, outcome) } catch {
                    Log.warning("ignored the outcome for message \(delivery.id): \(error.detail)")
                }
            }
            return .pending
        }
        try engine.setTransport(Registration(start, returnsAtOnce: true))
    }

    // MARK: Events

    /// The events from now on. Every call makes a subscriber of its own, registered when the call returns: it receives every event of what
    /// is done after that, however late it begins to iterate.
    ///
    /// The stream ends when the queue is closed. A subscriber that falls 10,000 events behind loses the oldest and receives `.resync` with
    /// their number.
    public var events: AsyncStream<Event> {
        subscribing.withLock {
            let (reader, isFirst) = broadcaster.subscribe()
            if isFirst {
                do throws(Error) {
                    try engine.setHandler(
                        Registration(
                            { [broadcaster] event, _ in broadcaster.publish(event) }, release: { [broadcaster] in broadcaster.finish() }))
                } catch {
                    broadcaster.finish()
                }
            }
            return reader.stream { Event($0) }
        }
    }

    // MARK: Draining and closing

    /// Sends what is due, of one conversation or of all, in order, and returns when nothing is due any more.
    ///
    /// Only one drain runs at a time: a second call joins it if it asks for no more than that, and otherwise begins its drain after it.
    /// When the waiting task is cancelled, and when a transport calls it, it returns at once with a report that says `.started`: the drain
    /// goes on.
    ///
    /// - Parameters:
    ///   - conversation: Only the messages of this conversation; nil: of all.
    ///   - batch: Attempts at most, without the retries that are due: 1 to 2147483647; nil: as ``Options/drainBatch`` says.
    ///   - timeout: After this time it returns what was done until then (stop `.timeout`), also when another call began the drain. The
    ///     drain starts no attempt after the latest timeout of the calls that joined it. nil: no limit.
    ///   - includeFailed: First puts the failed messages back to `queued`, in their places and with all of their retries, and sends them
    ///     with the others. While offline or paused they stay `failed`.
    /// - Throws: `.noTransport`, `.invalid`, `.closed`.
    @discardableResult
    public func drain(
        conversation: String? = nil, batch: Int? = nil, timeout: Duration? = nil, includeFailed: Bool = false
    ) async throws(Error) -> Report {
        if let batch, batch < 1 { throw Error(.invalid, "batch must be positive, or nil for the option drainBatch, got \(batch)") }
        let wait = TaskWait<Result<MsgQueue.Report, Error>>()
        try engine.drain(conversation, batch: batch ?? 0, timeout: timeout?.milliseconds, includesFailed: includeFailed) { wait.end($0) }
        // A transport cannot wait for the drain, because the drain waits for the transport's attempt.
        if senders.isCurrent { wait.abandon() }
        guard let result = await wait.value() else { return Report(try engine.startedReport(conversation)) }
        return Report(try result.get())
    }

    /// Starts no new attempt, waits for those in flight, and closes the store.
    ///
    /// - Parameter timeout: How long to wait at most; nil: no limit.
    /// - Returns: false if an attempt had not ended; the queue is closed nevertheless.
    /// - Throws: `.closed`, `.conflict` (called by a transport). After these the queue is closed: `.storage` (outcomes of attempts are not
    ///   saved), `.unknown` (a file of the store was removed, replaced or modified; accepted messages may be lost).
    @discardableResult
    public func close(timeout: Duration? = .seconds(5)) async throws(Error) -> Bool {
        try refuseOwnTransport()
        // The wait blocks a thread of its own, because async transports need the few threads of the task pool to end.
        let result: Result<Bool, Error> = await withCheckedContinuation { continuation in
            let thread = EngineThread("msgq-close") { [self] in
                do throws(Error) { continuation.resume(returning: .success(try finish(timeout))) } catch {
                    continuation.resume(returning: .failure(error))
                }
            }
            guard let thread else {
                return continuation.resume(returning: .failure(Error(.storage, "failed to create a thread")))
            }
            thread.detach()
        }
        return try result.get()
    }

    /// Closes the queue as `close(timeout:)` does, and blocks the calling thread.
    @available(*, noasync, message: "use close(timeout:)")
    @discardableResult
    public func syncClose(timeout: Duration? = .seconds(5)) throws(Error) -> Bool {
        try refuseOwnTransport()
        return try finish(timeout)
    }

    private func refuseOwnTransport() throws(Error) {
        if senders.isCurrent { throw Error(.conflict, "a queue cannot be closed by its own transport") }
    }

    private func finish(_ timeout: Duration?) throws(Error) -> Bool {
        defer {
            broadcaster.finish()
            senders.cancel()
            Log.flushWhileExiting()
        }
        let closing = try engine.close(timeout: timeout?.milliseconds)
        if let error = closing.error, closing != .timedOut { throw error }
        return closing == .complete
    }
}
