@testable import MsgQueue

/// The engine around a scheduler, in memory and in virtual time: it performs the steps as the engine does, over a fake store, and has a
/// judge look at each.
final class Simulation {
    let options: Options
    let policy: RetryPolicy
    var store = FakeStore()
    var scheduler: Scheduler
    var judge: Judge
    var now = Moment(wall: 1_700_000_000_000, mono: 5_000_000)
    var boot: Int64 = 1
    var journal: [(at: Int64, what: Happening)] = []
    /// The transport answers in its call (false: later).
    var answersInCall = false
    var storeIsBroken = false
    /// What the scheduler said last.
    var deadline: Int64?
    /// It has something to start.
    var hasStart = false
    /// How much may happen between two waits.
    var stepLimit = 10_000

    var nextToken: UInt64 = 1
    var rounds: UInt32 = 0
    /// Drains that a restart ended without a report.
    var lostDrains = 0
    var late: [UInt64: Flight] = [:]
    var unsaved: [(sequence: Int64, conversation: Name, isOutcome: Bool, write: (inout FakeStore) -> Void)] = []
    var storageUntil: Int64 = 0
    var storageDelay: Int64 = 0

    init(_ options: Options = Options(), hasTransport: Bool = true) {
        self.options = options
        policy = RetryPolicy(options)
        scheduler = Scheduler(options, Opening(boot: 1, moment: now))
        judge = Judge(options)
        if hasTransport {
            scheduler.transportChanged(present: true, now)
            judge.hasTransport = true
        }
    }

    convenience init(
        _ mode: Mode, direct: Bool = true, backoff: Backoff = .automatic, maxInFlight: Int = 1, _ change: (inout Options) -> Void = { _ in }
    ) {
        var options = Options(mode: mode, backoff: backoff, maxInFlight: maxInFlight)
        options.direct = direct
        change(&options)
        self.init(options)
    }

    func note(_ what: Happening) { journal.append((now.mono, what)) }

    // MARK: Looking

    /// Sequences, in the order in which their attempts were started.
    var starts: [Int64] {
        journal.compactMap { if case .started(let sequence, _, _) = $0.what { sequence } else { nil } }
    }

    var reports: [Report] {
        journal.compactMap { if case .drainFinished(let report) = $0.what { report } else { nil } }
    }

    func count(_ what: Happening) -> Int { journal.count { $0.what == what } }

    /// Attempts that wait for an answer, oldest first.
    var flights: [Flight] {
        scheduler.flights.values.filter { !$0.isEnded }.sorted { $0.token < $1.token }
    }

    var inFlight: [Int64] { flights.map(\.sequence) }

    func status(_ sequence: Int64) -> MessageStatus? {
        if inFlight.contains(sequence) { return .sending }
        return store[sequence]?.progress.status
    }

    var sendingPlaces: Set<Int64> {
        Set(inFlight).union(unsaved.filter(\.isOutcome).map(\.sequence))
    }

    /// The last lines of the journal, for a person.
    func tail(_ lines: Int = 40) -> String {
        journal.suffix(lines).map { "  \($0.at) \($0.what)" }.joined(separator: "\n")
    }

    // MARK: Steps

    /// Performs steps until there is nothing to do, or more than `starts` attempts to start. How many were started.
    @discardableResult
    func settle(starts most: Int = .max) throws -> Int {
        var begun = 0
        for _ in 0..<stepLimit {
            saveUnsaved()
            judge.look(now)
            let inSession = scheduler.session?.conversation.map { Int64(store.count(of: $0)) }
            let step = scheduler.next(now, queued: Int64(store.queued.count), inSession: inSession)
            switch step {
            case .start(let conversation, let sequence, let hand):
                hasStart = true
                guard begun < most else { return begun }
                if try begin(conversation, sequence, hand) { begun += 1 }
            case .wait(let until):
                (hasStart, deadline) = (false, until)
                if case .waiting = journal.last?.what {} else { note(.waiting(until: until)) }
                try judge.waits(until: until, self)
                return begun
            case .scan(let after, let limit):
                let rows = store.queued(after: after, limit: limit)
                note(.read(nil, after: after, rows: rows.count))
                scheduler.scanned(rows, complete: rows.count < limit, now)
            case .load(let conversation, let after, let limit):
                let heads = store.queued(in: conversation, after: after, limit: limit)
                note(.read(conversation, after: after, rows: heads.count))
                scheduler.loaded(conversation, heads, complete: heads.count < limit, now)
            case .expire(let conversation, let sequence): try expire(conversation, sequence)
            case .seek(let after, let limit):
                let rows = store.queued(after: after, limit: limit)
                note(.read(nil, after: after, rows: rows.count))
                scheduler.sought(rows, complete: rows.count < limit, now)
            case .endUnreachable(_, let sequence, let hand):
                guard let message = store[sequence], judge.forced[sequence] == hand, !judge.isOnline else {
                    throw Violation("message \(sequence) ended as offline, by \(hand)")
                }
                endUnreachable(message, hand)
            case .timeOut(let token): try timeOut(token)
            case .finish(let stop): try finish(stop)
            case .raisePrompt:
                try judge.raisesPrompt(self)
                note(.prompt)
                scheduler.promptRaised(now)
            case .withdrawPrompt:
                try judge.withdrawsPrompt(self)
                note(.promptWithdrawn)
                scheduler.promptWithdrawn()
            }
        }
        throw Violation("\(stepLimit) steps without a wait")
    }

