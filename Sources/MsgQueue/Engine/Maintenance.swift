/// Background work: expiry, pruning of the history, the comparison of the indexes, the check of the store, giving back free space. Under the
/// engine's lock.
final class Maintenance {
    /// Messages of the history that a transaction removed.
    struct Removal {
        var count = 0
        /// The damage of damaged ones.
        var damage: [QueueError] = []
    }

    /// The time between two prunings when nothing else requests one, in milliseconds.
    private static let interval: Int64 = 60_000
    /// The pause between two steps of the comparison or of the check, so that callers wait for one step at most.
    private static let comparisonPause: Int64 = 4
    /// The same of the comparison while others change the store: it takes a twentieth of their time.
    private static let comparisonPauseInUse: Int64 = 25
    /// How long messages in excess of the history's limit wait for commits of outcomes that remove them.
    private static let excessPause: Int64 = 50
    /// The pause between two steps of a search in the history, so that callers can use the disk in between.
    private static let searchPause: Int64 = 20

    private let context: EngineContext
    private let store: Store
    private let events: EventDelivery
    private let health: StoreHealth
    /// When the history is pruned next (monotonic).
    private var dueAt: Int64 = 0
    /// The same, if messages in excess of its limit are the only reason (monotonic).
    private var excessAt = Int64.max
    /// After a failure: the earliest next try (monotonic).
    private var retryAt: Int64 = 0
    /// When the next message expires (wall time).
    private var nextExpiry = Int64.max
    private var expirySearch = ExpirySearch()
    let clock: ClockCorrection
    /// When the next step of the comparison is due (monotonic).
    private var comparisonAt: Int64 = 0
    /// The commits of the store before the last step.
    private var comparedCommits = 0
    private var vacuum = VacuumSchedule()
    /// The most messages that one step of pruning removes.
    private var pruned = StepSize(32, in: 4...Int64(Pruning.limit))
    /// The same while steps have followed one another for `longPruning`, because messages are sent faster than they are removed.
    private var prunedLongs = StepSize(Int64(Pruning.limit), in: 4...Int64(Pruning.limit) * 8, longest: 10)
    private static let longPruning: Int64 = 250
    /// Since when steps of pruning follow one another (monotonic); nil: none is due.
    private var prunesSince: Int64?
    /// When the next step of the check is due (monotonic).
    private var checkAt: Int64 = 0

    init(_ context: EngineContext, _ events: EventDelivery, _ health: StoreHealth) {
        (self.context, store, self.events, self.health) = (context, context.store, events, health)
        clock = ClockCorrection(context)
    }

    /// Reads the first expiry when the queue is opened.
    func findExpiry() throws(QueueError) {
        nextExpiry = try store.queue.firstExpiry() ?? Int64.max
        if nextExpiry < context.ports.earliest { clock.hasUnknownExpiry() }
    }

    /// Plans to give back free space that the last session left, when the queue is opened.
    func findFreeSpace() throws(QueueError) {
        guard store.space.canVacuumInSteps else { return }
        let space = try store.space.sizes()
        guard vacuum.pages(file: space.file, free: space.free) != nil else { return }
        vacuum.wait(context.ports.mono(), commits: store.commits)
    }

    /// Notes that a queued message expires at this wall time.
    func expires(at time: Int64) {
        nextExpiry = min(nextExpiry, time)
        expirySearch.include(time)
    }

    /// Requests a pruning for a message that was added to the history.
    func historyGrew() {
        let options = context.options
        if let age = options.keepSentFor { dueAt = min(dueAt, context.ports.mono().addingClamped(age).addingClamped(Self.lateness(age))) }
        guard let keep = options.keepSent, store.counts.totals.prunable > keep else { return }
        // The timer's thread removes them while the transport is called. If the transport returns at once, the commits of outcomes do: the
        // timer's thread would write the same pages once more.
        let wait: Int64 = RetentionRule.isExcessive(store.counts.totals.prunable, limit: keep) ? Self.excessPause : 1_000
        excessAt = min(excessAt, context.ports.mono().addingClamped(wait))
    }

