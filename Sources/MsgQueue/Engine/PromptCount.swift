/// Counts what a yes to the prompt would send now, in steps of about a millisecond. Under the engine's lock.
///
/// The sums of the store say how many messages wait for nothing of their own. Only of conversations in which something else prevents sending
/// messages are examined, by the conditions of the scheduler.
final class PromptCount {
    private typealias Sum = UnsentSums.Sum
    private typealias Unsent = DrainForecast.Unsent

    /// What a yes sends of some messages.
    private struct Found {
        var queued = Sum()
        var failed = Sum()

        var isEmpty: Bool { queued.messages <= 0 && failed.messages <= 0 }

        static func += (left: inout Found, right: Found) {
            left.queued += right.queued
            left.failed += right.failed
        }

        static func -= (left: inout Found, right: Found) {
            left.queued -= right.queued
            left.failed -= right.failed
        }
    }

    private struct Work {
        let version: PromptState.Version
        /// `Store.discardedSums` when it began.
        let sums: Int
        var steps = 0
        /// When the last step was (monotonic), and how long all of them took, in nanoseconds.
        var steppedAt: Int64 = 0
        var duration: Int64 = 0
        /// Queued messages that have expired.
        var expired: [Name: [Int64: Head]] = [:]
        /// More have expired than were read.
        var isExpiring = false
        /// Conversations in which something else prevents sending; those in which all messages may have to wait; those whose newest
        /// messages may not be in the table of conversations. Removed when they have been counted.
        var unusual: [Name] = []
        var waiting: [Name] = []
        var unfolded: [Name] = []
        /// What a yes sends of the unusual ones, less what the sums say.
        var difference = Found()
        var conversations: Int64 = 0
        /// Conversations up to this one have been counted; nil: none.
        var countedThrough: Name?
        var isCounted = false
        /// The conversation that is examined in order.
        var walk: Walk?
        var changesAt: Int64?
    }

    /// A conversation of which messages are examined one after another.
    private struct Walk {
        var after: Int64 = 0
        var found = Found()
        var reach = DrainForecast.Reach()
    }

    /// The longest time between two steps, in milliseconds.
    private static let longestPause: Int64 = 1_000
    /// The number of messages that one read returns, and the most that are searched for the oldest one.
    private static let page = 128
    private static let mostSearched = 1_024
    /// The most expired messages that are taken into account. If there are more, they are about to fail.
    private static let mostExpired = 1_000
    private static let conversationPage = 2_000

    private let context: EngineContext
    private let store: Store
    private var work: Work?

    init(_ context: EngineContext) { (self.context, store) = (context, context.store) }

    private var isMetered: Bool { context.core.scheduler.gate.network.metered }
    private var includesFailed: Bool { context.core.scheduler.prompt.includesFailed }

    /// Performs one step. Returns the effects of the count; nil: it is not complete.
    func step(_ now: Moment) throws(QueueError) -> [Effect]? {
        if forecast(now).sendsNothing {
            work = nil
            return context.core.promptCounted(
                prompt(Found(), Work(version: version, sums: store.unsentSums.discarded), 0), version,
                changesAt: context.core.scheduler.gate.receiverHold(now), now)
        }
        var time = PromptCountTime()
        if let work, isOutdated(work, now) { self.work = nil }
        if work == nil, try readSums(now, &time) { work = try begin(now) }
        guard var work else { return nil }
        self.work = nil
        (work.steps, work.steppedAt) = (work.steps + 1, now.mono)
        while !isDone(work), time.allowsPart() { try advance(&work, now) }
        work.duration += Int64(clamping: Ports.nanoseconds() &- time.start)
        guard isDone(work) else {
            self.work = work
            return nil
        }
        let found = total(work)
        let duration = work.duration / 1_000_000
        // The queue changed meanwhile, and may not be empty at any time.
        if found.isEmpty, work.steps > 1, work.version != version {
            context.core.scheduler.prompt.miscounted(work: duration, now)
            return []
        }
        return context.core.promptCounted(
            prompt(found, work, try oldest(now)), work.version,
            changesAt: changesAt(work, now, try store.queue.nextScheduled(after: now.wall)),
            work: duration, now)
    }

