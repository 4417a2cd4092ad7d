import Glibc

/// Failed messages by what they failed with, and queued messages by what they wait for.
extension Engine {
    /// Returns the groups of failed messages, those with the most messages first.
    package func failureGroups(limit: Int) throws(QueueError) -> [FailureGroup] {
        try FilterRule.check(limit: limit)
        return try reading { () throws(QueueError) in try reader.failureGroups(limit: limit) }
    }

    /// Counts the queued messages by what they wait for, in steps between which other calls run.
    package func waiting() throws(QueueError) -> Waiting {
        var (waiting, paused, now) = try reading { () throws(QueueError) in try reader.paused() }
        guard waiting.paused < waiting.queued else { return waiting }
        var scheduled = WaitingSearch(.scheduled, after: now, excluding: paused)
        try run { () throws(QueueError) in try reader.step(&scheduled) }
        var retrying = WaitingSearch(.retrying(withScheduled: scheduled.count == 0), after: now, excluding: paused)
        try run { () throws(QueueError) in try reader.step(&retrying) }
        (waiting.scheduled, waiting.nextScheduledAt) = (scheduled.count, scheduled.first)
        (waiting.retrying, waiting.nextRetryAt) = (retrying.count, retrying.first)
        return waiting
    }

    /// Runs the steps of a read, until one returns false.
    func run(_ step: () throws(QueueError) -> Bool) throws(QueueError) {
        while try reading({ () throws(QueueError) in try step() }) {
            // Let threads that wait for the lock run first.
            usleep(100)
        }
    }
}

extension QueueReader {
    func failureGroups(limit: Int) throws(QueueError) -> [FailureGroup] { try store.failures.groups(limit: limit) }

    /// Returns the numbers of queued and of paused messages, the paused conversations and the time.
    func paused() throws(QueueError) -> (Waiting, paused: Set<Name>, now: Int64) {
        let scheduler = context.core.scheduler
        var waiting = Waiting()
        waiting.queued = writes.counts.queued
        let conversations = scheduler.gate.pauses.byName
        if scheduler.gate.pauses.isPaused {
            waiting.paused = waiting.queued
        } else {
            for name in conversations { waiting.paused += try counts(name.text).queued }
        }
        return (waiting, conversations, ports.moment.wall)
    }

    func step(_ search: inout WaitingSearch) throws(QueueError) -> Bool { try search.step(store.queue) }

    /// Returns the page of messages that wait for a time, before its first step.
    func waitingPage(_ filter: Filter) -> WaitingPage {
        let scheduler = context.core.scheduler
        // While the queue is paused all messages wait for its end.
        return WaitingPage(filter, after: ports.moment.wall, excluding: scheduler.gate.pauses.isPaused ? nil : scheduler.gate.pauses.byName)
    }

    func step(_ page: inout WaitingPage) throws(QueueError) -> Bool {
        try page.step(store.pages, sending: writes.sendingSequences, damaged: report)
    }

    /// Returns the page of the queued messages that are paused, before its first step.
    func pausedPage(_ filter: Filter) throws(QueueError) -> PageSteps {
        let scheduler = context.core.scheduler
        var filter = filter
        (filter.statuses, filter.waitingFor) = (StatusSet(.queued), nil)
        let sending = writes.sendingSequences
        guard !scheduler.gate.pauses.isPaused else { return PageSteps(filter) }
        var found: [Int64] = []
        let only = filter.conversation.map { Name($0) }
        for name in scheduler.gate.pauses.byName where only == nil || only == name {
            var page = filter
            page.conversation = name.text
            found += try store.pages.sequences(page, sending: sending)
            guard found.count > filter.limit else { continue }
            found.sort(by: filter.newestFirst ? { $0 > $1 } : { $0 < $1 })
            found.removeLast(found.count - filter.limit)
        }
        found.sort(by: filter.newestFirst ? { $0 > $1 } : { $0 < $1 })
        return PageSteps(filter, at: found.map { TimePlace(0, $0) })
    }
}