    /// The time in milliseconds by which messages may be removed too late that are to be kept for `age`.
    private static func lateness(_ age: Int64) -> Int64 { min(age / 20, interval) }

    /// Returns when the timer thread must call `run` (monotonic); at least once a minute while a message expires, because the wall clock
    /// may be set.
    func deadline(_ writes: PendingWrites) -> Int64 {
        guard isPossible(writes) else { return checkDeadline }
        if store.space.canVacuumInSteps { vacuum.note(commits: store.commits, at: context.ports.mono()) }
        let now = clock.observe()
        if dueAt == Int64.max, store.recentIDs.mayExist { dueAt = now.mono + Self.interval }
        var due = min(min(dueAt, excessAt), comparisonDeadline, vacuum.dueAt)
        due = min(due, expiryDeadline(now) ?? Int64.max, clock.deadline(now))
        return min(max(due, context.core.scheduler.gate.storageRetryAt, retryAt), checkDeadline)
    }

    /// When the next message expires (monotonic), at the latest in a minute; nil: none does.
    func expiryDeadline(_ now: Moment) -> Int64? {
        guard nextExpiry != Int64.max else { return nil }
        return now.mono + (clock.isRight(now) ? min(max(nextExpiry.subtractingClamped(now.wall), 0), 60_000) : 60_000)
    }

    /// Rejected facts are written first, because they change rows.
    private func isPossible(_ writes: PendingWrites) -> Bool {
        !writes.hasUnsaved && context.phase == .open && !store.isPoisoned
            && MaintenanceRule.changesByItself(context.options)
    }

    private var comparisonDeadline: Int64 { store.checks.areIndexesCompared ? Int64.max : comparisonAt }

    // MARK: One step, on the timer's thread

    /// Runs one short step of expiry and pruning.
    func run(_ writes: PendingWrites, _ transactions: Transactions) {
        let now = clock.observe()
        let expires = clock.isRight(now) && now.wall >= nextExpiry
        let corrects = now.mono >= clock.deadline(now)
        let prunes = now.mono >= min(dueAt, excessAt)
        guard prunes || expires || corrects else { return }
        guard isPossible(writes), now.mono >= max(context.core.scheduler.gate.storageRetryAt, retryAt) else { return }
        do throws(QueueError) {
            if corrects { for expiry in try clock.run(transactions, now) { self.expires(at: expiry) } }
            if expires { try expireAll(writes, now) }
            guard prunes else { return }
            let before = store.counts.totals
            let isLong = now.mono - (prunesSince ?? now.mono) > Self.longPruning
            switch try prune(transactions, now, limit: (isLong ? prunedLongs : pruned).value) {
            case .finished(let oldest): (dueAt, excessAt, prunesSince) = (nextPruning(oldest, now), Int64.max, nil)
            case .hasMore: (dueAt, prunesSince) = (now.mono, prunesSince ?? now.mono)
            case .isSearching: dueAt = now.mono + Self.searchPause
            }
            if store.counts.totals != before { events.countsChanged() }
            let time = context.ports.mono() - now.mono
            if isLong { prunedLongs.took(time) } else { pruned.took(time) }
        } catch {
            dueAt = now.mono + Self.interval
            (excessAt, retryAt) = (Int64.max, dueAt)
            health.report(error)
        }
    }

    /// Returns when the history is pruned next; Int64.max: not before it grows or an id is to be remembered. No message of it is older than
    /// `oldest`.
    private func nextPruning(_ oldest: Int64?, _ now: Moment) -> Int64 {
        let last = now.mono + Self.interval
        guard let age = context.options.keepSentFor else { return store.recentIDs.mayExist ? last : Int64.max }
        guard let oldest else { return last }
        let left = oldest.addingClamped(age).subtractingClamped(now.wall)
        return min(last, now.mono.addingClamped(max(left, 0)).addingClamped(max(Self.lateness(age), 1)))
    }

