/// The first queued messages of the store, from which the state of the whole queue is explained. The scheduler's own index does not contain
/// a backlog that may not be sent.
package struct QueueSample {
    /// The maximum number of messages in a sample.
    package static let limit = 64

    /// In order of sequence.
    package let rows: [(conversation: Name, head: Head)]
    /// The sample contains every queued message.
    package var isComplete: Bool { rows.count < Self.limit }

    package init(_ rows: [(conversation: Name, head: Head)]) { self.rows = rows }
}

extension QueueSample: QueuedMessages {
    package func queued(after sequence: Int64, limit: Int) -> [(conversation: Name, head: Head)] {
        Array(rows.lazy.filter { $0.head.sequence > sequence }.prefix(limit))
    }

    package func queued(in conversation: Name, after sequence: Int64, limit: Int) -> [Head] {
        Array(rows.lazy.filter { $0.conversation == conversation && $0.head.sequence > sequence }.map(\.head).prefix(limit))
    }
}

extension Scheduler {
    /// Whether the reason is only correct if a message is ready, so that a sample is needed.
    package func needsSample(_ wait: Wait) -> Bool {
        switch wait.reason {
        case .next, .person, .trigger, .retrying, .scheduled, .blocked: true
        case .paused: !isPaused
        case .metered: !unmeteredOnly
        case .holding: network.isOnline && !isPaused
        default: false
        }
    }

    /// Corrects the wait of the whole queue by a sample. Without a sample (the store could not be read), or if it is not complete, the
    /// result says less.
    package func wait(_ wait: Wait, _ sample: QueueSample?, _ now: Moment) -> Wait {
        guard let sample else { return wait }
        let found = reasons(of: sample, now)
        var result = wait
        if wait.reason != .next, found.reasons[.next] != nil { return Wait(reason: .next) }
        let ready = found.reasons[wait.reason] ?? 0
        let isSpecific = wait.reason.isTimed || [.paused, .blocked, .metered].contains(wait.reason)
        if ready > 0, !isSpecific || !sample.isComplete {
            if wait.reason.isTimed, wait.after == .next, let rate = rateWait(now), rate.until > wait.until { return rate }
            result.count = sample.isComplete ? ready : nil
            if wait.reason == .trigger, defaultBatch > 0, ready > Int64(defaultBatch) { result.count = nil }
            return result
        }
        if found.reasons[.rate] != nil, let wait = rateWait(now) { return wait }
        guard sample.isComplete else {
            // It is unknown whether a message is ready to be sent.
            if wait.reason == .person { result.count = 0 }
            return result
        }
        // Some reasons are reported even if nothing is queued.
        if sample.rows.isEmpty { return result }
        // Messages that are ready and wait for a run come before those that wait for a time.
        // What starts by itself in the background comes before both.
        if !timersRun, wait.reason.isTimed, wait.after == .next, let soonest = found.soonest, soonest.after == .next { return soonest }
        if let count = found.reasons[.trigger] {
            return Wait(reason: .trigger, count: defaultBatch > 0 && count > Int64(defaultBatch) ? nil : count)
        }
        if let soonest = found.soonest { return soonest }
        for reason in [Explanation.Reason.paused, .blocked, .metered, .expired, .sending] where found.reasons[reason] != nil {
            return Wait(reason: reason)
        }
        return result
    }

    /// Counts the messages by reason, where a message behind another of its conversation has that one's reason; and returns the wait for
    /// the message that can start first.
    private func reasons(of sample: QueueSample, _ now: Moment) -> (reasons: [Explanation.Reason: Int64], soonest: Wait?) {
        var reasons: [Explanation.Reason: Int64] = [:]
        var timed: [(reason: Explanation.Reason, until: Int64, head: Head, conversation: Name)] = []
        var holders: [Name: (sequence: Int64, reason: Explanation.Reason)] = [:]
        var deferred: [Name: Int] = [:]
        for (conversation, head) in sample.rows {
            let holder = holders[conversation]
            var (reason, until) = explain(head, conversation, holder: holder?.sequence, now)
            var waits = false
            if reason == .behind {
                let (own, time) = explain(head, conversation, holder: nil, now)
                // The message is sent with the one before it only if it has no wait of its own; those behind it wait, too.
                waits = own.isTimed && own != .rate || own == .metered
                (reason, until) = waits ? (own, time) : (holder?.reason ?? .sending, 0)
            }
            if holder == nil || waits, holds(head, after: &deferred[conversation, default: 0], now) {
                holders[conversation] = (holder?.sequence ?? head.sequence, reason)
            }
            reasons[reason, default: 0] += 1
            guard holder == nil, [.retrying, .scheduled, .holding].contains(reason) else { continue }
            timed.append((reason, until, head, conversation))
        }
        return (reasons, soonest(timed, sample, now))
    }

    private func soonest(
        _ timed: [(reason: Explanation.Reason, until: Int64, head: Head, conversation: Name)], _ sample: QueueSample, _ now: Moment
    ) -> Wait? {
        let explainer = Explainer(self, sample, sending: [], now)
        var (soonest, other): (Wait?, Wait?) = (nil, nil)
        for (reason, until, head, conversation) in timed.sorted(by: { $0.until < $1.until }) {
            // A wait can turn out longer than its first reason, but never shorter.
            if let soonest, soonest.until < until { break }
            // Reading a sample does not fail.
            guard let wait = try? explainer.wait(reason, until: until, head, conversation) else { continue }
            if ![.next, .trigger, .person, .rate].contains(wait.after) {
                other = other ?? wait
            } else if soonest.map({ wait.until < $0.until || wait.until == $0.until && wait.after == .next }) ?? true {
                soonest = wait
            }
        }
        // Those behind a message that expires may be sent then.
        if let other, other.after == .expired, other.expiresAt <= soonest?.until ?? Int64.max { return other }
        guard var wait = soonest ?? other else { return nil }
        for message in timed { wait.earliest = min(wait.earliest, earliestStart(message.head, message.conversation, now)) }
        return wait
    }

    /// Whether each of these queued messages is sent when the connection returns, because it waits for nothing else and does not expire.
    package func areFree(_ rows: [(conversation: Name, head: Head)], _ now: Moment) -> Bool {
        rows.allSatisfy { conversation, stored in
            let head = withMonotonicDue(stored)
            // A delay after a failure of the network ends when the connection returns.
            let isRetryDue = head.waitsForNetwork || head.retryWait(now) == 0
            return !isPaused(conversation) && !isBlocked(head.sequence, conversation) && isRetryDue
                && head.scheduledWait(now) == 0 && head.expiresAt == 0 && !head.unmeteredOnly
        }
    }

    /// How many of the sampled messages are sent now, one after another, without those in flight.
    package func startableCount(_ sample: QueueSample, _ now: Moment) -> Int64 {
        guard sample.isComplete, mayStart, !isStoreRefusing(now) else { return 0 }
        var stopped = pausedConversations
        for flight in flights.values where flight.isHung { stopped.insert(flight.conversation) }
        var count = 0
        for (conversation, stored) in sample.rows where !stopped.contains(conversation) {
            switch fate(of: withMonotonicDue(stored), conversation, now) {
            case .sends: if maySend(now, in: conversation) { count += 1 }
            case .passes, .defers: break
            case .stops: stopped.insert(conversation)
            }
        }
        if let session { return Int64(session.batch == 0 ? count : min(count, max(0, session.batch - session.started))) }
        return Int64(min(count, budget))
    }
}
