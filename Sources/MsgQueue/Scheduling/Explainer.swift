/// The queued messages that an explanation reads: those of the store, or of a sample.
package protocol QueuedMessages {
    /// Queued messages after this sequence, in order.
    func queued(after sequence: Int64, limit: Int) throws(QueueError) -> [(conversation: Name, head: Head)]
    /// Queued messages of the conversation after this sequence, in order.
    func queued(in conversation: Name, after sequence: Int64, limit: Int) throws(QueueError) -> [Head]
}

/// Explains why a message is not sent yet, and predicts what happens when its wait ends.
///
/// A prediction asks the scheduler's own conditions again at the time at which the wait ends, so that a text promises an attempt only if
/// that attempt is made. It assumes that nothing but time passes.
package struct Explainer<Queue: QueuedMessages> {
    /// As things are now.
    private let present: MessageReasons
    private let queue: Queue
    /// Messages that count as `sending`.
    private let sending: Set<Int64>
    private let shared = SharedReads()

    /// The waits of one message that can follow one another: its two times and three holds. One more ends the search.
    private static var longestChain: Int { 6 }
    /// The most messages of a conversation that are examined before one that waits for the connection, or that was put back.
    private static var examinedAhead: Int { 256 }

    package init(_ scheduler: Scheduler, _ queue: Queue, sending: Set<Int64>, _ now: Moment) {
        (present, self.queue, self.sending) = (MessageReasons(scheduler, now), queue, sending)
    }

    private var now: Moment { present.now }

    /// A reason, and the message that the explained one waits for.
    private struct Cause {
        var reason: Explanation.Reason
        var until: Int64 = 0
        var holder: Int64?
        var isEnding = false
        var isSkipped = false

        var isTimed: Bool { reason.isTimed }
    }

    package struct Answer {
        package let wait: Wait
        /// While offline: what the message waits for once the connection has returned.
        package let connected: Wait?
        /// The message that goes first, or that failed and blocks this one.
        package let holder: Int64?

        /// Of a damaged message.
        package static var failed: Answer { Answer(wait: Wait(reason: .failed), connected: nil, holder: nil) }
    }

    package func explain(_ row: Row) throws(QueueError) -> Answer {
        let cause = try self.cause(row, present, isAssumed: false)
        if cause.reason == .next, let found = ahead(of: row) {
            var wait = try wait(after: cause, row, present)
            wait.ahead = found.ahead
            return Answer(wait: wait, connected: nil, holder: found.sequence)
        }
        guard cause.reason == .offline else {
            return Answer(wait: try wait(after: cause, row, present), connected: nil, holder: cause.holder)
        }
        return Answer(wait: Wait(reason: .offline), connected: try waitWhenConnected(row), holder: nil)
    }

    /// What happens when the wait of a queued message ends that starts neither now nor behind another.
    func wait(_ reason: Explanation.Reason, until: Int64, _ head: Head, _ conversation: Name) throws(QueueError) -> Wait {
        let isSkipped = reason == .retrying && present.isSkipped(head, conversation)
        return try wait(after: Cause(reason: reason, until: until, isSkipped: isSkipped), head, conversation, present)
    }

    /// The messages of other conversations that go before this one, which may start now.
    private func ahead(of row: Row) -> (ahead: Wait.Ahead, sequence: Int64)? {
        // Those that a person asked for do not wait for others.
        guard row.progress.status == .queued, !present.scheduler.requests.contains(row.sequence),
            !present.isInRound(row.head, row.conversation)
        else { return nil }
        return present.ahead(of: row.head, row.conversation)
    }

    // MARK: The reason

    /// `isAssumed`: the state or the time is not the present one.
    private func cause(_ row: Row, _ reasons: MessageReasons, isAssumed: Bool = true) throws(QueueError) -> Cause {
        if sending.contains(row.sequence) { return Cause(reason: .sending) }
        switch row.progress.status {
        case .sent, .delivered, .read: return Cause(reason: .done)
        case .sending: return Cause(reason: .sending)
        case .failed:
            // A manual retry that has not started yet waits like a queued message.
            guard reasons.scheduler.requests.contains(row.sequence) else { return Cause(reason: .failed) }
        case .queued: break
        }
        return try cause(row.head, row.conversation, reasons, isAssumed: isAssumed)
    }

    private func cause(_ head: Head, _ conversation: Name, _ reasons: MessageReasons, isAssumed: Bool = true) throws(QueueError) -> Cause {
        let flights = reasons.scheduler.gate.flights.values.filter { $0.conversation == conversation }
        // The attempt timed out or has an outcome, but its call has not returned.
        if flights.contains(where: { $0.sequence == head.sequence }) { return Cause(reason: .sending, isEnding: true) }
        var holder = flights.map(\.sequence).min()
        if holder == nil {
            if reasons.isInRound(head, conversation) {
                holder = try firstInRound(head, conversation, reasons)
            } else {
                holder = try isAssumed ? firstHolder(head, conversation, reasons) : presentHolder(head, conversation)
            }
        }
        let (reason, until) = reasons.explain(head, conversation, holder: holder)
        switch reason {
        case .behind: return Cause(reason: reason, until: until, holder: holder)
        case .blocked: return Cause(reason: reason, until: until, holder: reasons.scheduler.block(of: conversation))
        case .retrying: return Cause(reason: reason, until: until, isSkipped: reasons.isSkipped(head, conversation))
        default: return Cause(reason: reason, until: until)
        }
    }

    /// The first queued message before this one that blocks the conversation.
    private func firstHolder(_ head: Head, _ conversation: Name, _ reasons: MessageReasons) throws(QueueError) -> Int64? {
        var (after, deferred): (Int64, Int) = (0, 0)
        while true {
            let page = try queue.queued(in: conversation, after: after, limit: 64)
            for other in page {
                if other.sequence >= head.sequence { return nil }
                // A message that expires until then is gone, unless it blocks the conversation.
                if other.hasExpired(reasons.now), !other.hasExpired(now), !reasons.scheduler.gate.blocksOnFailure { continue }
                if reasons.holds(other, after: &deferred) { return other.sequence }
            }
            guard page.count == 64, let last = page.last else { return nil }
            after = last.sequence
        }
    }

    /// The first message of the conversation that the round sends before this one, as far as the round and the first messages of the
    /// conversation show.
    private func firstInRound(_ head: Head, _ conversation: Name, _ reasons: MessageReasons) throws(QueueError) -> Int64? {
        if let pick = reasons.scheduler.round?.firstPick(of: conversation, before: head.sequence) { return pick }
        let page = try queue.queued(in: conversation, after: 0, limit: Self.examinedAhead)
        return page.first { $0.sequence < head.sequence && reasons.isInRound($0, conversation) }?.sequence
    }

    /// The same as `firstHolder` as things are now. Explanations of several messages share the search.
    private func presentHolder(_ head: Head, _ conversation: Name) throws(QueueError) -> Int64? {
        var search = shared.searches.removeValue(forKey: conversation) ?? SharedReads.Search()
        defer { shared.searches[conversation] = search }
        while search.holder == nil {
            guard let next = search.heads.first else {
                guard !search.isAtEnd else { return nil }
                // Mostly the first message blocks its conversation.
                let limit = search.after == 0 ? 2 : 64
                let page = try queue.queued(in: conversation, after: search.after, limit: limit)
                (search.heads, search.isAtEnd) = (page[...], page.count < limit)
                continue
            }
            guard next.sequence < head.sequence else { return nil }
            search.heads.removeFirst()
            search.after = next.sequence
            if present.holds(next, after: &search.deferred) { search.holder = next.sequence }
        }
        return search.holder.flatMap { $0 < head.sequence ? $0 : nil }
    }

    // MARK: The prediction

    private func wait(after cause: Cause, _ row: Row, _ reasons: MessageReasons) throws(QueueError) -> Wait {
        try wait(after: cause, row.head, row.conversation, reasons)
    }

    private func wait(after cause: Cause, _ head: Head, _ conversation: Name, _ reasons: MessageReasons) throws(QueueError) -> Wait {
        let isInTurn = try !isWithinRun(head, reasons)
        guard cause.isTimed else {
            let after = cause.reason == .storage ? reasons.afterStorage(head, conversation) : .next
            // Others may use up the run of the batch that waits for more messages, except for what is sent without a run.
            let until = cause.reason == .next && isInTurn && !reasons.scheduler.startsUnasked(head, conversation) ? 0 : cause.until
            return Wait(reason: cause.reason, until: until, after: after, isInTurn: isInTurn, isEnding: cause.isEnding)
        }
        let isInRound = reasons.isInRound(head, conversation)
        var cause = cause
        if cause.reason == .rate { return waitForRate(until: cause.until, head, isInTurn: isInTurn) }
        for _ in 0..<Self.longestChain {
            let then = Moment(wall: cause.until, mono: now.mono.addingClamped(cause.until.subtractingClamped(now.wall)))
            let later = reasons.assuming(then, inRound: isInRound)
            let next = try self.cause(head, conversation, later)
            if next.isTimed, next.until > cause.until {
                if next.reason == .rate { return waitForRate(until: next.until, head, isInTurn: isInTurn) }
                cause = next
                continue
            }
            var wait = Wait(reason: cause.reason, until: cause.until, isInTurn: isInTurn, isSkipped: cause.isSkipped)
            wait.after = try after(cause, next, head, conversation, later)
            if wait.after == .next {
                let isPermitted = try isWithinRate(head, later)
                if !isPermitted { wait.after = .rate }
            }
            // A drain ends the holds that no receiver requested.
            wait.earliest = cause.reason == .holding ? reasons.earliestStart(head, conversation) : cause.until
            let expiry = head.expiry(now)
            if expiry != 0, expiry <= cause.until { (wait.after, wait.expiresAt) = (.expired, expiry) }
            return wait
        }
        return Wait(reason: cause.reason, until: cause.until, after: .person, isInTurn: isInTurn, isSkipped: cause.isSkipped)
    }

    /// What follows at the end of a wait for a time, where the message has the reason `next` then.
    private func after(
        _ cause: Cause, _ next: Cause, _ head: Head, _ conversation: Name, _ later: MessageReasons
    ) throws(QueueError) -> Explanation.Reason {
        switch next.reason {
        case .next:
            if later.scheduler.startsUnasked(head, conversation) { return .next }
            if head.isRetry, later.scheduler.isLoaded(head.sequence, conversation) { return .next }
            // The end of a hold renews the budget; until another time, any message may use it up.
            let isSure =
                try cause.reason == .holding
                ? isWithin(later.scheduler.gate.budget, head, later) : hasAtMost(later.scheduler.gate.budget, head)
            return isSure ? .next : .trigger
        case .trigger, .behind, .blocked, .metered: return next.reason
        // The store is only looked at: the program that sends does it then.
        case .noTransport: return .next
        default: return .person
        }
    }

    /// What a message waits for once the connection has returned.
    private func waitWhenConnected(_ row: Row) throws(QueueError) -> Wait {
        let connected = present.assumingOnline(row.head)
        let cause = try self.cause(row, connected)
        let isInTurn = try !isWithinRun(row.head, connected)
        switch cause.reason {
        case .behind:
            let (own, until) = connected.explain(row.head, row.conversation, holder: nil)
            if own.isTimed { return try wait(after: Cause(reason: own, until: until), row, connected) }
            guard own == .next, let isSure = try areSentFirst(row, connected) else { return Wait(reason: .behind) }
            // While the one before it is sent, others of other conversations may use up the batch.
            let limit = connected.scheduler.gate.flights.slots == 1 ? Int.max : connected.scheduler.gate.options.runLimit
            let isAlone = try hasAtMost(limit, row.head)
            let isFirst = isAlone && !isInTurn
            return Wait(reason: isFirst ? .next : .trigger, isInTurn: !isFirst || !isSure)
        case .next where isInTurn && !row.head.isRetry && !connected.scheduler.startsUnasked(row.head, row.conversation):
            return Wait(reason: .trigger, isInTurn: true)
        default: return try wait(after: cause, row, connected)
        }
    }

    /// Whether every message before this one in its conversation is sent now; nil: one is not; false: there are too many to examine.
    private func areSentFirst(_ row: Row, _ connected: MessageReasons) throws(QueueError) -> Bool? {
        if connected.scheduler.gate.flights.values.contains(where: { $0.conversation == row.conversation }) { return nil }
        let page = try queue.queued(in: row.conversation, after: 0, limit: Self.examinedAhead)
        var deferred = 0
        for head in page where head.sequence < row.sequence && connected.holds(head, after: &deferred) {
            guard connected.explain(head, row.conversation, holder: nil).reason == .next else { return nil }
        }
        return page.count < Self.examinedAhead || page.last.map { $0.sequence >= row.sequence } ?? true
    }

    /// The wait for the next attempt that the rate permits, of this or of another message.
    private func waitForRate(until: Int64, _ head: Head, isInTurn: Bool) -> Wait {
        var wait = Wait(
            reason: .rate, until: until, earliest: until, isInTurn: isInTurn, pace: PaceText(present.scheduler.gate.flights.pace))
        let expiry = head.expiry(now)
        if expiry != 0, expiry <= until { (wait.after, wait.expiresAt) = (.expired, expiry) }
        return wait
    }

    // MARK: Batches and rates

    /// Whether a run of the queue that begins now starts the message at once: it is among the first, as far as a batch limits runs, and
    /// the rate permits it.
    private func isWithinRun(_ head: Head, _ reasons: MessageReasons) throws(QueueError) -> Bool {
        guard try isWithin(reasons.scheduler.gate.options.runLimit, head, reasons) else { return false }
        return try isWithinRate(head, reasons)
    }

    /// Whether the rate certainly permits the message at this time, even if every other one is attempted before.
    private func isWithinRate(_ head: Head, _ reasons: MessageReasons) throws(QueueError) -> Bool {
        guard let pace = reasons.scheduler.gate.flights.pace else { return true }
        guard pace.isOpen(at: reasons.now.mono) else { return false }
        // A success after an outage restarts the ramp.
        let permitted = pace.hasRamp ? 1 : Int(min(pace.available(at: reasons.now.mono).rounded(), Double(Scheduler.scanChunk)))
        return try hasAtMost(permitted - reasons.scheduler.requests.count, head)
    }

    /// Whether fewer than `limit` queued messages may go before this one, as far as one chunk shows.
    private func isWithin(_ limit: Int, _ head: Head, _ reasons: MessageReasons) throws(QueueError) -> Bool {
        guard limit != Int.max else { return true }
        let (others, counted) = try self.others(limit, head)
        return others.count { reasons.scheduler.lanes.mayPrecede($0, head) } < counted
    }

    /// Whether fewer than `limit` other messages are queued, as far as one chunk shows.
    private func hasAtMost(_ limit: Int, _ head: Head) throws(QueueError) -> Bool {
        guard limit != Int.max else { return true }
        let (others, counted) = try self.others(limit, head)
        return others.count < counted
    }

    /// The first queued messages other than this one and those being sent, and how many of them are counted: `limit`, or one chunk.
    private func others(_ limit: Int, _ head: Head) throws(QueueError) -> (sequences: [Int64], counted: Int) {
        let counted = min(limit, Scheduler.scanChunk)
        guard counted > 0 else { return ([], 0) }
        let first = try shared.first(queue, counted + sending.count + 1)
        return (first.map(\.head.sequence).filter { $0 != head.sequence && !sending.contains($0) }, counted)
    }
}

/// What explanations of several messages read only once. The queue does not change meanwhile.
private final class SharedReads {
    /// The search for the first message of a conversation that blocks it.
    struct Search {
        var holder: Int64?
        /// Messages up to this one do not block it.
        var after: Int64 = 0
        /// The number of those that are deferred.
        var deferred = 0
        /// The next ones.
        var heads: ArraySlice<Head> = []
        var isAtEnd = false
    }

    var searches: [Name: Search] = [:]
    private var first: (limit: Int, rows: [(conversation: Name, head: Head)])?

    /// Returns the first queued messages.
    func first(_ queue: some QueuedMessages, _ limit: Int) throws(QueueError) -> [(conversation: Name, head: Head)] {
        if let first, first.limit == limit { return first.rows }
        let rows = try queue.queued(after: 0, limit: limit)
        first = (limit, rows)
        return rows
    }
}
