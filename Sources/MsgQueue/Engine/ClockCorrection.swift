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

/// Notes when the wall clock is set, and corrects the stored times of queued messages that depend on it: those that a plainly wrong clock
/// computed, and those that were given as durations, which would be wrong after a reboot. Under the engine's lock.
final class ClockCorrection {
    /// The most messages that one step reads, and changes.
    private static let (read, changed): (Int64, Int) = (2_000, 64)
    /// How long messages that could not be corrected are left alone, in milliseconds.
    private static let pause: Int64 = 60_000

    private let context: EngineContext
    private let store: Store
    private let boot: Int64
    /// Longer ages of messages do not matter.
    private let longestAge: Int64
    /// When messages of a wrong clock are looked for, if the clock is right (monotonic).
    private var unknownAt = Int64.max
    private var wrongClock = WrongClock.notSeen
    /// After a step of the clock: the durations up to this message have been corrected; nil: all.
    private var cursor: Int64?
    private var cursorAt: Int64 = 0
    private var hasChanged = false

    init(_ context: EngineContext) {
        (self.context, store) = (context, context.store)
        boot = context.core.opening.boot
        longestAge = max(context.options.keepSentFor ?? 0, context.options.rememberIDs)
    }

    /// Reads the clocks, and notes whether the wall clock was set.
    func observe() -> Moment {
        let now = context.ports.moment
        let step = store.state.clock.note(now, boot: boot, longestAge: longestAge)
        guard step != 0 else { return now }
        if step.magnitude >= ClockSteps.leastStep {
            let way = step > 0 ? "forward" : "back"
            Log.info("\(store.path): the system's clock was set \(way) by \(Words.interval(step == Int64.min ? Int64.max : abs(step)))")
        }
        (cursor, cursorAt) = (0, now.mono)
        return now
    }

    func isRight(_ now: Moment) -> Bool { now.wall >= context.ports.earliest }

    /// Whether a wrong clock computed this expiry. When it shows a plausible time, the message gets another one.
    func isUnknown(expiry: Int64, _ now: Moment) -> Bool { expiry != 0 && !isRight(now) && expiry < context.ports.earliest }

    /// Notes that there are messages whose expiry a wrong clock computed.
    func hasUnknownExpiry() { unknownAt = 0 }

    /// Notes that a message with such an expiry was enqueued.
    func enqueuedUnknownExpiry(_ now: Moment) {
        unknownAt = 0
        let ahead = now.wall.subtractingClamped(now.mono)
        switch wrongClock {
        case .notSeen: wrongClock = .ahead(ahead)
        case .ahead(let before) where abs(before.subtractingClamped(ahead)) > 1_000: wrongClock = .several
        case .ahead, .several: break
        }
    }

    /// When `run` has something to do (monotonic).
    func deadline(_ now: Moment) -> Int64 { min(isRight(now) ? unknownAt : Int64.max, cursor == nil ? Int64.max : cursorAt) }

    /// Runs one short step. Returns the corrected expiries.
    func run(_ transactions: Transactions, _ now: Moment) throws(QueueError) -> [Int64] {
        var corrected: [Int64] = []
        if isRight(now), now.mono >= unknownAt { corrected += try correctUnknown(transactions, now) }
        if let cursor, now.mono >= cursorAt { corrected += try correctDurations(after: cursor, transactions, now) }
        return corrected
    }

    /// Gives messages that were enqueued while the clock was wrong an expiry by the right clock. What remains of their time is measured by the
    /// boot clock if this process saw the wrong clock; otherwise the time begins again.
    private func correctUnknown(_ transactions: Transactions, _ now: Moment) throws(QueueError) -> [Int64] {
        let found = try store.queue.unknownExpiries(before: context.ports.earliest, limit: Self.changed)
        unknownAt = found.isEmpty ? Int64.max : now.mono
        let waiting = found.filter { !$0.isInFlight }
        guard !waiting.isEmpty else {
            if !found.isEmpty { unknownAt = now.mono + 1_000 }
            return []
        }
        var corrected: [Int64] = []
        try transactions.run(durable: false) { () throws(QueueError) in
            corrected = []
            for (sequence, _) in waiting {
                guard let row = try intactRow(sequence) else { continue }
                let expiry = max(expiry(of: row, now), context.ports.earliest)
                try store.messages.correctExpiry(of: row, to: expiry)
                corrected.append(expiry)
            }
        }
        if corrected.isEmpty { unknownAt = now.mono + Self.pause }
        context.core.scheduler.forgetBacklog(now)
        return corrected
    }

    private func expiry(of row: Row, _ now: Moment) -> Int64 {
        guard row.bootTimes.expiry == 0 else { return row.expiry(now) }
        let whole = max(row.expiresAt.subtractingClamped(max(row.createdAt, row.notBefore)), 0)
        return now.wall.addingClamped(whole.subtractingClamped(wrongClock.elapsed(since: row.createdAt, now)))
    }

    /// Stores the wall times of durations by the clock as it is set now.
    private func correctDurations(after first: Int64, _ transactions: Transactions, _ now: Moment) throws(QueueError) -> [Int64] {
        let (found, last) = try store.queue.displaced(after: first, now, limit: Self.read)
        let due = found.filter { !$0.isInFlight }.prefix(Self.changed)
        var corrected: [Int64] = []
        var rows: [Row] = []
        if !due.isEmpty {
            try transactions.run(durable: false) { () throws(QueueError) in
                (corrected, rows) = ([], [])
                store.state.requireWrite()
                for (sequence, _) in due {
                    guard let row = try intactRow(sequence) else { continue }
                    let expiry = row.expiry(now)
                    let isKnown = row.progress.ignoresExpiry && isUnknown(stored: row.expiresAt) && !isUnknown(stored: expiry)
                    let changed = try store.messages.correctTimes(of: row, notBefore: row.start(now), expiresAt: expiry)
                    if isKnown { try store.messages.correctExpiry(of: changed, to: expiry) }
                    rows.append(changed)
                    if expiry != 0 { corrected.append(expiry) }
                }
            }
            hasChanged = true
            for row in rows { context.core.corrected(row.sequence, contentHash: row.contentHash) }
        }
        if due.count == Self.changed, let end = due.last?.sequence {
            cursor = end
        } else if let sent = found.first(where: \.isInFlight) {
            // It is not changed while it is being sent.
            (cursor, cursorAt) = (sent.sequence - 1, now.mono + 1_000)
        } else {
            cursor = last
        }
        guard cursor == nil, hasChanged else { return corrected }
        hasChanged = false
        context.core.scheduler.forgetBacklog(now)
        return corrected
    }

    private func isUnknown(stored expiry: Int64) -> Bool { expiry < context.ports.earliest }

    /// Returns the row of a message; nil: it is damaged, which is reported when it is to be sent.
    private func intactRow(_ sequence: Int64) throws(QueueError) -> Row? {
        do throws(QueueError) { return try store.messages.row(at: sequence, .whole) } catch {
            guard error.code == .corrupt, !error.isIndex else { throw error }
            return nil
        }
    }
}