    private func forecast(_ now: Moment) -> DrainForecast { DrainForecast(context.core.scheduler, now) }

    private var version: PromptState.Version { context.core.scheduler.promptVersion(commits: store.commits) }

    /// A count begins again that was interrupted, that belongs to an earlier prompt, or whose sums a rollback has discarded.
    private func isOutdated(_ work: Work, _ now: Moment) -> Bool {
        now.mono.subtractingClamped(work.steppedAt) > Self.longestPause || work.version.armings != version.armings
            || work.sums != store.unsentSums.discarded
    }

    /// Reads the sums, so that the first count need not. Returns false until they are complete.
    func prepare(_ now: Moment) throws(QueueError) -> Bool {
        var time = PromptCountTime()
        return try readSums(now, &time)
    }

    private func readSums(_ now: Moment, _ time: inout PromptCountTime) throws(QueueError) -> Bool {
        while time.allowsPart() { if try store.unsentSums.read(at: now.wall) { return true } }
        return false
    }

    private func begin(_ now: Moment) throws(QueueError) -> Work {
        var work = Work(version: version, sums: store.unsentSums.discarded)
        let expired = try store.queue.expiredHeads(at: now.wall, limit: Self.mostExpired)
        for (conversation, head) in expired { work.expired[conversation, default: [:]][head.sequence] = head }
        work.isExpiring = expired.count == Self.mostExpired
        var unusual = forecast(now).unusualConversations
        for heads in [work.expired, store.unsentSums.sums.retries, includesFailed ? store.unsentSums.sums.scheduledFailures : [:]] {
            for name in heads.keys { unusual.insert(name) }
        }
        work.unusual = Array(unusual)
        for (name, part) in store.unsentSums.sums.parts where part.mayWait && !unusual.contains(name) {
            if DrainForecast.mayBlock(deferred: deferred(part, of: name)) { work.unusual.append(name) } else { work.waiting.append(name) }
        }
        work.unfolded = store.counts.unfoldedConversations
        return work
    }

    private func isDone(_ work: Work) -> Bool {
        work.unusual.isEmpty && work.waiting.isEmpty && work.unfolded.isEmpty && work.isCounted
    }

    /// Counts one conversation, or a page of the table of conversations.
    private func advance(_ work: inout Work, _ now: Moment) throws(QueueError) {
        if let name = work.unusual.last {
            let counts = try store.counts.counts(of: name)
            guard let found = try found(in: name, counts, &work, now) else { return }
            work.unusual.removeLast()
            work.difference += found
            work.difference -= expected(counts, store.unsentSums.sums.part(of: name))
            if found.isEmpty, hasUnsent(counts) { work.conversations -= 1 }
        } else if let name = work.waiting.popLast() {
            let counts = try store.counts.counts(of: name)
            if expected(counts, store.unsentSums.sums.part(of: name)).isEmpty, hasUnsent(counts) { work.conversations -= 1 }
        } else if let name = work.unfolded.popLast() {
            if hasUnsent(try store.counts.counts(of: name)), !hasUnsent(try store.counts.folded(of: name) ?? Counts()) {
                work.conversations += 1
            }
        } else {
            let (count, last) = try store.counts.conversationsUnsent(
                after: work.countedThrough, includesFailed: includesFailed, limit: Self.conversationPage)
            work.conversations += count
            (work.countedThrough, work.isCounted) = (last, last == nil)
        }
    }

    private func hasUnsent(_ counts: Counts) -> Bool { counts.queued > 0 || includesFailed && counts.failed > 0 }

    // MARK: One conversation

    /// What a yes sends by the sums.
    private func expected(_ counts: Counts, _ part: UnsentSums.Part) -> Found {
        var found = Found(queued: Sum(messages: counts.queued, bytes: counts.unsentBytes))
        found.queued.bytes &-= part.failed.bytes
        found.queued -= part.later
        if isMetered { found.queued -= part.unmetered }
        guard includesFailed else { return found }
        found.failed = part.failed
        if isMetered { found.failed -= part.failedUnmetered }
        return found
    }

