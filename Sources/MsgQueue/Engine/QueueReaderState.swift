/// The state of the whole queue, and the banner.
extension QueueReader {
    /// Returns the state in O(1); it reads a bounded number of messages from the store.
    func state() throws(QueueError) -> QueueState {
        let now = ports.moment
        // The prompt may have expired while the timer has not withdrawn it yet.
        let isAsking = context.core.prompt != nil && context.core.scheduler.prompt.isAsking(now)
        let reasons = QueueReasons(context.core.scheduler, now)
        var wait = reasons.wait(
            queued: store.counts.totals.queued, hasStart: context.hasStart, queuedIn: { drains.left(of: $0).queued })
        if store.counts.totals.queued > 0, reasons.needsSample(wait) { wait = reasons.wait(wait, sample(nil)) }
        return QueueState(
            network: context.core.scheduler.gate.network, isInBackground: context.core.scheduler.gate.isInBackground, mode: options.mode,
            isPaused: context.core.scheduler.gate.pauses.isPaused,
            pausedConversations: context.core.scheduler.gate.pauses.byName.count, isDraining: context.core.scheduler.session != nil,
            inFlight: context.core.scheduler.flights.inFlight, hasTransport: context.core.scheduler.gate.hasTransport,
            prompt: isAsking ? context.core.prompt : nil,
            promptExpiresAt: isAsking ? context.core.scheduler.prompt.expiryTime(now) : nil, storage: events.storageReport,
            hasStorageTrouble: health.trouble != nil, reason: wait.reason, until: wait.until, text: text(wait, isAsking, now),
            offlineReason: context.core.scheduler.gate.offlineReason, sqliteVersion: SQLiteVersion.text)
    }

    private func text(_ wait: Wait, _ isAsking: Bool, _ now: Moment) -> String {
        if wait.reason == .noTransport, let text = Words.noTransport(options) { return text }
        if wait.reason == .next, let hung = hungCalls { return Words.queueHung(hung) }
        return Words.queue(
            wait, facts(writes.counts, nil, now), pausedConversations: Int64(context.core.scheduler.gate.pauses.byName.count),
            now: now.wall, isAsking: isAsking, offlineReason: context.core.scheduler.gate.offlineReason)
    }

    /// Returns one line of text about the queue or one conversation of it.
    func banner(_ conversation: String?) throws(QueueError) -> String {
        let name = conversation.map { Name($0) }
        let counts =
            try name.map { name throws(QueueError) in writes.withSending(try store.counts.counts(of: name), name) } ?? writes.counts
        var facts = facts(counts, name, ports.moment)
        facts.underWay = underWay(counts, name, ports.moment)
        return Words.banner(facts)
    }

    /// Returns how many queued messages of all or of one conversation are being sent now, one after another.
    private func underWay(_ counts: Counts, _ conversation: Name?, _ now: Moment) -> Int64 {
        switch QueueReasons(context.core.scheduler, now).activeScope {
        case .nothing: return 0
        case .everything: return counts.sending > 0 || context.core.scheduler.session != nil ? startableCount(conversation, now) : 0
        case .conversation(let drained): return conversation == nil || drained == conversation ? startableCount(drained, now) : 0
        }
    }

    private func startableCount(_ conversation: Name?, _ now: Moment) -> Int64 {
        sample(conversation).map { QueueReasons(context.core.scheduler, now).startableCount($0) } ?? 0
    }

    /// Returns the first queued messages of all or of one conversation; nil: the store cannot be read, which the next write reports.
    private func sample(_ conversation: Name?) -> QueueSample? {
        do throws(QueueError) {
            guard let conversation else { return QueueSample(try store.queue.queued(after: 0, limit: QueueSample.limit)) }
            return QueueSample(try store.queue.queued(in: conversation, after: 0, limit: QueueSample.limit).map { (conversation, $0) })
        } catch {
            return nil
        }
    }

    private func facts(_ counts: Counts, _ conversation: Name?, _ now: Moment) -> BannerFacts {
        var facts = BannerFacts()
        facts.connectivity = context.core.scheduler.gate.network.connectivity
        facts.mode = options.mode
        (facts.queued, facts.sending, facts.failed) = (counts.queued, counts.sending, counts.failed)
        facts.isPaused =
            context.core.scheduler.gate.pauses.isPaused || conversation.map(context.core.scheduler.gate.pauses.isPaused(byName:)) ?? false
        facts.isHeldBack = options.readOnly || QueueReasons(context.core.scheduler, now).isHeldBack
        let mayPromise = facts.connectivity == .offline && facts.sendsWhenConnected && facts.sending == 0
        facts.areFree = mayPromise && (1...Self.mostFree).contains(facts.queued) && areFree(conversation, now)
        return facts
    }

    /// The most messages of which the banner finds out whether all of them are sent when connected.
    private static let mostFree: Int64 = 1_000

    private func areFree(_ conversation: Name?, _ now: Moment) -> Bool {
        let limit = Int(Self.mostFree) + 1
        do throws(QueueError) {
            let rows =
                if let conversation {
                    try store.queue.queued(in: conversation, after: 0, limit: limit).map { (conversation: conversation, head: $0) }
                } else {
                    try store.queue.queued(after: 0, limit: limit)
                }
            return QueueReasons(context.core.scheduler, now).areFree(rows)
        } catch {
            // The next write reports that the store cannot be read.
            return false
        }
    }
}
