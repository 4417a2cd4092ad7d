/// The messages that one `retryAll` put back. The store marks them with the round's number; this value holds the next few of them.
package struct Round {
    /// The maximum length of `picks`.
    static let window = 256
    /// The number of reads in a row without a result, after which the round pauses for other work.
    static let seeksInARow = 16

    struct Pick {
        let conversation: Name
        let sequence: Int64
    }

    package let number: UInt32
    /// The last sequence of the round.
    private(set) var through: Int64
    private(set) var picks: [Pick] = []
    /// Queued messages up to this sequence have been read, in search of those of the round.
    private(set) var soughtThrough: Int64 = 0
    private var seeks = 0
    /// No read before this time (monotonic).
    private(set) var resumesAt: Int64 = 0
    /// Conversations blocked by a message before those of the round, which waits for its turn or its retry.
    private var held: Set<Name> = []
    /// Those of `held` where that message is retried by timer.
    private var retried: Set<Name> = []
    /// Those of `retried` with messages of the round, which continues after the retry.
    private var returning: Set<Name> = []
    /// Messages of paused conversations were skipped.
    private var hasSkipped = false
    /// The messages that the transport skipped, by conversation and sequence, and until when they wait (monotonic).
    private var delays: [Name: [Int64: Int64]] = [:]

    init(_ number: UInt32, through: Int64) { (self.number, self.through) = (number, through) }

    var isComplete: Bool { soughtThrough >= through }
    /// No message of the round is left to send.
    var isOver: Bool { isComplete && picks.isEmpty && !hasSkipped && returning.isEmpty && delays.isEmpty }
    /// It has messages to send, and waits for nothing before them.
    var isSending: Bool { !isComplete || !picks.isEmpty }
    var needsMore: Bool { !isComplete && picks.count < Self.window / 2 }

    /// Adds messages that another `retryAll` put back, from `sequence` on.
    mutating func extend(from sequence: Int64, through: Int64) {
        self.through = max(self.through, through)
        if sequence <= soughtThrough { restart() }
    }

    mutating func restart() {
        (picks, soughtThrough, seeks, held, retried, returning, hasSkipped) = ([], 0, 0, [], [], [], false)
    }

    /// Lets a message that the transport skipped wait, and those of its conversation behind it; others continue.
    mutating func delay(_ conversation: Name, at sequence: Int64, until: Int64) { delays[conversation, default: [:]][sequence] = until }

    /// The first skipped message of the conversation, for which those behind it wait, and until when.
    func delay(of conversation: Name) -> (sequence: Int64, until: Int64)? {
        delays[conversation]?.min { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    /// Until when this message waits because the transport skipped it; nil: it does not.
    func delay(of sequence: Int64, in conversation: Name) -> Int64? { delays[conversation]?[sequence] }

    /// The same for all messages of the conversation.
    func delays(in conversation: Name) -> [Int64: Int64] { delays[conversation] ?? [:] }

    /// When the next of these waits ends.
    var delayEnd: Int64? { delays.values.lazy.compactMap { $0.values.min() }.min() }

    /// Ends the waits that are over, so that these conversations are read again.
    mutating func endDelays(_ now: Moment) {
        if let end = delayEnd, end <= now.mono { endDelays { _, _, until in until <= now.mono } }
    }

    private mutating func endDelays(where isOver: (Name, Int64, Int64) -> Bool) {
        let before = delays.values.reduce(0) { $0 + $1.count }
        for (conversation, own) in delays {
            let left = own.filter { !isOver(conversation, $0.key, $0.value) }
            delays[conversation] = left.isEmpty ? nil : left
        }
        if delays.values.reduce(0, { $0 + $1.count }) < before { restart() }
    }

    func hasPick(of conversation: Name) -> Bool { picks.contains { $0.conversation == conversation } }

    func isHeld(_ conversation: Name) -> Bool { held.contains(conversation) }

    mutating func hold(_ conversation: Name) { held.insert(conversation) }

    /// Holds the conversation until the message that is retried by timer is sent or has failed.
    mutating func holdForRetry(_ conversation: Name) {
        hold(conversation)
        retried.insert(conversation)
    }

    /// Notes a message of the round in a conversation that is held.
    mutating func noteHeld(_ conversation: Name) { if retried.contains(conversation) { returning.insert(conversation) } }

    /// Ends the hold for a retry, if messages of the round wait for it.
    mutating func retryEnded(_ conversation: Name) {
        if returning.contains(conversation) { restart() }
    }

    /// Holds the messages of the conversation after `sequence`. `isRetried`: that message is retried by timer.
    mutating func hold(_ conversation: Name, behind sequence: Int64, isRetried: Bool = false) {
        if isRetried { holdForRetry(conversation) } else if sequence <= soughtThrough { hold(conversation) }
        let before = picks.count
        picks.removeAll { $0.conversation == conversation && $0.sequence > sequence }
        if picks.count < before { noteHeld(conversation) }
    }

    /// Skips the conversation while it is paused; others continue.
    mutating func skipPaused(_ conversation: Name) {
        hasSkipped = true
        picks.removeAll { $0.conversation == conversation }
    }

    /// Removes a message that starts or is no longer queued. Those that waited behind it, because it was skipped, are read again.
    mutating func remove(_ sequence: Int64, of conversation: Name) {
        picks.removeAll { $0.sequence == sequence }
        if delay(of: sequence, in: conversation) != nil { endDelays { _, other, _ in other == sequence } }
    }

    mutating func cleared(_ conversation: Name?) {
        picks.removeAll { conversation == nil || $0.conversation == conversation }
        retried = conversation.map { retried.subtracting([$0]) } ?? []
        returning.formIntersection(retried)
        endDelays { name, _, _ in conversation == nil || name == conversation }
    }

    // MARK: The next messages

    /// The start of the first message that may be sent, or a read of more of them.
    mutating func next(_ lanes: LaneIndex, _ gate: Gate, _ now: Moment) -> Step? {
        guard !gate.isHeldByReceiver(now) else { return nil }
        var passed = Set<Name>()
        for pick in picks where passed.insert(pick.conversation).inserted {
            if gate.isBlocked(pick.sequence, pick.conversation), let block = gate.blocks[pick.conversation] {
                hold(pick.conversation, behind: block)
            } else if lanes[pick.conversation].map({ gate.isFree($0) }) ?? true {
                return .start(conversation: pick.conversation, sequence: pick.sequence, hand: .retryAll)
            }
        }
        guard needsMore, now.mono >= resumesAt else { return nil }
        return .seek(after: max(soughtThrough, gate.pauses.clearedThrough), limit: Scheduler.scanChunk)
    }

    /// Whether the round sends this queued message.
    func sends(_ head: Head, _ conversation: Name, _ gate: Gate, _ now: Moment) -> Bool {
        guard head.round == number else { return false }
        if let delay = delay(of: conversation), head.sequence >= delay.sequence { return !gate.isDeferred(head, now) }
        if picks.contains(where: { $0.sequence == head.sequence }) { return true }
        return head.sequence > soughtThrough && !isHeld(conversation) && !gate.isDeferred(head, now)
    }

    /// The first message of the conversation that is known to be sent, if it is before this one.
    func firstPick(of conversation: Name, before sequence: Int64) -> Int64? {
        picks.first { $0.conversation == conversation && $0.sequence < sequence }?.sequence
    }

    /// Takes the queued messages after the last ones read, in order. `complete`: there are no more.
    mutating func sought(_ rows: [(conversation: Name, head: Head)], complete: Bool, _ lanes: LaneIndex, _ gate: Gate, _ now: Moment) {
        for (conversation, stored) in rows where stored.sequence <= through {
            let lane = lanes[conversation] ?? Lane()
            if gate.flights.flight(of: stored.sequence, in: lane) != nil || stored.sequence <= gate.pauses.clearedThrough(conversation) {
                continue
            }
            if let delay = delay(of: conversation), stored.sequence >= delay.sequence { continue }
            if isHeld(conversation) {
                if stored.round == number { noteHeld(conversation) }
                continue
            }
            let head = gate.withMonotonicDue(stored)
            if gate.isDeferred(head, now) { continue }
            if head.round != number {
                // In mode auto it is sent first anyway. In other modes it blocks the round only while it waits for its retry.
                if lane.approved.contains(head.sequence) {
                    holdForRetry(conversation)
                } else if gate.options.mode == .auto || head.retryWait(now) > 0 {
                    hold(conversation)
                }
            } else if gate.pauses.conversations.contains(conversation) {
                skipPaused(conversation)
            } else {
                picks.append(Pick(conversation: conversation, sequence: head.sequence))
            }
        }
        soughtThrough = complete ? Int64.max : rows.last?.head.sequence ?? soughtThrough
        seeks = picks.isEmpty ? seeks + 1 : 0
        guard seeks >= Self.seeksInARow else { return }
        seeks = 0
        resumesAt = now.mono + 1
    }
}