    /// The most messages of the conversation that may wait for a time or for an unmetered link.
    private func deferred(_ part: UnsentSums.Part, of name: Name) -> Int64 {
        var count = part.later.messages + (isMetered ? part.unmetered.messages : 0)
        guard includesFailed else { return count }
        count += Int64(store.unsentSums.sums.scheduledFailures[name]?.count ?? 0)
        return count + (isMetered ? part.failedUnmetered.messages : 0)
    }

    /// What a yes sends of an unusual conversation; nil: its examination continues.
    private func found(in name: Name, _ counts: Counts, _ work: inout Work, _ now: Moment) throws(QueueError) -> Found? {
        let retries = store.unsentSums.sums.retries[name] ?? [:]
        noteWaits(of: name, retries, &work, now)
        let forecast = forecast(now)
        let share = forecast.share(
            of: name, retries: retries, deferred: deferred(store.unsentSums.sums.part(of: name), of: name))
        if share != .inOrder { work.walk = nil }
        switch share {
        case .nothing: return Found()
        case .inOrder: return try walk(name, &work, now)
        case .most:
            var found = expected(counts, store.unsentSums.sums.part(of: name))
            for head in singles(of: name, retries, work.expired[name] ?? [:], forecast) { found.queued -= Sum(head) }
            if includesFailed {
                for head in (store.unsentSums.sums.scheduledFailures[name] ?? [:]).values
                where !forecast.isSentByYes(Unsent(name, head, isFailed: true)) { found.failed -= Sum(head) }
            }
            return found
        }
    }

    /// The result changes when the delay of a retry ends, or that of a message that the transport skipped, and when a failed message is due
    /// that was scheduled.
    private func noteWaits(of name: Name, _ retries: [Int64: Head], _ work: inout Work, _ now: Moment) {
        var waits = retries.values.map { context.core.scheduler.gate.withMonotonicDue($0).retryWait(now) }
        if includesFailed {
            // The wall clock may be set, so that a time of it is looked at again.
            for head in (store.unsentSums.sums.scheduledFailures[name] ?? [:]).values {
                waits.append(min(head.scheduledWait(now), Scheduler.longestSleep))
            }
        }
        if let end = forecast(now).nextSkipEnd(in: name) { waits.append(end.subtractingClamped(now.mono)) }
        guard let wait = waits.filter({ $0 > 0 }).min() else { return }
        work.changesAt = min(work.changesAt ?? Int64.max, now.mono.addingClamped(wait))
    }

    /// The queued messages that a yes does not send although the sums contain them: those being sent, those that start without it, and those
    /// that have expired or, where others may overtake them, wait for a retry.
    private func singles(
        of name: Name, _ retries: [Int64: Head], _ expired: [Int64: Head], _ forecast: DrainForecast
    ) -> Dictionary<Int64, Head>.Values {
        // One message may be several of these.
        var singles = retries
        for (sequence, head) in expired { singles[sequence] = head }
        for head in forecast.selfStarting(in: name) { singles[head.sequence] = head }
        for flight in context.core.scheduler.flights.open where flight.conversation == name {
            singles[flight.sequence] = context.core.rowsInFlight[flight.token]?.head
        }
        for (sequence, head) in singles where isInNoSum(head) || forecast.isSentByYes(Unsent(name, head)) {
            singles[sequence] = nil
        }
        return singles.values
    }

    /// Whether the sums do not contain this message because it waits for something of its own.
    private func isInNoSum(_ head: Head) -> Bool {
        TimePlace(head.notBefore, head.sequence) > store.unsentSums.sums.border || head.unmeteredOnly && isMetered
    }

