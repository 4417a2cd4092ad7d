extension MessageQueue {
    // MARK: The queue as a whole

    /// Returns the numbers of messages by status, of one conversation or of all, in constant time.
    public func counts(conversation: String? = nil) throws(Error) -> Counts { Counts(try engine.counts(conversation)) }

    /// Returns the statistics since the queue was opened.
    public func statistics() throws(Error) -> Statistics { Statistics(try engine.statistics().0) }

    /// Returns the last hour: consecutive minutes, the oldest first, at most 60, from the first one in which something happened in this
    /// process. The last one has not ended.
    public func minutes() throws(Error) -> [Minute] { try engine.minutes().map(Minute.init) }

    /// Returns counts and statistics in the Prometheus text format 0.0.4.
    ///
    /// Each sample has the label `queue` with the path of the store.
    public func prometheus() throws(Error) -> String { try Self.prometheus(of: [self]) }

    /// Returns counts and statistics of several queues in the Prometheus text format 0.0.4, each metric once.
    ///
    /// - Throws: `.invalid` if a queue occurs twice.
    public static func prometheus(of queues: [MessageQueue]) throws(Error) -> String {
        try Metrics.prometheus(of: queues.map { $0.engine })
    }

    /// Returns one line about the queue, or about one conversation, for users; "" if nothing is queued, being sent, failed or paused.
    public func banner(conversation: String? = nil) throws(Error) -> String { try engine.banner(conversation) }

    /// Returns the state of the whole queue, and why nothing is being sent now. Reads at most the first 64 queued messages.
    public func state() throws(Error) -> State { State(try engine.state()) }

    /// Writes a consistent copy of the store to a new file.
    ///
    /// - Throws: `.conflict` if the file exists.
    public func backup(to path: String) throws(Error) { try LongReads(engine).backup(to: path) }

    // MARK: Sending

    /// Completes an attempt whose transport returned ``Outcome/pending``.
    ///
    /// May be called from any thread or task, also before the transport returned. After the attempt's time-out only a success of the latest
    /// attempt counts.
    ///
    /// - Throws: `.notFound` (no attempt of this queue), `.conflict` (completed already, or timed out), `.invalid` (`outcome` is
    ///   `.pending`), `.storage`, `.closed`.
    public func complete(_ token: Token, with outcome: Outcome) throws(Error) { try engine.complete(token.rawValue, outcome.engine) }

    /// Starts no new attempt, in one conversation or in the whole queue, until `resume`. Does not survive a restart.
    public func pause(conversation: String? = nil) throws(Error) { try engine.pause(conversation) }

    /// Ends a pause of the same scope.
    public func resume(conversation: String? = nil) throws(Error) { try engine.resume(conversation) }

    /// Answers a prompt with no: what is queued stays queued, and ``Event/promptWithdrawn`` follows. Without a prompt it does nothing.
    public func withdrawPrompt() throws(Error) { try engine.withdrawPrompt() }

    // MARK: The environment

    /// Reports that the program went to the background or came to the foreground. In the background the engine does not start sending,
    /// unless ``Options/sendInBackground`` is set; a message that is sent directly is still sent, also when its time comes. Coming to the
    /// foreground is a trigger.
    public func setBackground(_ isInBackground: Bool) throws(Error) { try engine.setLifecycle(isInBackground: isInBackground) }

    /// Reports connectivity.
    ///
    /// - Parameters:
    ///   - connectivity: Whether there is a connection.
    ///   - link: The kind of the connection; while offline it is `.none`, whatever is given.
    ///   - isMetered: Whether data is charged by its volume; see ``Options/unmeteredOnly``.
    ///   - reason: Why there is no connection, for example "connection refused by 127.0.0.1:4222". ``state()``, ``explain(_:)`` and the
    ///     event repeat it, and each change of it is a line of the log. It becomes one line of at most 255 bytes, without user names and
    ///     passwords of URLs. The text of an outcome ``Outcome/offline(reason:)`` is used in the same way. Ignored unless `connectivity`
    ///     is `.offline`.
    /// - Throws: `.conflict` while the monitor reports it.
    public func setConnectivity(
        _ connectivity: Connectivity, link: Link = .other, isMetered: Bool = false, reason: String? = nil
    ) throws(Error) {
        try engine.setNetwork(MsgQueue.Network(connectivity: connectivity, link: link, metered: isMetered, offlineReason: reason ?? ""))
    }

    /// Takes connectivity from the kernel, beginning with the present one. Online means: a default route by a link that is up and has an
    /// address. Cellular counts as metered. A second call changes nothing.
    ///
    /// - Throws: `.permission` (a sandbox forbids it), `.storage`.
    public func startMonitor() throws(Error) { try engine.startMonitor() }

    /// Stops the monitor; the last connectivity stays until `setConnectivity`.
    public func stopMonitor() throws(Error) { try engine.stopMonitor() }

    // MARK: The control socket

    /// Lets other programs of the same user, and of root, look into the queue and control it while it is open. <doc:ControlSocket>
    /// describes the protocol.
    ///
    /// - Parameter path: Of the socket; nil: the store's path with `-control` appended.
    /// - Throws: `.conflict` (started already; the path exists and is not a socket), `.locked` (another program listens there), `.invalid`
    ///   (the directory does not exist, or the name is too long), `.permission` (the place is unsafe or not writable; the queue is read-only and no path is given),
    ///   `.storage`, `.closed`.
    public func startControl(path: String? = nil) throws(Error) { try engine.startControl(path: path) }

    /// Removes the socket and disconnects the clients. Does nothing without one.
    public func stopControl() throws(Error) { try engine.stopControl() }
}
