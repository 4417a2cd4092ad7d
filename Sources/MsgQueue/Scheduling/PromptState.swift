/// The prompt of mode ask: when it is raised, counted again and withdrawn.
package struct PromptState {
    enum Phase { case disarmed, armed, raised }

    /// How often a prompt could be raised again, and the number of changes that the scheduler knows of, and that of the store.
    package struct Version: Equatable {
        package let armings: UInt64
        fileprivate let changes: UInt64
        fileprivate let commits: Int
    }

    /// The time between two counts, in milliseconds, so that a prompt changes at most four times a second.
    static let interval: Int64 = 250

    private let timeout: Int64
    /// Whether a yes also sends failed messages.
    package let includesFailed: Bool
    var phase = Phase.armed
    /// When the prompt that stands expires (monotonic).
    private var until: Int64 = 0
    /// The same as wall time, unless the clock was set since.
    private var end: Int64 = 0
    /// The store has read what a count needs, or no prompt is ever raised.
    private(set) var isPrepared: Bool
    private var armings: UInt64 = 0
    /// At the last step: the number of messages, and of changes of the store.
    private var queued: Int64 = 0
    private var commits = 0
    /// What was counted last; nil: nothing was.
    private var counted: Version?
    /// No count before this time (monotonic).
    private var countAt = Int64.min
    /// When the result changes although nothing else does (monotonic); nil: never.
    private var changesAt: Int64?

    init(_ options: Options) {
        (timeout, includesFailed) = (options.promptTimeout, options.promptForFailed)
        isPrepared = options.mode != .ask || options.readOnly
    }

    // MARK: Inputs

    /// A prompt may be raised again: the connection returned, or the program is in the foreground.
    mutating func arm() {
        guard phase != .raised else { return }
        phase = .armed
        armings &+= 1
        countAt = Int64.min
    }

    /// A drain also answers a prompt that is not raised yet.
    mutating func drainBegan() { if phase == .armed { phase = .disarmed } }

    mutating func raise(_ now: Moment) {
        phase = .raised
        until = now.mono + timeout
        end = now.wall.addingClamped(timeout)
    }

    mutating func withdraw() { phase = .disarmed }

    /// Ends an open prompt. The next step withdraws it.
    package mutating func dismiss(_ now: Moment) { until = min(until, now.mono) }

    /// The store has read what a count needs.
    package mutating func prepared() { isPrepared = true }

    mutating func seen(queued: Int64, commits: Int) { (self.queued, self.commits) = (queued, commits) }

    /// Notes that the messages of a prompt were counted. `changesAt`: when the result changes by itself (monotonic); `work`: how long the
    /// count took, in milliseconds. A long one is repeated less often.
    mutating func counted(_ version: Version, changesAt: Int64?, work: Int64, _ now: Moment) {
        (counted, self.changesAt) = (version, changesAt)
        miscounted(work: work, now)
    }

    /// Notes that a count came to nothing, because the queue changed meanwhile. It is repeated.
    package mutating func miscounted(work: Int64, _ now: Moment) {
        countAt = now.mono.addingClamped(max(Self.interval, min(work, Scheduler.longestSleep) * 4))
    }

    // MARK: The prompt that stands

    /// Whether a prompt is open.
    package func isAsking(_ now: Moment) -> Bool { phase == .raised && now.mono < until }

    /// When the prompt expires (monotonic); nil: none stands.
    var expiry: Int64? { phase == .raised ? until : nil }

    /// When the prompt expires, milliseconds since 1970.
    package func expiryTime(_ now: Moment) -> Int64 {
        let end = now.wall(at: until)
        // The two clocks are truncated to milliseconds: their difference may change by one.
        return end.subtractingClamped(self.end).magnitude > 2 ? end : self.end
    }

    // MARK: The next step

    /// What may change what a yes sends. `changes`: of the index of messages; `commits`: of the store.
    func version(changes: UInt64, commits: Int) -> Version { Version(armings: armings, changes: changes, commits: commits) }

    /// The withdrawal of the prompt that stands, or another count of its messages. `isRetrying`: `retryAll` sends its messages.
    func nextOfStanding(_ gate: Gate, isRetrying: Bool, changes: UInt64, _ now: Moment) -> Step? {
        guard phase == .raised else { return nil }
        // A drain of one conversation does not answer the prompt.
        let isAnswered = gate.drains.session.map { $0.conversation == nil } ?? false
        guard gate.mayStart, hasMessages, !isAnswered, now.mono < until else { return .withdrawPrompt }
        return nextCount(gate, isRetrying: isRetrying, changes: changes, now)
    }

    /// The count of the messages of the prompt that stands or may be raised, if it is due.
    func nextCount(_ gate: Gate, isRetrying: Bool, changes: UInt64, _ now: Moment) -> Step? {
        countTime(gate, isRetrying: isRetrying, changes: changes, now).flatMap { $0 <= now.mono ? .countPrompt : nil }
    }

    /// When that count is due (monotonic); nil: not before something changes.
    func countTime(_ gate: Gate, isRetrying: Bool, changes: UInt64, _ now: Moment) -> Int64? {
        // While the store refuses writes, or `retryAll` sends its messages, the last count stands.
        guard phase == .raised || mayRaise(gate, now), !gate.isStoreRefusing(now), !isRetrying else { return nil }
        guard counted == version(changes: changes, commits: commits) else { return countAt }
        return changesAt.map { max($0, countAt) }
    }

    /// Whether there are messages that a prompt may ask about.
    private var hasMessages: Bool { queued > 0 || includesFailed }

    /// Whether a prompt is raised now, if a yes would send anything.
    private func mayRaise(_ gate: Gate, _ now: Moment) -> Bool {
        gate.options.mode == .ask && phase == .armed && gate.mayStart && hasMessages && gate.drains.session == nil
            && !gate.isSettling(now) && gate.flights.underWay == 0
    }
}
