/// When the next message of each conversation is due.
extension Scheduler {
    /// Makes the lane's next message ready or puts a ticket of it into `waiting`, or drops the lane if it has nothing to send.
    mutating func schedule(_ conversation: Name, _ now: Moment) {
        guard let place = lanes.index(forKey: conversation) else { return }
        schedule(conversation, at: place, now)
    }

    /// The same for the lane at this place of `lanes`.
    mutating func schedule(_ conversation: Name, at place: Dictionary<Name, Lane>.Index, _ now: Moment) {
        promptWatch.changed()
        var lane = lanes.values[place]
        let isDrained = session?.serves(conversation) ?? false
        let isDroppable = gate.mode != .auto && !isDrained && lane.flight == nil && !lane.hasSelfStarting
        if lane.isIdle || isDroppable {
            // Nothing is lost: the backlog is in the store, and the next drain scans it from the beginning.
            lanes[conversation] = nil
            return
        }
        guard gate.isFree(lane), gate.mayStart, !gate.isPaused(conversation) else { return }
        lane.sort { gate.isDeferred($0, now) }
        var delayed = lane.deferred.isEmpty ? [] : lane.deferred.filter { $0.wait(now) > 0 }
        if let head = lane.upcoming.first {
            if !head.hasExpired(now), head.wait(now) > 0 {
                delayed.append(head)
            } else if head.hasExpired(now) || gate.eligibility(of: head, conversation, lane, now).isStart {
                makeReady(Rank(head, byExpiry: soonestExpiryFirst), conversation)
            }
        } else if gate.canLoad(lane, conversation, now) {
            awaitRead(&lane, conversation)
        }
        setDue(after: delayed.isEmpty ? nil : soonest(lane, conversation, now)?.wait(now), &lane, conversation, now)
        if let wake = delayed.filter({ gate.startsInTime($0, lane) || goesFirst($0, lane) }).map({ $0.wait(now) }).min() {
            let key = now.mono + min(wake, Self.longestSleep)
            if lane.wakeAt <= now.mono || key < lane.wakeAt {
                lane.wakeAt = key
                waiting.insert(Ticket(key: key, conversation: conversation))
            }
        }
        lanes.values[place] = lane
    }

    /// Whether a deferred message, when its time has come, holds back one that may start until then.
    private func goesFirst(_ head: Head, _ lane: Lane) -> Bool {
        lane.upcoming.first.map { head.sequence < $0.sequence } ?? false
    }

    /// The lane's message that starts first when its time has come, without those behind a failed message that blocks.
    func soonest(_ lane: Lane, _ conversation: Name, _ now: Moment) -> Head? {
        let block = gate.blocks[conversation] ?? Int64.max
        let known = lane.upcoming.prefix(1) + lane.deferred
        // A message that is retried later than it was scheduled blocks those behind it in between.
        let retries = gate.isStrict ? known.filter { $0.retryWait(now) > $0.scheduledWait(now) } : []
        let waiting = known.filter { head in
            let wait = head.wait(now)
            guard head.sequence < block, wait > 0, !gate.isMetered(head) else { return false }
            guard head.expiresAt == 0 || head.expiry(now).subtractingClamped(now.wall) > wait else { return false }
            return !retries.contains { $0.sequence < head.sequence && $0.scheduledWait(now) <= wait && wait < $0.retryWait(now) }
        }
        return waiting.min { $0.wait(now) < $1.wait(now) }
    }

    private mutating func setDue(after wait: Int64?, _ lane: inout Lane, _ conversation: Name, _ now: Moment) {
        let due = wait.map { now.mono.addingClamped($0) } ?? 0
        // The two clocks are truncated to milliseconds: each time may differ by one.
        guard due == 0 || lane.dueAt == 0 || due.subtractingClamped(lane.dueAt).magnitude > 2 else { return }
        lane.dueAt = due
        guard due != 0 else { return }
        // Tickets far in the future become stale and would accumulate.
        if dueTimes.count > 2 * lanes.count + 64 {
            dueTimes.removeAll()
            for (other, lane) in lanes where lane.dueAt != 0 && other != conversation {
                dueTimes.insert(Ticket(key: lane.dueAt, conversation: other))
            }
        }
        dueTimes.insert(Ticket(key: due, conversation: conversation))
    }

    /// Schedules every lane again.
    mutating func scheduleAll(_ now: Moment) {
        promptWatch.changed()
        backlogReady.removeAll()
        liveReady.removeAll()
        unread.removeAll()
        waiting.removeAll()
        dueTimes.removeAll()
        unscheduled = Array(lanes.keys)
        scheduleMore(now)
    }

    /// Schedules some of the lanes that `scheduleAll` has left. Until it has left none, no attempt starts and nothing is read.
    package mutating func scheduleMore(_ now: Moment) {
        let part = Array(unscheduled.suffix(lanesPerStep))
        unscheduled.removeLast(part.count)
        for conversation in part {
            guard let place = lanes.index(forKey: conversation) else { continue }
            lanes.values[place].forgetTickets()
            schedule(conversation, at: place, now)
        }
    }

    /// Changes every lane in its place, without a search for it.
    mutating func forEachLane(_ change: (inout Lane) -> Void) {
        var place = lanes.startIndex
        while place != lanes.endIndex {
            change(&lanes.values[place])
            lanes.formIndex(after: &place)
        }
    }

    /// Changes one lane and schedules it again.
    mutating func withLane(_ conversation: Name, _ now: Moment, _ change: (inout Lane) -> Void) {
        guard let place = lanes.index(forKey: conversation) else {
            var lane = Lane()
            change(&lane)
            lanes[conversation] = lane
            return schedule(conversation, now)
        }
        change(&lanes.values[place])
        schedule(conversation, at: place, now)
    }
}