    /// Examines the next messages of a conversation in order; nil: there are more.
    private func walk(_ name: Name, _ work: inout Work, _ now: Moment) throws(QueueError) -> Found? {
        var walk = work.walk ?? Walk()
        let queued = try store.queue.queued(in: name, after: walk.after, limit: Self.page)
        let failed = includesFailed ? try store.queue.failedHeads(in: name, after: walk.after, limit: Self.page) : []
        // Both were read only up to here.
        let end = min(
            queued.count < Self.page ? Int64.max : queued.last?.sequence ?? Int64.max,
            failed.count < Self.page ? Int64.max : failed.last?.head.sequence ?? Int64.max)
        // Both are in order.
        var (inOrder, next): ([Unsent], Int) = ([], 0)
        for head in queued where head.sequence <= end {
            while next < failed.count, failed[next].head.sequence < head.sequence {
                inOrder.append(Unsent(name, failed[next].head, isFailed: true))
                next += 1
            }
            inOrder.append(Unsent(name, head))
        }
        inOrder += failed[next...].lazy.filter { $0.head.sequence <= end }.map { Unsent(name, $0.head, isFailed: true) }
        for message in forecast(now).sentByYes(inOrder, &walk.reach) {
            if message.isFailed { walk.found.failed += Sum(message.head) } else { walk.found.queued += Sum(message.head) }
        }
        walk.after = end
        let isOver = end == Int64.max || walk.reach.isStopped
        work.walk = isOver ? nil : walk
        return isOver ? walk.found : nil
    }

    // MARK: The result

    private func total(_ work: Work) -> Found {
        var found = expected(store.counts.totals, store.unsentSums.sums.all)
        found += work.difference
        // A prompt is not raised for messages that are about to fail.
        return work.isExpiring && context.core.prompt == nil ? Found() : found
    }

    private func prompt(_ found: Found, _ work: Work, _ oldest: Int64) -> Prompt {
        let batch = Int64(context.options.runLimit)
        let messages = min(max(found.queued.messages, 0), batch)
        let failed = min(max(found.failed.messages, 0), batch - messages)
        return Prompt(
            messages: messages, failed: failed, bytes: max(found.queued.bytes &+ found.failed.bytes, 0), oldestAt: oldest,
            conversations: max(work.conversations, 0), timeout: context.options.promptTimeout)
    }

    /// When the result changes by itself (monotonic). The wall clock may be set, so that a time of it is looked at again.
    private func changesAt(_ work: Work, _ now: Moment, _ scheduled: Int64?) -> Int64? {
        let wait = scheduled.map { min($0.subtractingClamped(now.wall), Scheduler.longestSleep) }
        return [work.changesAt, wait.map { now.mono.addingClamped($0) }].compactMap { $0 }.min()
    }

    /// When the oldest of the messages was enqueued. If it is not among the first ones, an earlier time.
    private func oldest(_ now: Moment) throws(QueueError) -> Int64 {
        var times: [Int64] = []
        let queued = try oldest(now) { after throws(QueueError) in
            try store.queue.queued(after: after, limit: Self.page).map { Unsent($0.conversation, $0.head) }
        }
        if let queued { times.append(queued) }
        if includesFailed {
            let failed = try oldest(now) { after throws(QueueError) in
                try store.queue.failedHeads(after: after, limit: Self.page).map { Unsent($0.conversation, $0.head, isFailed: true) }
            }
            if let failed { times.append(failed) }
        }
        return times.min() ?? 0
    }

    private func oldest(
        _ now: Moment, _ read: (_ after: Int64) throws(QueueError) -> [Unsent]
    ) throws(QueueError) -> Int64? {
        var (after, searched): (Int64, Int) = (0, 0)
        var reach = DrainForecast.Reach()
        let forecast = forecast(now)
        while searched < Self.mostSearched {
            let messages = try read(after)
            if let first = forecast.sentByYes(messages, &reach).first {
                return try store.messages.createdAt(first.head.sequence)
            }
            guard messages.count == Self.page, let last = messages.last?.head.sequence else { return nil }
            (after, searched) = (last, searched + messages.count)
        }
        return try store.messages.createdAt(after)
    }
}
