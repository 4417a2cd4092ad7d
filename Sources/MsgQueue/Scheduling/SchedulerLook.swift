/// What the first queued messages of the store say of the whole queue. Without leave the scheduler itself does not know them.
package struct Look {
    /// So many are looked at, however many are queued.
    package static let limit = 64

    /// In order.
    package let rows: [(conversation: Name, head: Head)]
    /// There are no more.
    package var isComplete: Bool { rows.count < Self.limit }

    package init(_ rows: [(conversation: Name, head: Head)]) { self.rows = rows }
}

extension Scheduler {
    /// Whether a wait of the whole queue is only true when a message is ready for it.
    package func needsLook(_ wait: Wait) -> Bool {
        switch wait.reason {
        case .person, .trigger: true
        case .holding: network.isOnline && !isPaused
        default: false
        }
    }

    /// The wait of the whole queue, made true by the first queued messages: without `look`, which cannot always be had, and where that
    /// does not show all, it says less.
    package func wait(_ wait: Wait, _ look: Look?, _ now: Moment) -> Wait {
        guard let look else { return wait }
        let told = tell(look, now)
        var result = wait
        let ready = told.reasons[wait.reason] ?? 0
        if ready > 0 {
            result.count = look.isComplete ? ready : nil
            if wait.reason == .trigger, defaultBatch > 0, ready > Int64(defaultBatch) { result.count = nil }
            return result
        }
        if told.reasons[.next] != nil { return Wait(reason: .next) }
        guard look.isComplete else {
            // It is not known whether there is anything to say yes to.
            if wait.reason == .person { result.count = 0 }
            return result
        }
        // A limit that is told also when nothing is queued.
        if look.rows.isEmpty { return result }
        if let soonest = told.soonest { return soonest }
        for reason in [Explanation.Reason.paused, .blocked, .metered, .expired, .sending] where told.reasons[reason] != nil {
            return Wait(reason: reason)
        }
        return result
    }

    /// How many of the messages have each reason, those behind one of their conversation with its reason; and what is due first.
    private func tell(_ look: Look, _ now: Moment) -> (reasons: [Explanation.Reason: Int64], soonest: Wait?) {
        var reasons: [Explanation.Reason: Int64] = [:]
        var soonest: Wait?
        var holders: [Name: (sequence: Int64, reason: Explanation.Reason)] = [:]
        for (conversation, head) in look.rows {
            let holder = holders[conversation]
            var (reason, until) = explain(head, conversation, holder: holder?.sequence, now)
            if reason == .behind { reason = holder?.reason ?? .sending }
            if holder == nil, holds(head, now) { holders[conversation] = (head.sequence, reason) }
            reasons[reason, default: 0] += 1
            guard holder == nil, [.retrying, .scheduled, .holding].contains(reason) else { continue }
            if soonest.map({ until < $0.until }) ?? true { soonest = wait(reason, until: until, head.sequence, conversation) }
        }
        return (reasons, soonest)
    }

    /// How many of the first queued messages go now, one after the other, without those in flight.
    package func going(_ look: Look, _ now: Moment) -> Int64 {
        guard look.isComplete, mayStart, now.mono >= storageUntil else { return 0 }
        var stopped = pausedConversations
        for flight in flights.values where flight.isHung { stopped.insert(flight.conversation) }
        var count = 0
        for (conversation, stored) in look.rows where !stopped.contains(conversation) {
            let head = anchored(stored)
            if flight(of: head.sequence, in: conversation) != nil || isKept(head, now) { continue }
            let isHeld = head.hasExpired(now) || (blocks[conversation] ?? Int64.max) < head.sequence
            if isHeld || !hasLeave(now, in: conversation) { continue }
            if head.wait(now) > 0 { stopped.insert(conversation) } else { count += 1 }
        }
        if let session { return Int64(session.batch == 0 ? count : min(count, max(0, session.batch - session.started))) }
        return Int64(min(count, budget))
    }
}
