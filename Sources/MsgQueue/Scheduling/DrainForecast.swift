/// What a drain would send now, in a state of the scheduler and at a time: what a prompt counts. It begins with a yes to the prompt.
package struct DrainForecast {
    let scheduler: Scheduler
    let now: Moment

    package init(_ scheduler: Scheduler, _ now: Moment) { (self.scheduler, self.now) = (scheduler, now) }

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
    func fate(of head: Head, _ conversation: Name, includesFailed: Bool = false) -> Fate {
        if scheduler.flight(of: head.sequence, in: conversation) != nil { return .passes }
        if head.hasExpired(now) { return scheduler.gate.blocksOnFailure ? .stops : .passes }
        if scheduler.gate.isDeferred(head, now) { return .defers }
        if !includesFailed, scheduler.gate.isBlocked(head.sequence, conversation) { return .stops }
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
    package func share(of conversation: Name, retries: [Int64: Head], deferred: Int64) -> Share {
        if isLeft(conversation) { return .nothing }
        if Self.mayBlock(deferred: deferred + (scheduler.gate.options.strictOrder ? 0 : Int64(retries.count))) { return .inOrder }
        if let head = scheduler.lanes[conversation]?.upcoming.first, head.wait(now) > 0, !scheduler.gate.isDeferred(head, now) {
            return .inOrder
        }
        if scheduler.gate.blocks[conversation] != nil, !scheduler.prompt.includesFailed { return .inOrder }
        return scheduler.gate.options.strictOrder && retries.contains { scheduler.gate.withMonotonicDue($0.value).retryWait(now) > 0 }
            ? .inOrder : .most
    }

    /// Whether so many deferred messages of a conversation may block those behind them.
    package static func mayBlock(deferred: Int64) -> Bool { deferred > Int64(Lane.deferredCeiling) }

    /// Whether a yes sends nothing of the conversation.
    private func isLeft(_ conversation: Name) -> Bool {
        if scheduler.gate.pauses.conversations.contains(conversation) || scheduler.session?.conversation == conversation { return true }
        if scheduler.gate.flights.values.contains(where: { $0.isHung && $0.conversation == conversation }) { return true }
        return mayStartUnread(conversation)
    }

    /// Whether messages of the conversation that are not read yet may start without a yes.
    func mayStartUnread(_ conversation: Name) -> Bool {
        guard let lane = scheduler.lanes[conversation], lane.hasUnreadSelfStarting else { return false }
        return !needsYes(lane.last.addingClamped(1), lane, conversation)
    }

    /// Whether the message starts without a yes, when its time has come.
    func startsWithoutYes(_ sequence: Int64, _ conversation: Name) -> Bool {
        guard let lane = scheduler.lanes[conversation], lane.startsUnasked(sequence) else { return false }
        return !needsYes(sequence, lane, conversation)
    }

    /// Whether only a yes sends what is before this place of the conversation: a message that does not start without it, or a failed one that
    /// blocks those behind it.
    private func needsYes(_ sequence: Int64, _ lane: Lane, _ conversation: Name) -> Bool {
        scheduler.gate.isBlocked(sequence, conversation)
            || lane.upcoming.contains { head in
                guard head.sequence < sequence, !lane.startsUnasked(head.sequence) else { return false }
                return fate(of: head, conversation, includesFailed: scheduler.prompt.includesFailed) == .sends
            }
    }

    /// The conversations of which a yes may send less than the sums of the store say.
    package var unusualConversations: Set<Name> {
        var names = scheduler.gate.pauses.conversations
        for (name, lane) in scheduler.lanes.byName where lane.flight != nil || lane.hasSelfStarting { names.insert(name) }
        for flight in scheduler.gate.flights.values { names.insert(flight.conversation) }
        if !scheduler.prompt.includesFailed { for name in scheduler.gate.blocks.keys { names.insert(name) } }
        if let conversation = scheduler.session?.conversation { names.insert(conversation) }
        return names
    }

    /// Returns those of these messages, in order, that a yes sends and that do not start without it. `reach`: how far it comes with the
    /// messages before these.
    package func sentByYes(_ messages: [Unsent], _ reach: inout Reach) -> [Unsent] {
        messages.filter { message in
            let conversation = message.conversation
            guard !reach.stopped.contains(conversation), !isLeft(conversation) else { return false }
            let head = message.isFailed ? putBack(message.head) : known(message.head, conversation)
            switch fate(of: head, conversation, includesFailed: scheduler.prompt.includesFailed) {
            case .sends: return message.isFailed || !startsWithoutYes(head.sequence, conversation)
            case .passes: break
            case .defers: reach.passDeferred(in: conversation)
            case .stops: reach.stop(conversation)
            }
            return false
        }
    }

    /// Whether a yes sends this message, if nothing stops its conversation before.
    package func isSentByYes(_ message: Unsent) -> Bool {
        var reach = Reach()
        return !sentByYes([message], &reach).isEmpty
    }

    /// The known messages of the conversation that may start without a yes.
    package func selfStarting(in conversation: Name) -> [Head] {
        guard let lane = scheduler.lanes[conversation], lane.hasSelfStarting else { return [] }
        return (lane.upcoming + lane.deferred).filter { lane.startsUnasked($0.sequence) }
    }

    /// When the next message of the conversation that the transport skipped no longer waits (monotonic); nil: none waits.
    package func nextSkipEnd(in conversation: Name) -> Int64? {
        guard let lane = scheduler.lanes[conversation], lane.hasSkipped else { return nil }
        return (lane.upcoming + lane.deferred).lazy.compactMap(\.skippedUntil).filter { $0 > now.mono }.min()
    }

    /// Whether a yes would send nothing at all now.
    package var sendsNothing: Bool {
        !scheduler.gate.mayStart || scheduler.gate.isHeldByReceiver(now) || scheduler.gate.isMeteredForAll
    }

    /// A failed message as it will be put back (`OutcomeRule.putBack`).
    private func putBack(_ stored: Head) -> Head {
        var head = stored
        (head.due, head.waitsForNetwork) = (Due(), false)
        if head.hasExpired(now) { head.expiresAt = 0 }
        return head
    }

    /// The stored message with what only the scheduler knows of it.
    private func known(_ stored: Head, _ conversation: Name) -> Head {
        if let lane = scheduler.lanes[conversation] {
            for head in lane.upcoming + lane.deferred where head.sequence == stored.sequence { return head }
        }
        return scheduler.gate.withMonotonicDue(stored)
    }
}
