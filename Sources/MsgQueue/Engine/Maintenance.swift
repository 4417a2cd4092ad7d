/// What can wait: expiry, pruning of the history, the comparison of the indexes. Under the engine's lock.
final class Maintenance {
    /// Milliseconds between looks at the history when nothing else asks for one.
    private static let interval: Int64 = 60_000
    /// Between the steps of the comparison, so that callers wait for one of them at most.
    private static let comparisonPause: Int64 = 4
    /// Between looks at history that was not looked at yet, so that callers have the disk in between.
    private static let lookPause: Int64 = 20

    private let context: EngineContext
    private let store: Store
    private let events: EventDelivery
    private let health: StoreHealth
    /// When the history is looked at next (monotonic).
    private var dueAt: Int64 = 0
    /// After it failed: not before this (monotonic).
    private var restsUntil: Int64 = 0
    /// When the next message expires (wall).
    private var nextExpiry = Int64.max
    /// When the next step of the comparison of the indexes is made (monotonic).
    private var comparisonAt: Int64 = 0

    init(_ context: EngineContext, _ events: EventDelivery, _ health: StoreHealth) {
        (self.context, store, self.events, self.health) = (context, context.store, events, health)
    }

    /// At the opening: when the first message expires.
    func findExpiry() throws(QueueError) { nextExpiry = try store.nextExpiry(after: 0) ?? Int64.max }

    /// A queued message expires then (wall).
    func expires(at time: Int64) { nextExpiry = min(nextExpiry, time) }

    /// After the history has grown: what is beyond its limit goes at the timer's next look.
    func historyGrew() {
        guard let keep = context.options.keepSent, store.totals.prunable > keep else { return }
        dueAt = min(dueAt, context.ports.mono())
    }

    /// When the timer must look, in monotonic time; at least once a minute, because the wall clock may jump.
    func deadline(_ writes: PendingWrites) -> Int64 {
        guard isPossible(writes) else { return Int64.max }
        var due = min(dueAt, comparisonDeadline)
        if nextExpiry != Int64.max {
            let now = context.ports.moment
            due = min(due, now.mono + min(max(nextExpiry.subtractingClamped(now.wall), 0), 60_000))
        }
        return max(due, context.core.scheduler.storageUntil, restsUntil)
    }

    /// What the store did not take yet comes first: its rows are not what they will be.
    private func isPossible(_ writes: PendingWrites) -> Bool {
        !writes.hasUnsaved && context.phase == .open && !store.isPoisoned && !context.options.readOnly
    }

    private var comparisonDeadline: Int64 { store.isQueuedCompared ? Int64.max : comparisonAt }

    // MARK: One step, on the timer's thread

    /// One short step of expiry and pruning.
    func run(_ writes: PendingWrites, _ transactions: Transactions) {
        let now = context.ports.moment
        guard now.mono >= dueAt || now.wall >= nextExpiry else { return }
        guard isPossible(writes), now.mono >= max(context.core.scheduler.storageUntil, restsUntil) else { return }
        do throws(QueueError) {
            if now.wall >= nextExpiry { try expireAll(writes, now) }
            guard now.mono >= dueAt else { return }
            let before = store.totals
            switch try prune(transactions, now) {
            case .finished: dueAt = now.mono + Self.interval
            case .hasMore: dueAt = now.mono
            case .isScanning: dueAt = now.mono + Self.lookPause
            }
            if store.totals != before { events.countsChanged() }
        } catch {
            dueAt = now.mono + Self.interval
            restsUntil = dueAt
            health.report(error)
        }
    }

    private func prune(_ transactions: Transactions, _ now: Moment) throws(QueueError) -> Store.PruneStep {
        let options = context.options
        var damage: [QueueError] = []
        let step = try transactions.run(durable: false) { () throws(QueueError) -> Store.PruneStep in
            damage = []
            return try store.prune(
                keepCount: options.keepSent, keepSince: options.keepSentFor.map { now.wall.subtractingClamped($0) },
                forgetBefore: context.rememberedSince, now: now.wall, damaged: { damage.append($0) })
        }
        for error in damage {
            Log.error("\(store.path): \(error.detail)")
            events.emit(.storage(error))
        }
        return step
    }

    /// Messages whose time ran out fail when it does, wherever they stand.
    private func expireAll(_ writes: PendingWrites, _ now: Moment) throws(QueueError) {
        // What is being sent is looked at when its attempt ends.
        for (conversation, sequence) in try store.expired(at: now.wall, limit: 64) {
            try writes.withRow(sequence, conversation, now) { context.core.expired($0, sequence, conversation, now) }
        }
        guard writes.commit() else { return }
        // More of them than one step takes: at once again.
        let hasMore = try !store.expired(at: now.wall, limit: 1).isEmpty
        nextExpiry = hasMore ? now.wall : try store.nextExpiry(after: now.wall) ?? Int64.max
    }

    // MARK: Indexes

    /// Messages that an index does not know would wait for ever: looked for once, in steps, soon after the opening.
    func compareIndexes(_ writes: PendingWrites) {
        let now = context.ports.moment
        guard comparisonDeadline <= now.mono, isPossible(writes), now.mono >= context.core.scheduler.storageUntil else { return }
        comparisonAt = now.mono + Self.comparisonPause
        guard !store.compareQueuedIndexes() else { return }
        guard mendIndexes(QueueError(.corrupt, "queued messages are missing from it")) else { return }
        context.core.scheduler.forgetBacklog(now)
    }

    /// An index that does not fit the messages is made anew from them, and the host is told. False: it could not be.
    func mendIndexes(_ error: QueueError) -> Bool {
        guard store.rebuildIndexes() else { return false }
        Log.error("\(store.path): an index was damaged and was rebuilt from the messages: \(error.detail)")
        events.emit(.storage(QueueError(.corrupt, "an index was damaged and was rebuilt from the messages")))
        events.countsChanged()
        historyGrew()
        return true
    }
}