    private func prune(_ transactions: Transactions, _ now: Moment, limit: Int64) throws(QueueError) -> Pruning.Step {
        let options = context.options
        let (step, removal) = try transactions.run(durable: false) { () throws(QueueError) in
            var removal = Removal()
            let step = try store.pruning.prune(
                keepCount: options.keepSent,
                keepSince: clock.isRight(now) ? options.keepSentFor.map { now.wall.subtractingClamped($0) } : nil,
                forgetBefore: clock.isRight(now) || options.rememberIDs == 0 ? context.rememberedSince : Int64.min,
                now: now.wall, limit: Int(limit), damaged: { removal.damage.append($0) })
            return (step, removal)
        }
        report(removal)
        return step
    }

    /// Whether messages in excess of the history's limit must be removed now, because the timer's thread does not remove them fast enough.
    func hasExcess(_ writes: PendingWrites) -> Bool {
        guard let limit = context.options.keepSent, RetentionRule.isFull(store.counts.totals.prunable, limit: limit) else { return false }
        return isPossible(writes) && context.ports.mono() >= max(context.core.scheduler.gate.storageRetryAt, retryAt)
    }

    /// Whether a message is removed when it is sent, instead of entering the history.
    var removesSent: Bool { !RetentionRule.keepsSent(context.options.keepSent) && context.ports.mono() >= retryAt }

    /// Notes that messages could not be removed. They are removed later.
    func removalFailed(_ error: QueueError) {
        retryAt = context.ports.mono() + Self.interval
        health.report(error)
    }

    /// Removes messages in excess of the history's limit in the open transaction, so that the history never has many more, however fast they
    /// are sent. `outcomes`: those of the transaction, which may be many for a batch. `report` follows the commit.
    func removeExcess(outcomes: Int = 0) throws(QueueError) -> Removal {
        var removal = Removal()
        var (left, count) = (RetentionRule.removals(outcomes: outcomes, step: Pruning.limit), 1)
        while left > 0, count > 0 {
            count = try store.pruning.pruneExcess(keepCount: context.options.keepSent, now: context.ports.wall(), limit: left) {
                removal.damage.append($0)
            }
            removal.count += count
            left -= count
        }
        if removal.count > 0 { excessAt = max(excessAt, context.ports.mono().addingClamped(Self.excessPause)) }
        return removal
    }

    /// Removes messages in excess of the history's limit that the commits of their outcomes have not removed.
    func pruneExcess(_ writes: PendingWrites, _ transactions: Transactions) {
        guard !store.isInTransaction, hasExcess(writes) else { return }
        do throws(QueueError) {
            report(try transactions.run(durable: false) { () throws(QueueError) in try removeExcess() })
        } catch {
            removalFailed(error)
        }
    }

    /// Reports messages that were removed, after the commit.
    func report(_ removal: Removal) {
        for error in removal.damage {
            Log.error("\(store.path): \(error.detail)")
            events.emit(.storage(error))
        }
        if removal.count > 0 { events.countsChanged() }
    }

    /// Fails messages whose expiry time has passed, wherever they stand in the queue.
    private func expireAll(_ writes: PendingWrites, _ now: Moment) throws(QueueError) {
        // A message in flight is checked when its attempt ends.
        let first = expirySearch.time
        var isDone = false
        defer { if !isDone { expires(at: first) } }
        let expired = try store.queue.expired(at: now, &expirySearch, limit: 64)
        for (conversation, sequence) in expired.found {
            try writes.withRow(sequence, conversation, now) { context.core.expired($0, sequence, conversation, now) }
        }
        // The commit may put back messages that have expired meanwhile.
        nextExpiry = Int64.max
        guard writes.commit() else { return }
        // More messages have expired than one step processes: run again at once.
        let next = expired.isComplete ? try store.queue.nextExpiry(after: now.wall) ?? Int64.max : now.wall
        nextExpiry = min(nextExpiry, next, expired.later.map { now.wall.addingClamped($0.subtractingClamped(now.mono)) } ?? Int64.max)
        isDone = true
    }

