/// The wrong wall clock by which messages were enqueued.
enum WrongClock {
    case notSeen
    /// It was ahead of the monotonic clock by this much.
    case ahead(Int64)
    /// It is not known by which of them a message was stamped.
    case several

    /// Returns how long ago that clock showed this time in the present boot, at least.
    func elapsed(since time: Int64, _ now: Moment) -> Int64 {
        guard case .ahead(let shift) = self else { return 0 }
        return min(max(now.mono.subtractingClamped(time.subtractingClamped(shift)), 0), max(now.mono, 0))
    }
}

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
    /// The pause between two steps of a search in the history, so that callers can use the disk in between.
    private static let searchPause: Int64 = 20

    private let context: EngineContext
    private let store: Store
    private let events: EventDelivery
    private let health: StoreHealth
    /// When the history is pruned next (monotonic).
    private var dueAt: Int64 = 0
    /// After a failure: the earliest next try (monotonic).
    private var retryAt: Int64 = 0
    /// When the next message expires (wall time).
    private var nextExpiry = Int64.max
    private var expirySearch = ExpirySearch()
    /// When messages of a wrong clock are looked for, if the clock is right (monotonic).
    private var correctionAt = Int64.max
    private var wrongClock = WrongClock.notSeen
    /// When the next step of the comparison is due (monotonic).
    private var comparisonAt: Int64 = 0
    private var vacuum = VacuumSchedule()
    /// The most messages that one step of pruning removes.
    private var pruned = StepSize(32, in: 4...Int64(Store.pruneLimit))
    /// When the next step of the check is due (monotonic).
    private var checkAt: Int64 = 0

    init(_ context: EngineContext, _ events: EventDelivery, _ health: StoreHealth) {
        (self.context, store, self.events, self.health) = (context, context.store, events, health)
    }

    /// Reads the first expiry when the queue is opened.
    func findExpiry() throws(QueueError) {
        nextExpiry = try store.firstExpiry() ?? Int64.max
        if nextExpiry < context.ports.earliest { correctionAt = 0 }
    }

    // MARK: Wrong clocks

    private func isRight(_ now: Moment) -> Bool { now.wall >= context.ports.earliest }

    /// Whether a wrong clock computed this expiry. When it shows a plausible time, the message gets another one.
    func isUnknown(expiry: Int64, _ now: Moment) -> Bool { expiry != 0 && !isRight(now) && expiry < context.ports.earliest }

    /// Notes that a message with such an expiry was enqueued.
    func hasUnknownExpiry(_ now: Moment) {
        correctionAt = 0
        let ahead = now.wall.subtractingClamped(now.mono)
        switch wrongClock {
        case .notSeen: wrongClock = .ahead(ahead)
        case .ahead(let before) where abs(before.subtractingClamped(ahead)) > 1_000: wrongClock = .several
        case .ahead, .several: break
        }
    }

    /// Gives messages that were enqueued while the clock was wrong an expiry by the right clock. What remains of their time is measured by the
    /// boot clock if this process saw the wrong clock; otherwise the time begins again.
    private func correctExpiries(_ transactions: Transactions, _ now: Moment) throws(QueueError) {
        let found = try store.unknownExpiries(before: context.ports.earliest, limit: 64)
        correctionAt = found.isEmpty ? Int64.max : now.mono
        let waiting = found.filter { !$0.isInFlight }
        guard !waiting.isEmpty else {
            if !found.isEmpty { correctionAt = now.mono + 1_000 }
            return
        }
        var corrected: [Int64] = []
        try transactions.run(durable: false) { () throws(QueueError) in
            corrected = []
            for (sequence, _) in waiting {
                guard let row = try intactRow(sequence) else { continue }
                let whole = max(row.expiresAt.subtractingClamped(max(row.createdAt, row.notBefore)), 0)
                let elapsed = wrongClock.elapsed(since: row.createdAt, now)
                let expiry = max(now.wall.addingClamped(whole.subtractingClamped(elapsed)), context.ports.earliest)
                try store.correctExpiry(of: row, to: expiry)
                corrected.append(expiry)
            }
        }
        if corrected.isEmpty { correctionAt = now.mono + Self.interval }
        for expiry in corrected { expires(at: expiry) }
        context.core.scheduler.forgetBacklog(now)
    }

    /// Returns the row of a message; nil: it is damaged, which is reported when it is to be sent.
    private func intactRow(_ sequence: Int64) throws(QueueError) -> Row? {
        do throws(QueueError) { return try store.row(at: sequence, .whole) } catch {
            guard error.code == .corrupt, !error.isIndex else { throw error }
            return nil
        }
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
        guard let keep = options.keepSent, store.totals.prunable > keep else { return }
        // The timer's thread removes them while the transport is called.
        let wait: Int64 = RetentionRule.isExcessive(store.totals.prunable, limit: keep) ? 0 : 1_000
        dueAt = min(dueAt, context.ports.mono().addingClamped(wait))
    }

    /// The time in milliseconds by which messages may be removed too late that are to be kept for `age`.
    private static func lateness(_ age: Int64) -> Int64 { min(age / 20, interval) }

    /// Returns when the timer thread must call `run` (monotonic); at least once a minute while a message expires, because the wall clock
    /// may be set.
    func deadline(_ writes: PendingWrites) -> Int64 {
        guard isPossible(writes) else { return checkDeadline }
        if store.canVacuumInSteps { vacuum.note(commits: store.commits, at: context.ports.mono()) }
        var due = min(dueAt, comparisonDeadline, vacuum.dueAt)
        let now = context.ports.moment
        if nextExpiry != Int64.max {
            let wait = isRight(now) ? min(max(nextExpiry.subtractingClamped(now.wall), 0), 60_000) : 60_000
            due = min(due, now.mono + wait)
        }
        if isRight(now) { due = min(due, correctionAt) }
        return min(max(due, context.core.scheduler.storageRetryAt, retryAt), checkDeadline)
    }

    /// Rejected facts are written first, because they change rows.
    private func isPossible(_ writes: PendingWrites) -> Bool {
        !writes.hasUnsaved && context.phase == .open && !store.isPoisoned
            && MaintenanceRule.changesByItself(context.options)
    }

    private var comparisonDeadline: Int64 { store.areIndexesCompared ? Int64.max : comparisonAt }

    // MARK: One step, on the timer's thread

    /// Runs one short step of expiry and pruning.
    func run(_ writes: PendingWrites, _ transactions: Transactions) {
        let now = context.ports.moment
        let expires = isRight(now) && now.wall >= nextExpiry
        let corrects = isRight(now) && now.mono >= correctionAt
        guard now.mono >= dueAt || expires || corrects else { return }
        guard isPossible(writes), now.mono >= max(context.core.scheduler.storageRetryAt, retryAt) else { return }
        do throws(QueueError) {
            if corrects { try correctExpiries(transactions, now) }
            if expires { try expireAll(writes, now) }
            guard now.mono >= dueAt else { return }
            let before = store.totals
            switch try prune(transactions, now) {
            case .finished(let oldest): dueAt = nextPruning(oldest, now)
            case .hasMore: dueAt = now.mono
            case .isSearching: dueAt = now.mono + Self.searchPause
            }
            if store.totals != before { events.countsChanged() }
            pruned.took(context.ports.mono() - now.mono)
        } catch {
            dueAt = now.mono + Self.interval
            retryAt = dueAt
            health.report(error)
        }
    }

    /// Returns when the history is pruned next. No message of it is older than `oldest`.
    private func nextPruning(_ oldest: Int64?, _ now: Moment) -> Int64 {
        let last = now.mono + Self.interval
        guard let oldest, let age = context.options.keepSentFor else { return last }
        let left = oldest.addingClamped(age).subtractingClamped(now.wall)
        return min(last, now.mono.addingClamped(max(left, 0)).addingClamped(max(Self.lateness(age), 1)))
    }

    private func prune(_ transactions: Transactions, _ now: Moment) throws(QueueError) -> Store.PruneStep {
        let options = context.options
        let (step, removal) = try transactions.run(durable: false) { () throws(QueueError) in
            var removal = Removal()
            let step = try store.prune(
                keepCount: options.keepSent, keepSince: isRight(now) ? options.keepSentFor.map { now.wall.subtractingClamped($0) } : nil,
                forgetBefore: isRight(now) || options.rememberIDs == 0 ? context.rememberedSince : Int64.min,
                earliest: context.ports.earliest, now: now.wall, limit: Int(pruned.value), damaged: { removal.damage.append($0) })
            return (step, removal)
        }
        report(removal)
        return step
    }

    /// Whether messages in excess of the history's limit must be removed now, because the timer's thread does not remove them fast enough.
    func hasExcess(_ writes: PendingWrites) -> Bool {
        guard let limit = context.options.keepSent, RetentionRule.isFull(store.totals.prunable, limit: limit) else { return false }
        return isPossible(writes) && context.ports.mono() >= max(context.core.scheduler.storageRetryAt, retryAt)
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
        var (left, count) = (RetentionRule.removals(outcomes: outcomes, step: Store.pruneLimit), 1)
        while left > 0, count > 0 {
            count = try store.pruneExcess(keepCount: context.options.keepSent, now: context.ports.wall(), limit: left) {
                removal.damage.append($0)
            }
            removal.count += count
            left -= count
        }
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
        let (expired, isComplete) = try store.expired(at: now.wall, &expirySearch, limit: 64)
        for (conversation, sequence) in expired {
            try writes.withRow(sequence, conversation, now) { context.core.expired($0, sequence, conversation, now) }
        }
        // The commit may put back messages that have expired meanwhile.
        nextExpiry = Int64.max
        guard writes.commit() else { return }
        // More messages have expired than one step processes: run again at once.
        nextExpiry = min(nextExpiry, isComplete ? try store.nextExpiry(after: now.wall) ?? Int64.max : now.wall)
        isDone = true
    }

    // MARK: Free space

    /// Gives back free space of the file in short steps while nothing else uses the store.
    func giveBackSpace(_ writes: PendingWrites, _ transactions: Transactions) {
        let now = context.ports.mono()
        guard now >= vacuum.dueAt, isPossible(writes), now >= max(context.core.scheduler.storageRetryAt, retryAt) else { return }
        guard !vacuum.wasUsed(commits: store.commits) else { return vacuum.wait(now, commits: store.commits) }
        // The commit of the attempt's outcome plans the next step.
        guard context.core.scheduler.flights.isEmpty, !context.hasStart else { return vacuum.end(commits: store.commits) }
        do throws(QueueError) {
            let space = try store.space()
            guard let pages = vacuum.pages(file: space.file, free: space.free) else {
                if vacuum.isRunning { store.shortenFile() }
                return vacuum.end(commits: store.commits)
            }
            try transactions.run(durable: false) { () throws(QueueError) in try store.vacuumStep(pages: pages) }
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
        guard comparisonDeadline <= now.mono, isPossible(writes), now.mono >= context.core.scheduler.storageRetryAt else { return }
        comparisonAt = now.mono + Self.comparisonPause
        guard let difference = store.compareIndexes(), rebuildIndexes(QueueError(.corrupt, difference)) else { return }
        context.core.scheduler.forgetBacklog(now)
    }

    private var checkDeadline: Int64 {
        store.isCheckDue && context.phase == .open && !store.isPoisoned ? checkAt : Int64.max
    }

    /// Checks the store in steps after its system stopped while it was in use. The store is in use meanwhile: no message is sent or
    /// returned before it was compared with its checksum.
    func checkStore() {
        let now = context.ports.mono()
        guard checkDeadline <= now else { return }
        checkAt = now + Self.comparisonPause
        do throws(QueueError) {
            switch try store.checkStep() {
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
        let before = store.messages
        guard store.rebuildIndexes() else { return false }
        let missing = before - store.messages
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
