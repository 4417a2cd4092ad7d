@testable import MsgQueue

/// The engine around a scheduler, in memory and in virtual time: it performs the steps as the engine does, over a fake store, and has a
/// judge look at each.
final class Simulation {
    let options: Options
    var store = FakeStore()
    var core: Core
    var scheduler: Scheduler {
        get { core.scheduler }
        set { core.scheduler = newValue }
        _modify { yield &core.scheduler }
    }
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

    var rounds: UInt32 = 0
    /// Drains that a restart ended without a report.
    var lostDrains = 0
    /// Attempts that timed out, and were not answered since.
    var late: Set<UInt64> = []
    var unsaved: [Fact] = []
    var storageUntil: Int64 = 0
    var storageDelay: Int64 = 0

    init(_ options: Options = Options(), hasTransport: Bool = true) {
        self.options = options
        core = Core(options, Opening(boot: 1, moment: now), firstToken: 1, openedAt: now.wall)
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
            case .expire(let conversation, let sequence):
                try perform(core.expired(store[sequence]?.row, sequence, conversation, now))
            case .seek(let after, let limit):
                let rows = store.queued(after: after, limit: limit)
                note(.read(nil, after: after, rows: rows.count))
                scheduler.sought(rows, complete: rows.count < limit, now)
            case .endUnreachable(let conversation, let sequence, let hand):
                let isHeld = !judge.isOnline || scheduler.isPaused || scheduler.pausedConversations.contains(conversation)
                guard judge.forced[sequence] == hand, isHeld else {
                    throw Violation("the request for message \(sequence) ended, by \(hand)")
                }
                judge.forced[sequence] = nil
                try perform(core.wishEnded(store[sequence]?.row, sequence, conversation, hand, now))
            case .timeOut(let token): try timeOut(token)
            case .finish(let stop): try finish(stop)
            case .raisePrompt:
                try judge.raisesPrompt(self)
                note(.prompt)
                let asked = Prompt(
                    messages: Int64(store.queued.count), bytes: 0, oldestAt: 0, conversations: 0, timeout: options.promptTimeout)
                try perform(core.promptRaised(asked, now))
            case .withdrawPrompt:
                try judge.withdrawsPrompt(self)
                note(.promptWithdrawn)
                try perform(core.promptWithdrawn())
            }
        }
        throw Violation("\(stepLimit) steps without a wait")
    }

    private func begin(_ conversation: Name, _ sequence: Int64, _ hand: Hand) throws -> Bool {
        let message = store[sequence]
        switch core.admit(message?.row, sequence, conversation, hand, now) {
        case .none(let effects):
            try perform(effects)
            return false
        case .start(let start):
            guard let message else { throw Violation("message \(sequence) is started and is not there") }
            guard !storeIsBroken else {
                storageTrouble()
                return false
            }
            try judge.starts(message, conversation, hand, self)
            note(.started(sequence, conversation, hand))
            for change in start.changes { store.apply(change) }
            try perform(core.began(start))
            if !answersInCall { scheduler.callReturned(start.flight.token, now) }
            return true
        }
    }

    private func timeOut(_ token: UInt64) throws {
        guard let flight = scheduler.flights[token] else { throw Violation("no attempt \(token) can time out") }
        guard flight.deadline <= now.mono, !flight.isEnded else { throw Violation("attempt \(token) timed out too early") }
        note(.timedOut(flight.sequence))
        late.insert(token)
        try perform(core.timedOut(token, now, random: 0.5))
    }

    private func finish(_ stop: Report.Stop) throws {
        var report = scheduler.session?.report ?? Report()
        report.stop = stop
        report.remaining = Int64(scheduler.session?.conversation.map { store.count(of: $0) } ?? store.queued.count)
        try judge.finishes(report, self)
        note(.drainFinished(report))
        if scheduler.finished(stop, through: store.lastSequence, now) { judge.nextDrainStarted(self) }
    }

    // MARK: Effects

    /// What an outcome makes of its message.
    func end(_ flight: Flight, _ outcome: Outcome) throws {
        guard store[flight.sequence] != nil else { throw Violation("message \(flight.sequence) vanished while it was sent") }
        try perform(core.ended(flight, outcome, now, random: 0.5))
    }

    func perform(_ effects: [Effect]) throws {
        for effect in effects {
            switch effect {
            case .record(let fact):
                for change in fact.changes { try look(at: change) }
                record(fact)
            case .notice(let notice): follow(notice)
            }
        }
    }

    /// Before it is written.
    private func look(at change: Change) throws {
        switch change {
        case .endAttempt(let row, let resolution):
            guard let message = store[row.sequence] else { throw Violation("message \(row.sequence) ended and is not there") }
            note(.ended(row.sequence, resolution.fate))
            judge.ended(message, resolution, self)
        case .expire(let sequence, _, _):
            guard let message = store[sequence] else { throw Violation("message \(sequence) expired and is not there") }
            try judge.expires(message, self)
            note(.expired(sequence))
        case .endUnreachable(let row, let resolution): ended(unreachable: row.sequence, resolution)
        case .markDamaged(let sequence): throw Violation("message \(sequence) is damaged")
        case .requeue, .beginAttempt, .recover, .hold: break
        }
    }

    func ended(unreachable sequence: Int64, _ resolution: Resolution) {
        note(.unreachable(sequence, resolution.progress.status))
        judge.forced[sequence] = nil
        judge.retries[sequence] = nil
    }

    func follow(_ notice: Notice) {
        switch notice {
        case .failuresChanged(let conversation): refreshBlock(conversation)
        case .event(.paused(_, let isPaused, _)): note(.paused(nil, isPaused))
        case .endedUnreachable(let row, let resolution, let moment):
            for effect in core.endedUnreachable(row, resolution, moment) { if case .notice(let notice) = effect { follow(notice) } }
        case .event, .countsChanged, .progress, .historyGrew, .expires, .damaged, .log: break
        }
    }

    // MARK: A store in trouble

    private func record(_ fact: Fact) {
        if storeIsBroken {
            unsaved.append(fact)
            storageTrouble()
        } else {
            for change in fact.changes { store.apply(change) }
            for notice in fact.notices { follow(notice) }
        }
    }

    /// Where a failure for good holds its conversation.
    func refreshBlock(_ conversation: Name) {
        guard options.finalFailure == .block else { return }
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
            for change in fact.changes { store.apply(change) }
            for notice in fact.notices { follow(notice) }
        }
        unsaved = []
        (storageDelay, storageUntil) = (0, 0)
        note(.storageWell)
        scheduler.storageRecovered(now)
    }
}