    private func begin(_ conversation: Name, _ sequence: Int64, _ hand: Hand) throws -> Bool {
        guard let message = store[sequence],
            message.progress.status == .queued || (message.progress.status == .failed && hand == .retry)
        else {
            scheduler.removed(sequence, conversation, now)
            return false
        }
        if hand != .retry, judge.hasExpired(message, now) {
            try expire(conversation, sequence)
            return false
        }
        guard !storeIsBroken else {
            storageTrouble()
            return false
        }
        try judge.starts(message, conversation, hand, self)
        note(.started(sequence, conversation, hand))
        let timeout = hand.isOutOfTurn ? options.manualTimeout : options.attemptTimeout
        let flight = Flight(
            token: nextToken, conversation: conversation, sequence: sequence, number: message.progress.attempts + 1, hand: hand,
            startedAt: now, deadline: now.mono + timeout)
        nextToken += 1
        store.update(sequence) { message in
            if message.progress.status == .failed {
                message.progress.status = .queued
                message.progress.retriesUsed = 0
            }
            message.cut = (flight.number, now.wall)
        }
        scheduler.started(flight, now)
        refreshBlock(conversation)
        if !answersInCall { scheduler.callReturned(flight.token, now) }
        return true
    }

    private func expire(_ conversation: Name, _ sequence: Int64) throws {
        scheduler.removed(sequence, conversation, now)
        guard let message = store[sequence], message.progress.status == .queued else { return }
        try judge.expires(message, self)
        note(.expired(sequence))
        let (progress, _) = OutcomeRule.expire(message.progress, expiresAt: message.expiresAt, now: now.wall)
        scheduler.count(conversation) { $0.failed += 1 }
        record(message, isOutcome: false) { $0.update(sequence) { $0.progress = progress } }
    }

    private func timeOut(_ token: UInt64) throws {
        guard let flight = scheduler.flights[token] else { throw Violation("no attempt \(token) can time out") }
        guard flight.deadline <= now.mono, !flight.isEnded else { throw Violation("attempt \(token) timed out too early") }
        note(.timedOut(flight.sequence))
        late[token] = flight
        try end(flight, .retry(.timeout), timedOut: true)
    }

    private func finish(_ stop: Report.Stop) throws {
        var report = scheduler.session?.report ?? Report()
        report.stop = stop
        report.remaining = Int64(scheduler.session?.conversation.map { store.count(of: $0) } ?? store.queued.count)
        try judge.finishes(report, self)
        note(.drainFinished(report))
        if scheduler.finished(now) { judge.nextDrainStarted(self) }
    }

    // MARK: Ends

    /// What an outcome makes of its message.
    func end(_ flight: Flight, _ outcome: Outcome, timedOut: Bool = false) throws {
        guard let message = store[flight.sequence] else { throw Violation("message \(flight.sequence) vanished while it was sent") }
        let judgement = Classification.judge(
            outcome, now: now.wall, perhapsArrived: message.progress.perhapsArrived, conflictIsSent: options.conflictIsSent)
        let resolution = OutcomeRule.resolve(
            judgement, flight.trial(now), of: message.progress, policy: policy, discardExhausted: options.discardExhausted,
            discardRefused: options.discardRefused, pauseOnUnauthorized: options.pauseOnUnauthorized, now: now, boot: boot,
            returnedAt: scheduler.returnedAt, random: 0.5)
        var back: Head?
        if resolution.fate == .queued {
            back = message.head
            back?.due = resolution.progress.due
            back?.waitsForNetwork = resolution.progress.waitsForNetwork
        }
        note(.ended(flight.sequence, resolution.fate))
        judge.ended(message, resolution, self)
        if resolution.fate == .failed { scheduler.failed(flight.sequence, message.conversation, now) }
        scheduler.ended(flight.token, back: back, offline: resolution.isOffline, timedOut: timedOut, now)
        if resolution.pausesQueue { pause() }
        var hold: Due?
        if let delay = Classification.queueDelay(outcome, now: now.wall) {
            let due = Due(after: delay, now, boot: boot)
            if scheduler.limit(until: due.uptime, now) { hold = due }
        }
        scheduler.count(message.conversation) { report in
            switch resolution.fate {
            case .sent: report.sent += 1
            case .failed: report.failed += 1
            case .discarded: report.discarded += 1
            case .queued, .deleted: break
            }
        }
        record(message, isOutcome: true) { store in
            if let hold { store.hold = hold }
            switch resolution.fate {
            case .discarded, .deleted: store.delete(flight.sequence)
            case .sent, .queued, .failed:
                store.update(flight.sequence) { message in
                    message.cut = nil
                    message.progress = resolution.progress
                }
            }
        }
    }

    // MARK: A store in trouble

    func record(_ message: FakeMessage, isOutcome: Bool, _ write: @escaping (inout FakeStore) -> Void) {
        if storeIsBroken {
            unsaved.append((message.sequence, message.conversation, isOutcome, write))
            storageTrouble()
        } else {
            write(&store)
            refreshBlock(message.conversation)
        }
    }

    /// Where a failure for good holds its conversation.
    func refreshBlock(_ conversation: Name) {
        guard options.blocksOnFailure else { return }
        scheduler.block(conversation, at: store.firstFailed(in: conversation), now)
    }

    func storageTrouble() {
        storageDelay = min(max(storageDelay * 2, 250), 60_000)
        storageUntil = now.mono + storageDelay
        scheduler.storageFailed(until: storageUntil)
    }

    private func saveUnsaved() {
        guard storageDelay > 0, now.mono >= storageUntil else { return }
        guard !storeIsBroken else {
            if !unsaved.isEmpty { storageTrouble() }
            return
        }
        for fact in unsaved {
            fact.write(&store)
            refreshBlock(fact.conversation)
        }
        unsaved = []
        (storageDelay, storageUntil) = (0, 0)
        note(.storageWell)
        scheduler.storageRecovered(now)
    }
}
