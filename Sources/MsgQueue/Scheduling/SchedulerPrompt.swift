/// The prompt of mode ask: when it is raised, counted again and withdrawn.
extension Scheduler {
    /// The time between two counts, in milliseconds, so that a prompt changes at most four times a second.
    static let promptInterval: Int64 = 250

    /// How often a prompt could be raised again, and the number of changes that the scheduler knows of, and that of the store.
    package struct PromptVersion: Equatable {
        package fileprivate(set) var armings: UInt64 = 0
        fileprivate var changes: UInt64 = 0
        fileprivate var commits = 0
    }

    /// What may have changed since the messages of a prompt were counted.
    struct PromptWatch {
        /// The store has read what a count needs, or no prompt is ever raised.
        var isPrepared: Bool
        private(set) var version = PromptVersion()
        private(set) var queued: Int64 = 0
        /// What was counted last; nil: nothing was.
        private var counted: PromptVersion?
        /// No count before this time (monotonic).
        private(set) var countAt = Int64.min
        /// When the result changes although nothing else does (monotonic); nil: never.
        private(set) var changesAt: Int64?

        init(_ options: Options) { isPrepared = options.mode != .ask || options.readOnly }

        mutating func changed() { version.changes &+= 1 }

        mutating func armed() {
            version.armings &+= 1
            countAt = Int64.min
        }

        mutating func seen(queued: Int64, commits: Int) { (self.queued, version.commits) = (queued, commits) }

        mutating func counted(_ version: PromptVersion, changesAt: Int64?, again countAt: Int64) {
            counted = version
            (self.changesAt, self.countAt) = (changesAt, countAt)
        }

        mutating func postponed(until countAt: Int64) { self.countAt = countAt }

        var isCurrent: Bool { counted == version }
    }

    /// A prompt may be raised again: the connection returned, or the program is in the foreground.
    mutating func armPrompt() {
        guard prompt != .raised else { return }
        prompt = .armed
        promptWatch.armed()
    }

    /// The withdrawal of the prompt that stands, or another count of its messages.
    func nextOfStandingPrompt(_ now: Moment) -> Step? {
        guard prompt == .raised else { return nil }
        // A drain of one conversation does not answer the prompt.
        let stands = gate.mayStart && hasPromptMessages && (session == nil || session?.conversation != nil) && now.mono < promptUntil
        guard stands else { return .withdrawPrompt }
        return isCountDue(now) ? .countPrompt : nil
    }

    /// Whether there are messages that a prompt may ask about.
    private var hasPromptMessages: Bool { promptWatch.queued > 0 || promptsForFailed }

    /// Whether a prompt is raised now, if a yes would send anything.
    func mayPrompt(_ now: Moment) -> Bool {
        gate.mode == .ask && prompt == .armed && gate.mayStart && hasPromptMessages && session == nil && round?.isBusy != true
            && !gate.isSettling(now)
            && flights.underWay == 0
    }

    /// The store has read what a count needs.
    package mutating func promptPrepared() { promptWatch.isPrepared = true }

    func isCountDue(_ now: Moment) -> Bool {
        // While the store refuses writes, or `retryAll` sends its messages, the last count stands.
        guard !gate.isStoreRefusing(now), round?.isBusy != true, now.mono >= promptWatch.countAt else { return false }
        return !promptWatch.isCurrent || promptWatch.changesAt.map { $0 <= now.mono } ?? false
    }

    /// When the messages of a prompt must be counted (monotonic); nil: not before something changes.
    func nextCount(_ now: Moment) -> Int64? {
        guard prompt == .raised || mayPrompt(now), !gate.isStoreRefusing(now), round?.isBusy != true else { return nil }
        guard promptWatch.isCurrent else { return promptWatch.countAt }
        return promptWatch.changesAt.map { max($0, promptWatch.countAt) }
    }

    /// What may change what a yes sends. `commits`: the number of changes of the store.
    package func promptVersion(commits: Int) -> PromptVersion {
        var version = promptWatch.version
        version.commits = commits
        return version
    }

    // MARK: Changes

    /// Notes that the messages of a prompt were counted. `changesAt`: when the result changes by itself (monotonic); `work`: how long the
    /// count took, in milliseconds. A long one is repeated less often.
    mutating func promptCounted(_ version: PromptVersion, changesAt: Int64?, work: Int64, _ now: Moment) {
        promptWatch.counted(version, changesAt: changesAt, again: countTime(after: work, now))
    }

    /// Notes that a count came to nothing, because the queue changed meanwhile. It is repeated.
    mutating func promptMiscounted(work: Int64, _ now: Moment) { promptWatch.postponed(until: countTime(after: work, now)) }

    private func countTime(after work: Int64, _ now: Moment) -> Int64 {
        now.mono.addingClamped(max(Self.promptInterval, min(work, Self.longestSleep) * 4))
    }

    /// Notes the new size of a message.
    package mutating func edited(_ sequence: Int64, _ conversation: Name, bodySize: Int64) {
        guard let place = lanes.index(forKey: conversation) else { return }
        lanes.values[place].edited(sequence, bodySize: bodySize)
    }

    mutating func promptRaised(_ now: Moment) {
        prompt = .raised
        promptUntil = now.mono + promptTimeout
        promptEnd = now.wall.addingClamped(promptTimeout)
    }

    package mutating func promptWithdrawn() { prompt = .disarmed }

    /// Ends an open prompt. The next step withdraws it.
    package mutating func dismissPrompt(_ now: Moment) { promptUntil = min(promptUntil, now.mono) }

    /// Whether a prompt is open.
    package func isAsking(_ now: Moment) -> Bool { prompt == .raised && now.mono < promptUntil }

    /// When the prompt expires, milliseconds since 1970.
    package func promptExpiry(_ now: Moment) -> Int64 {
        let end = now.wall(at: promptUntil)
        // The two clocks are truncated to milliseconds: their difference may change by one.
        return end.subtractingClamped(promptEnd).magnitude > 2 ? end : promptEnd
    }
}
