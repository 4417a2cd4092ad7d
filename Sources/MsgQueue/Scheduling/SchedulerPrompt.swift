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
        let stands = mayStart && hasPromptMessages && (session == nil || session?.conversation != nil) && now.mono < promptUntil
        guard stands else { return .withdrawPrompt }
        return isCountDue(now) ? .countPrompt : nil
    }

    /// Whether there are messages that a prompt may ask about.
    private var hasPromptMessages: Bool { promptWatch.queued > 0 || promptsForFailed }

    /// Whether a prompt is raised now, if a yes would send anything.
    func mayPrompt(_ now: Moment) -> Bool {
        mode == .ask && prompt == .armed && mayStart && hasPromptMessages && session == nil && round?.isBusy != true && !isSettling(now)
            && underWay == 0
    }

    /// The store has read what a count needs.
    package mutating func promptPrepared() { promptWatch.isPrepared = true }

    func isCountDue(_ now: Moment) -> Bool {
        // While the store refuses writes, or `retryAll` sends its messages, the last count stands.
        guard !isStoreRefusing(now), round?.isBusy != true, now.mono >= promptWatch.countAt else { return false }
        return !promptWatch.isCurrent || promptWatch.changesAt.map { $0 <= now.mono } ?? false
    }

    /// When the messages of a prompt must be counted (monotonic); nil: not before something changes.
    func nextCount(_ now: Moment) -> Int64? {
        guard prompt == .raised || mayPrompt(now), !isStoreRefusing(now), round?.isBusy != true else { return nil }
        guard promptWatch.isCurrent else { return promptWatch.countAt }
        return promptWatch.changesAt.map { max($0, promptWatch.countAt) }
    }

    /// What may change what a yes sends. `commits`: the number of changes of the store.
    package func promptVersion(commits: Int) -> PromptVersion {
        var version = promptWatch.version
        version.commits = commits
        return version
    }

    // MARK: What a yes sends

    /// What a drain that reaches an unsent message does.
    enum Fate {
        case sends
        /// It leaves the message, and goes on with those behind it.
        case passes
        /// The same, because a condition of its own defers the message: at most `Lane.deferredCeiling` of a conversation.
        case defers
        /// It sends nothing more of the conversation now.
        case stops
    }

    /// `includesFailed`: failed messages, which may block later ones, were put back before.
    func fate(of head: Head, _ conversation: Name, includesFailed: Bool = false, _ now: Moment) -> Fate {
        if flight(of: head.sequence, in: conversation) != nil { return .passes }
        if head.hasExpired(now) { return blocksOnFailure ? .stops : .passes }
        if isDeferred(head, now) { return .defers }
        if !includesFailed, isBlocked(head.sequence, conversation) { return .stops }
        return head.wait(now) > 0 ? .stops : .sends
    }

    /// An unsent message. With the option `prompt_for_failed` a yes also sends failed ones, which it puts back before.
    package struct Unsent {
        package let conversation: Name
        package let head: Head
        package let isFailed: Bool

        package init(_ conversation: Name, _ head: Head, isFailed: Bool = false) {
            (self.conversation, self.head, self.isFailed) = (conversation, head, isFailed)
        }
    }

    /// How far a yes comes in each conversation, while its messages are examined in order.
    package struct Reach {
        /// The conversations of which it sends nothing more.
        private(set) var stopped: Set<Name> = []
        private var deferred: [Name: Int] = [:]

        package init() {}

        package var isStopped: Bool { !stopped.isEmpty }

        fileprivate mutating func stop(_ conversation: Name) { stopped.insert(conversation) }

        /// Notes a deferred message. If there are too many, it blocks its conversation.
        fileprivate mutating func passDeferred(in conversation: Name) {
            if !Lane.passesOver(&deferred[conversation, default: 0]) { stop(conversation) }
        }
    }

    /// How what a yes sends of a conversation is counted.
    package enum Share {
        /// It sends nothing of it.
        case nothing
        /// All but single messages.
        case most
        /// One message after another, because one may stop those behind it.
        case inOrder
    }

    /// `retries`: those of its messages that wait for a retry; `deferred`: the most messages of it that may be deferred.
    package func share(of conversation: Name, retries: [Int64: Head], deferred: Int64, _ now: Moment) -> Share {
        if isLeft(conversation) { return .nothing }
        if Self.mayBlock(deferred: deferred + (isStrict ? 0 : Int64(retries.count))) { return .inOrder }
        if let head = lanes[conversation]?.upcoming.first, head.wait(now) > 0, !isDeferred(head, now) { return .inOrder }
        if blocks[conversation] != nil, !promptsForFailed { return .inOrder }
        return isStrict && retries.contains { withMonotonicDue($0.value).retryWait(now) > 0 } ? .inOrder : .most
    }

    /// Whether so many deferred messages of a conversation may block those behind them.
    package static func mayBlock(deferred: Int64) -> Bool { deferred > Int64(Lane.deferredCeiling) }

    /// Whether a yes sends nothing of the conversation.
    private func isLeft(_ conversation: Name) -> Bool {
        if pausedConversations.contains(conversation) || session?.conversation == conversation { return true }
        if flights.values.contains(where: { $0.isHung && $0.conversation == conversation }) { return true }
        // Those that are not read yet may start without it.
        return lanes[conversation]?.hasUnreadSelfStarting ?? false
    }

    /// The conversations of which a yes may send less than the sums of the store say.
    package var unusualConversations: Set<Name> {
        var names = pausedConversations
        for name in lanes.keys { names.insert(name) }
        for flight in flights.values { names.insert(flight.conversation) }
        if !promptsForFailed { for name in blocks.keys { names.insert(name) } }
        if let conversation = session?.conversation { names.insert(conversation) }
        return names
    }

    /// Returns those of these messages, in order, that a yes sends and that do not start without it. `reach`: how far it comes with the
    /// messages before these.
    package func sentByYes(_ messages: [Unsent], _ reach: inout Reach, _ now: Moment) -> [Unsent] {
        messages.filter { message in
            let conversation = message.conversation
            guard !reach.stopped.contains(conversation), !isLeft(conversation) else { return false }
            let head = message.isFailed ? putBack(message.head, now) : known(message.head, conversation)
            switch fate(of: head, conversation, includesFailed: promptsForFailed, now) {
            case .sends: return message.isFailed || !startsUnasked(head, conversation)
            case .passes: break
            case .defers: reach.passDeferred(in: conversation)
            case .stops: reach.stop(conversation)
            }
            return false
        }
    }

    /// Whether a yes sends this message, if nothing stops its conversation before.
    package func isSentByYes(_ message: Unsent, _ now: Moment) -> Bool {
        var reach = Reach()
        return !sentByYes([message], &reach, now).isEmpty
    }

    /// The known messages of the conversation that start without a yes.
    package func selfStarting(in conversation: Name) -> [Head] {
        guard let lane = lanes[conversation], lane.hasSelfStarting else { return [] }
        return (lane.upcoming + lane.deferred).filter { startsUnasked($0, conversation) }
    }

    /// Whether a yes would send nothing at all now.
    package func sendsNothing(_ now: Moment) -> Bool {
        !mayStart || isHeldByReceiver(now) || isMeteredForAll
    }

    /// When the receiver's delay of the whole queue ends (monotonic); nil: there is none.
    package func holdEnd(_ now: Moment) -> Int64? { receiverHold(now) }

    /// How long the message waits for its schedule or its retry, in milliseconds.
    package func expectedWait(_ stored: Head, _ now: Moment) -> Int64 { withMonotonicDue(stored).wait(now) }

    /// A failed message as it will be put back (`OutcomeRule.putBack`).
    private func putBack(_ stored: Head, _ now: Moment) -> Head {
        var head = stored
        (head.due, head.waitsForNetwork) = (Due(), false)
        if head.hasExpired(now) { head.expiresAt = 0 }
        return head
    }

    /// The stored message with what only the scheduler knows of it.
    private func known(_ stored: Head, _ conversation: Name) -> Head {
        if let lane = lanes[conversation] {
            for head in lane.upcoming + lane.deferred where head.sequence == stored.sequence { return head }
        }
        return withMonotonicDue(stored)
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
}
