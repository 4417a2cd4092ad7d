/// The messages that a person retries together. They are on disk with the round's number, among all that is queued; here are the next few.
struct Round {
    /// So many are known at most ...
    static let window = 256
    /// ... and so many of the queued messages are looked at in one go before others have their turn.
    static let seeksInARow = 16

    struct Pick {
        let conversation: Name
        let sequence: Int64
    }

    let number: UInt32
    /// The last of them.
    private(set) var through: Int64
    private(set) var picks: [Pick] = []
    /// Queued messages up to this sequence have been looked at, for those of the round.
    private(set) var soughtThrough: Int64 = 0
    private var seeks = 0
    /// Monotonic.
    private(set) var restsUntil: Int64 = 0
    /// Conversations whose messages do not go with the round any more: one before them waits for its turn or its retry.
    private var held: Set<Name> = []
    /// Of these, those where it comes back by its timer: the rest goes on after it.
    private var returning: Set<Name> = []
    /// Messages of paused conversations were passed over.
    private var hasSetAside = false

    init(_ number: UInt32, through: Int64) { (self.number, self.through) = (number, through) }

    var isComplete: Bool { soughtThrough >= through }
    /// Nothing of it is left to send.
    var isOver: Bool { isComplete && picks.isEmpty && !hasSetAside && returning.isEmpty }
    /// It has something to send without a resume.
    var isBusy: Bool { !isComplete || !picks.isEmpty || !returning.isEmpty }
    var needsMore: Bool { !isComplete && picks.count < Self.window / 2 }

    /// More messages were put back, the first of them in this place.
    mutating func extend(from sequence: Int64, through: Int64) {
        self.through = max(self.through, through)
        if sequence <= soughtThrough { seekAgain() }
    }

    mutating func seekAgain() { (picks, soughtThrough, seeks, held, returning, hasSetAside) = ([], 0, 0, [], [], false) }

    mutating func sought(through sequence: Int64, complete: Bool, _ now: Moment) {
        soughtThrough = complete ? Int64.max : sequence
        seeks = picks.isEmpty ? seeks + 1 : 0
        guard seeks >= Self.seeksInARow else { return }
        seeks = 0
        restsUntil = now.mono + 1
    }

    mutating func add(_ sequence: Int64, _ conversation: Name) { picks.append(Pick(conversation: conversation, sequence: sequence)) }

    func isHeld(_ conversation: Name) -> Bool { held.contains(conversation) }

    mutating func hold(_ conversation: Name) { held.insert(conversation) }

    /// The same until the message that comes back by its timer is sent, or will not be.
    mutating func holdForReturn(_ conversation: Name) {
        hold(conversation)
        returning.insert(conversation)
    }

    /// No message of the conversation comes back any more.
    mutating func returned(_ conversation: Name) {
        if returning.contains(conversation) { seekAgain() }
    }

    /// A message of the conversation holds those behind it.
    mutating func hold(_ conversation: Name, behind sequence: Int64) {
        if sequence <= soughtThrough { hold(conversation) }
        picks.removeAll { $0.conversation == conversation && $0.sequence > sequence }
    }

    /// The conversation is paused: its messages wait for the resume, and keep no others.
    mutating func setAside(_ conversation: Name) {
        hasSetAside = true
        picks.removeAll { $0.conversation == conversation }
    }

    mutating func remove(_ sequence: Int64) { picks.removeAll { $0.sequence == sequence } }

    mutating func cleared(_ conversation: Name?) {
        picks.removeAll { conversation == nil || $0.conversation == conversation }
        returning = conversation.map { returning.subtracting([$0]) } ?? []
    }
}

extension Scheduler {
    /// Failed messages were put back together, up to this sequence; of each conversation the first of them. They go without any other
    /// leave while there is a connection, in their order; what was queued already is no part of it.
    package mutating func putBack(_ first: [Name: Int64], round number: UInt32, through: Int64, _ now: Moment) {
        for (conversation, sequence) in first { reload(conversation, from: sequence, now) }
        guard network.isOnline, let from = first.values.min() else { return }
        if round == nil { round = Round(number, through: through) } else { round?.extend(from: from, through: through) }
    }

    /// The number under which more messages join what a person retries together already.
    package var roundNumber: UInt32? { round?.number }

    /// What is known of a conversation from this place on is read anew.
    private mutating func reload(_ conversation: Name, from sequence: Int64, _ now: Moment) {
        // Where the scan has not been, it will find them.
        guard lanes[conversation] != nil || scanComplete || sequence <= scannedThrough else { return }
        withLane(conversation, now) { lane in
            lane.upcoming.removeAll { $0.sequence >= sequence }
            lane.deferred.removeAll { $0.sequence >= sequence }
            lane.last = min(lane.last, sequence - 1)
            lane.more = true
        }
    }

    /// The first message of the round that may go; reads on in the store for more of them.
    mutating func nextOfRound(_ now: Moment) -> Step? {
        // A drain that is about to end does so first.
        guard let round, session?.isOpen ?? true else { return nil }
        if round.isOver {
            self.round = nil
            return nil
        }
        guard now.mono >= limitedUntil else { return nil }
        var passed = Set<Name>()
        for pick in round.picks where passed.insert(pick.conversation).inserted {
            if let block = blocks[pick.conversation], block < pick.sequence {
                self.round?.hold(pick.conversation, behind: block)
            } else if lanes[pick.conversation]?.flight == nil {
                return .start(conversation: pick.conversation, sequence: pick.sequence, hand: .retryAll)
            }
        }
        guard round.needsMore, now.mono >= round.restsUntil else { return nil }
        return .seek(after: round.soughtThrough, limit: Self.scanChunk)
    }

    /// Whether a queued message goes with the round.
    func isInRound(_ head: Head, _ conversation: Name, _ now: Moment) -> Bool {
        guard let round, head.round == round.number else { return false }
        if round.picks.contains(where: { $0.sequence == head.sequence }) { return true }
        return head.sequence > round.soughtThrough && !round.isHeld(conversation) && !isKept(head, now)
    }

    /// Whether it does, but another of its conversation before it.
    func isBehindInRound(_ head: Head, _ conversation: Name) -> Bool {
        round?.picks.contains { $0.conversation == conversation && $0.sequence < head.sequence } ?? false
    }

    /// Queued messages behind the last ones looked at, in order; `complete`: there are none behind them.
    package mutating func sought(_ rows: [(conversation: Name, head: Head)], complete: Bool, _ now: Moment) {
        guard var round else { return }
        for (conversation, stored) in rows where stored.sequence <= round.through && !round.isHeld(conversation) {
            if flight(of: stored.sequence, in: conversation) != nil { continue }
            let head = anchored(stored)
            if isKept(head, now) { continue }
            if head.round != round.number {
                // In mode auto it goes before them by itself; otherwise it holds them only while it waits for its retry.
                if lanes[conversation]?.asked.contains(head.sequence) == true {
                    round.holdForReturn(conversation)
                } else if mode == .auto || head.retryWait(now) > 0 {
                    round.hold(conversation)
                }
            } else if pausedConversations.contains(conversation) {
                round.setAside(conversation)
            } else {
                round.add(head.sequence, conversation)
            }
        }
        round.sought(through: rows.last?.head.sequence ?? round.soughtThrough, complete: complete, now)
        self.round = round
    }
}
