/// Why the queue as a whole sends nothing, and what happens next: for its state and its texts.
package struct QueueReasons {
    let scheduler: Scheduler
    let now: Moment

    package init(_ scheduler: Scheduler, _ now: Moment) { (self.scheduler, self.now) = (scheduler, now) }

    /// The number of entries that are examined where examining all would not be O(1).
    private static let examined = 16

    // MARK: The queue as a whole

    /// Why nothing is sent now, in O(1). `queued` messages are in the store, and `queuedIn` returns the number of a conversation;
    /// `hasStart`: an attempt is about to start. Reasons that stop the whole queue are returned even if nothing is queued.
    package func wait(queued: Int64, hasStart: Bool, queuedIn: (Name) -> Int64 = { _ in 0 }) -> Wait {
        if scheduler.gate.flights.inFlight > 0 { return Wait(reason: .sending) }
        let afterwards: Explanation.Reason = scheduler.gate.options.mode != .auto ? .person : scheduler.gate.timersRun ? .next : .trigger
        if scheduler.gate.isStoreRefusing(now) {
            return Wait(reason: .storage, until: now.wall(at: scheduler.gate.storageRetryAt), after: afterwards)
        }
        if let barrier = scheduler.gate.barrier { return Wait(reason: barrier) }
        if let held = scheduler.gate.receiverHold(now) {
            let end = now.wall(at: held)
            return Wait(reason: .holding, until: end, after: afterwards, earliest: end)
        }
        if queued <= 0, scheduler.requests.isEmpty { return Wait(reason: .done) }
        if scheduler.startWaitsForRate, let wait = rateWait { return wait }
        if let end = scheduler.linger.end(now) { return Wait(reason: .next, until: now.wall(at: end)) }
        if hasStart || scheduler.session != nil { return Wait(reason: .next) }
        if areAllHeld { return held }
        if scheduler.gate.isMeteredForAll { return Wait(reason: .metered) }
        if scheduler.gate.options.mode == .auto {
            // In the background a message that was skipped starts by itself, also while others wait for the next run.
            if !scheduler.gate.timersRun, let wait = soonestMessage, wait.after == .next { return wait }
            if case .wait(let reason, let until)? = scheduler.gate.automaticHold(now) { return Wait(reason: reason, until: until) }
        } else if !areAllSelfStarting(queued, queuedIn) {
            return Wait(reason: .person)
        }
        return soonestMessage ?? held
    }

    /// The wait for the next attempt that the rate permits; nil: it permits one now.
    var rateWait: Wait? {
        guard let pace = scheduler.gate.flights.pace, !pace.isOpen(at: now.mono) else { return nil }
        let end = now.wall(at: pace.opening(at: now.mono))
        return Wait(reason: .rate, until: end, earliest: end, pace: PaceText(pace))
    }

    /// In modes ask and manual: whether every queued message starts without a drain or an answer.
    private func areAllSelfStarting(_ queued: Int64, _ queuedIn: (Name) -> Int64) -> Bool {
        guard scheduler.lanes.count <= Self.examined else { return false }
        return queued <= selfStartingMessages(queuedIn)
    }

    /// The number of messages that start without a drain or an answer. The index has only some of each conversation: one with further ones
    /// in the store counts as a whole.
    private func selfStartingMessages(_ queuedIn: (Name) -> Int64) -> Int64 {
        let forecast = DrainForecast(scheduler, now)
        return scheduler.lanes.byName.reduce(0) { sum, entry in
            let (name, lane) = entry
            let known = Int64((lane.upcoming + lane.deferred).count { lane.startsUnasked($0.sequence) })
            return sum + (forecast.mayStartUnread(name) ? max(known, queuedIn(name)) : known)
        }
    }

    /// The wait for the message that is due first.
    private var soonestMessage: Wait? {
        guard let ticket = scheduler.lanes.dueTimes.first, let lane = scheduler.lanes[ticket.conversation], lane.dueAt == ticket.key,
            ticket.key > now.mono
        else {
            return nil
        }
        guard let next = scheduler.gate.soonest(of: lane, ticket.conversation, now) else { return nil }
        if scheduler.gate.timersRun, let end = scheduler.gate.holds.offlineEnd, ticket.key < end, !lane.isDirect(next.sequence) {
            return Wait(reason: .holding, until: now.wall(at: end))
        }
        let isSkipped = next.skipWait(now) > next.retryWait(now)
        let isRetry = max(next.retryWait(now), next.skipWait(now)) >= next.scheduledWait(now)
        let due = now.wall(at: ticket.key)
        return Wait(
            reason: isRetry ? .retrying : .scheduled, until: due, after: scheduler.gate.startsInTime(next, lane) ? .next : .trigger,
            earliest: due,
            isSkipped: isRetry && isSkipped)
    }

    /// Whether every conversation is paused or blocked by a failed message.
    private var areAllHeld: Bool {
        guard scheduler.lanes.reading.isComplete, scheduler.lanes.count <= Self.examined,
            !scheduler.gate.blocks.isEmpty || !scheduler.gate.pauses.conversations.isEmpty
        else { return false }
        return scheduler.lanes.byName.allSatisfy { name, lane in
            if scheduler.gate.pauses.conversations.contains(name) || !lane.hasMessages { return true }
            return (lane.upcoming + lane.deferred).allSatisfy { scheduler.gate.isBlocked($0.sequence, name) }
        }
    }

    /// Why messages wait although sending is allowed.
    private var held: Wait {
        if isAnyPaused { return Wait(reason: .paused) }
        if scheduler.gate.blocks.count > Self.examined
            || scheduler.gate.blocks.contains(where: { scheduler.lanes[$0.key]?.hasMessages == true })
        {
            return Wait(reason: .blocked)
        }
        return Wait(reason: scheduler.gate.network.metered ? .metered : scheduler.gate.options.mode == .auto ? .next : .person)
    }

    /// Whether a paused conversation has queued messages.
    private var isAnyPaused: Bool {
        if scheduler.gate.pauses.conversations.prefix(Self.examined).contains(where: { scheduler.lanes[$0]?.hasMessages == true }) {
            return true
        }
        if scheduler.gate.pauses.conversations.count <= Self.examined { return false }
        if scheduler.lanes.byName.prefix(Self.examined).contains(where: {
            $0.value.hasMessages && scheduler.gate.pauses.conversations.contains($0.key)
        }) {
            return true
        }
        // Both sets are too large to compare: assume so unless there is another possible reason.
        return scheduler.lanes.count > Self.examined && !scheduler.gate.network.metered && scheduler.gate.blocks.isEmpty
    }

    // MARK: A sample

    /// Whether the reason is only correct if a message is ready, so that a sample is needed.
    package func needsSample(_ wait: Wait) -> Bool {
        switch wait.reason {
        case .next, .person, .trigger, .retrying, .scheduled, .blocked: true
        case .paused: !scheduler.gate.pauses.isPaused
        case .metered: !scheduler.gate.options.unmeteredOnly
        case .holding: scheduler.gate.network.isOnline && !scheduler.gate.pauses.isPaused
        default: false
        }
    }

    /// Corrects the wait of the whole queue by a sample. Without a sample (the store could not be read), or if it is not complete, the
    /// result says less.
    package func wait(_ wait: Wait, _ sample: QueueSample?) -> Wait {
        guard let sample else { return wait }
        let found = reasons(of: sample)
        var result = wait
        if wait.reason != .next, found.reasons[.next] != nil { return Wait(reason: .next) }
        let ready = found.reasons[wait.reason] ?? 0
        let isSpecific = wait.reason.isTimed || [.paused, .blocked, .metered].contains(wait.reason)
        if ready > 0, !isSpecific || !sample.isComplete {
            if wait.reason.isTimed, wait.after == .next, let rate = rateWait, rate.until > wait.until { return rate }
            result.count = sample.isComplete && (wait.reason != .trigger || ready <= runLimit) ? ready : nil
            return result
        }
        if found.reasons[.rate] != nil, let wait = rateWait { return wait }
        guard sample.isComplete else {
            // It is unknown whether a message is ready to be sent.
            if wait.reason == .person { result.count = 0 }
            return result
        }
        // Some reasons are reported even if nothing is queued.
        if sample.rows.isEmpty { return result }
        // Messages that are ready and wait for a run come before those that wait for a time.
        // What starts by itself in the background comes before both.
        if !scheduler.gate.timersRun, wait.reason.isTimed, wait.after == .next, let soonest = found.soonest, soonest.after == .next {
            return soonest
        }
        if let count = found.reasons[.trigger] {
            return Wait(reason: .trigger, count: count > runLimit ? nil : count)
        }
        if let soonest = found.soonest { return soonest }
        for reason in [Explanation.Reason.paused, .blocked, .metered, .expired, .sending] where found.reasons[reason] != nil {
            return Wait(reason: reason)
        }
        return result
    }

    /// Counts the messages by reason, where a message behind another of its conversation has that one's reason; and returns the wait for
    /// the message that can start first.
    private func reasons(of sample: QueueSample) -> (reasons: [Explanation.Reason: Int64], soonest: Wait?) {
        let message = MessageReasons(scheduler, now)
        var reasons: [Explanation.Reason: Int64] = [:]
        var timed: [(reason: Explanation.Reason, until: Int64, head: Head, conversation: Name)] = []
        var holders: [Name: (sequence: Int64, reason: Explanation.Reason)] = [:]
        var deferred: [Name: Int] = [:]
        for (conversation, head) in sample.rows {
            let holder = holders[conversation]
            var (reason, until) = message.explain(head, conversation, holder: holder?.sequence)
            var waits = false
            if reason == .behind {
                let (own, time) = message.explain(head, conversation, holder: nil)
                // The message is sent with the one before it only if it has no wait of its own; those behind it wait, too.
                waits = own.isTimed && own != .rate || own == .metered
                (reason, until) = waits ? (own, time) : (holder?.reason ?? .sending, 0)
            }
            if holder == nil || waits, message.holds(head, after: &deferred[conversation, default: 0]) {
                holders[conversation] = (holder?.sequence ?? head.sequence, reason)
            }
            reasons[reason, default: 0] += 1
            guard holder == nil, [.retrying, .scheduled, .holding].contains(reason) else { continue }
            timed.append((reason, until, head, conversation))
        }
        return (reasons, soonest(timed, sample, message))
    }

    private func soonest(
        _ timed: [(reason: Explanation.Reason, until: Int64, head: Head, conversation: Name)], _ sample: QueueSample,
        _ message: MessageReasons
    ) -> Wait? {
        let explainer = Explainer(scheduler, sample, sending: [], now)
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
        for (_, _, head, conversation) in timed { wait.earliest = min(wait.earliest, message.earliestStart(head, conversation)) }
        return wait
    }

    // MARK: What is sent

    /// Whether something other than the missing connection prevents automatic sending.
    package var isHeldBack: Bool {
        !scheduler.gate.hasTransport || !scheduler.gate.timersRun || scheduler.gate.isClosing || scheduler.gate.options.unmeteredOnly
            || scheduler.gate.options.drainBatch > 0
            || scheduler.gate.isHeldByReceiver(now)
    }

    private var runLimit: Int64 { Int64(scheduler.gate.options.runLimit) }

    /// The part of the backlog that may be sent now.
    package enum Scope: Equatable { case nothing, everything, conversation(Name) }

    package var activeScope: Scope {
        if scheduler.gate.maySend(now) { return .everything }
        guard let session = scheduler.session else { return .nothing }
        return session.conversation.map { .conversation($0) } ?? .everything
    }

    /// Whether each of these queued messages is sent when the connection returns, because it waits for nothing else and does not expire.
    package func areFree(_ rows: [(conversation: Name, head: Head)]) -> Bool {
        rows.allSatisfy { conversation, stored in
            let head = scheduler.gate.withMonotonicDue(stored)
            // A delay after a failure of the network ends when the connection returns.
            let isRetryDue = head.waitsForNetwork || head.retryWait(now) == 0
            return !scheduler.gate.isPaused(conversation) && !scheduler.gate.isBlocked(head.sequence, conversation) && isRetryDue
                && head.scheduledWait(now) == 0 && head.expiresAt == 0 && !head.unmeteredOnly
        }
    }

    /// How many of the sampled messages are sent now, one after another, without those in flight.
    package func startableCount(_ sample: QueueSample) -> Int64 {
        guard sample.isComplete, scheduler.gate.mayStart, !scheduler.gate.isStoreRefusing(now) else { return 0 }
        let forecast = DrainForecast(scheduler, now)
        var stopped = scheduler.gate.pauses.conversations
        for flight in scheduler.gate.flights.values where flight.isHung { stopped.insert(flight.conversation) }
        var count = 0
        for (conversation, stored) in sample.rows where !stopped.contains(conversation) {
            switch forecast.fate(of: scheduler.gate.withMonotonicDue(stored), conversation) {
            case .sends: if scheduler.gate.maySend(now, in: conversation) { count += 1 }
            case .passes, .defers: break
            case .stops: stopped.insert(conversation)
            }
        }
        if let session = scheduler.session {
            return Int64(min(count, max(0, session.batch - session.started)))
        }
        return Int64(min(count, scheduler.gate.budget))
    }
}