    // MARK: Free space

    /// Gives back free space of the file in short steps while nothing else uses the store.
    func giveBackSpace(_ writes: PendingWrites, _ transactions: Transactions) {
        let now = context.ports.mono()
        guard now >= vacuum.dueAt, isPossible(writes), now >= max(context.core.scheduler.gate.storageRetryAt, retryAt) else { return }
        guard !vacuum.wasUsed(commits: store.commits) else { return vacuum.wait(now, commits: store.commits) }
        // The commit of the attempt's outcome plans the next step.
        guard context.core.scheduler.flights.isEmpty, !context.hasStart else { return vacuum.end(commits: store.commits) }
        do throws(QueueError) {
            let space = try store.space.sizes()
            guard let pages = vacuum.pages(file: space.file, free: space.free) else {
                if vacuum.isRunning { store.log.shortenFile() }
                return vacuum.end(commits: store.commits)
            }
            try transactions.run(durable: false) { () throws(QueueError) in try store.space.vacuumStep(pages: pages) }
            vacuum.ranStep(from: now, to: context.ports.mono(), commits: store.commits)
        } catch {
            vacuum.end(commits: store.commits)
            retryAt = now + Self.interval
            health.report(error)
        }
    }

    // MARK: Indexes

    /// Compares the indexes of queued messages with each other, and the list of conversations with the messages, once, in steps after the
    /// opening. A message missing from the indexes would never be sent.
    func compareIndexes(_ writes: PendingWrites) {
        let now = context.ports.moment
        guard comparisonDeadline <= now.mono, isPossible(writes), now.mono >= context.core.scheduler.gate.storageRetryAt else { return }
        comparisonAt = now.mono + (store.commits == comparedCommits ? Self.comparisonPause : Self.comparisonPauseInUse)
        comparedCommits = store.commits
        guard let difference = store.checks.compareIndexes(), rebuildIndexes(QueueError(.corrupt, difference)) else { return }
        context.core.scheduler.forgetBacklog(now)
    }

    private var checkDeadline: Int64 {
        store.checks.isDue && context.phase == .open && !store.isPoisoned ? checkAt : Int64.max
    }

    /// Checks the store in steps after its system stopped while it was in use. The store is in use meanwhile: no message is sent or
    /// returned before it was compared with its checksum.
    func checkStore() {
        let now = context.ports.mono()
        guard checkDeadline <= now else { return }
        checkAt = now + Self.comparisonPause
        do throws(QueueError) {
            switch try store.checks.step() {
            case .unfinished: break
            case .sound: Log.info("\(store.path): the check after the system stopped found no damage")
            case .damaged(let text, let differs):
                let error = QueueError(.corrupt, "the check after the system stopped found damage: \(text)")
                Log.error("\(store.path): \(error.detail)")
                events.emit(.storage(error))
                guard differs, MaintenanceRule.changesByItself(context.options), rebuildIndexes(error) else { return }
                context.core.scheduler.forgetBacklog(context.ports.moment)
            }
        } catch {
            checkAt = now + Self.interval
            health.report(error)
        }
    }

    /// Rebuilds the indexes from the messages and reports it. Returns false if that failed.
    func rebuildIndexes(_ error: QueueError) -> Bool {
        let before = store.counts.messages
        guard store.rebuildIndexes() else { return false }
        let missing = before - store.counts.messages
        let loss = missing > 0 ? "; \(Words.messages(missing)) that the counts contained are missing" : ""
        Log.error("\(store.path): rebuilt a damaged index from the messages: \(error.detail)\(loss)")
        events.emit(.storage(QueueError(.corrupt, "rebuilt a damaged index from the messages\(loss)")))
        events.countsChanged()
        historyGrew()
        // The index may have lacked messages that have expired.
        expires(at: 1)
        return true
    }
}
