@testable import MsgQueue

extension SimulatedEngine {
    /// Performs steps until none is due, or until `starts` attempts were started. Returns how many were started.
    @discardableResult
    func runDueSteps(starts most: Int = .max) throws -> Int {
        var started = 0
        for _ in 0..<stepLimit {
            guard !isDown else { return started }
            saveUnsaved()
            observer?.willStep()
            let inSession = scheduler.session?.conversation.map { Int64(store.count(of: $0)) }
            let step = scheduler.next(now, queued: Int64(store.queued.count), inSession: inSession, commits: writes)
            if let broken = core.brokenInvariant { throw Violation(broken) }
            switch step {
            case .start(let conversation, let sequence, let hand):
                hasStart = true
                guard started < most else {
                    commit()
                    return started
                }
                if core.openBatch(hand, wasInterrupted: store[sequence]?.wasInterrupted ?? false) {
                    started += try beginBatch(conversation, sequence, hand)
                } else if try begin(conversation, sequence, hand) {
                    started += 1
                }
            case .wait(let until):
                // A notice after the commit may make a step due.
                if store.isInTransaction {
                    commit()
                    continue
                }
                (hasStart, deadline) = (false, until)
                try observer?.waits(until: until)
                return started
            default: try perform(step)
            }
        }
        throw Violation("more than \(stepLimit) steps without a wait")
    }

    /// Performs a step other than `start` and `wait`.
    private func perform(_ step: Step) throws {
        switch step {
        case .start, .wait: break
        case .schedule: scheduler.scheduleMore(now)
        case .scan(let after, let limit):
            let rows = store.queued(after: after, limit: limit)
            observer?.reads(nil, after: after, rows: rows.count)
            scheduler.scanned(rows, complete: rows.count < limit, now)
        case .survey(let after, let limit):
            let names = store.conversationsQueued(after: after, limit: limit)
            observer?.reads(nil, after: 0, rows: names.count)
            scheduler.surveyed(names, through: names.last ?? after, complete: names.count < limit, now)
        case .load(let conversation, let after, let limit):
            let heads = store.queued(in: conversation, after: after, limit: limit)
            observer?.reads(conversation, after: after, rows: heads.count)
            scheduler.loaded(conversation, heads, complete: heads.count < limit, now)
        case .expire(let conversation, let sequence): try perform(core.expired(store[sequence]?.row, sequence, conversation, now))
        case .seek(let after, let limit):
            let rows = store.queued(after: after, limit: limit)
            observer?.reads(nil, after: after, rows: rows.count)
            scheduler.sought(rows, complete: rows.count < limit, now)
        case .endUnreachable(let conversation, let sequence, let hand):
            try observer?.endsUnreachable(sequence, hand)
            try perform(core.requestAborted(store[sequence]?.row, sequence, conversation, hand, now))
        case .timeOut(let token): try timeOut(token)
        case .putBack(let conversation, _):
            let count = putBack(conversation, except: scheduler.pausedConversations)
            scheduler.gate.drains.putBack(Int64(count ?? 0), through: nil)
            if count == nil { scheduler.gate.drains.putBackFailed() }
        case .finish(let stop): try finish(stop)
        case .countPrompt: try countPrompt()
        case .prepareCount: scheduler.prompt.prepared()
        case .withdrawPrompt:
            try observer?.withdrawsPrompt()
            try perform(core.promptWithdrawn())
        }
    }

    /// Counts what a yes to a prompt would send now, one message after another.
    private func countPrompt() throws {
        let now = now
        let found = sentByYes
        let (failed, batch) = (found.count(where: \.isFailed), options.drainBatch == 0 ? Int.max : options.drainBatch)
        let messages = min(found.count - failed, batch)
        let asked = Prompt(
            messages: Int64(messages), failed: Int64(min(failed, batch - messages)), bytes: found.reduce(0) { $0 + $1.head.bodySize },
            oldestAt: found.compactMap { store[$0.head.sequence]?.createdAt }.min() ?? 0,
            conversations: Int64(Set(found.map(\.conversation)).count), timeout: options.promptTimeout)
        let before = core.prompt
        let effects = core.promptCounted(asked, scheduler.promptVersion(commits: writes), changesAt: nextChange(now), now)
        if before == nil, core.prompt != nil { try observer?.raisesPrompt() }
        if before != nil, core.prompt == nil { try observer?.withdrawsPrompt() }
        if let before, let after = core.prompt, before != after { try observer?.changesPrompt(after) }
        try perform(effects)
    }

    /// What a yes to a prompt would send now, and what does not start without it.
    var sentByYes: [DrainForecast.Unsent] {
        let forecast = DrainForecast(scheduler, now)
        guard !forecast.sendsNothing else { return [] }
        let messages = store.all.filter { message in
            message.progress.status == .queued || options.promptForFailed && message.progress.status == .failed
        }
        let inOrder = messages.sorted { $0.sequence < $1.sequence }.map {
            DrainForecast.Unsent($0.conversation, $0.head, isFailed: $0.progress.status == .failed)
        }
        var reach = DrainForecast.Reach()
        return forecast.sentByYes(inOrder, &reach)
    }

    /// When time alone may change what a yes would send (monotonic); nil: never.
    private func nextChange(_ now: Moment) -> Int64? {
        let waits = store.queued.compactMap { store[$0]?.head }.map { scheduler.gate.withMonotonicDue($0).wait(now) }
        let ends = waits.filter { $0 > 0 }.map { now.mono + min($0, Scheduler.longestSleep) }
        return ([scheduler.gate.receiverHold(now)].compactMap { $0 } + ends).min()
    }

    private func begin(_ conversation: Name, _ sequence: Int64, _ hand: Hand) throws -> Bool {
        let message = store[sequence]
        switch core.admit(message?.row, sequence, conversation, hand, now) {
        case .none(let effects):
            try perform(effects)
            return false
        case .start(let start):
            guard let message else { throw Violation("an attempt of the missing message \(sequence) started") }
            if !storeIsBroken { try observer?.starts(message, conversation, hand) }
            // The engine reserves all but the last of the attempts that begin in one commit before it, the last after it.
            let isReserved = core.canWithdraw(start) && start.flight.token % 2 == 0
            let reservation = isReserved ? core.reserve(start) : nil
            for change in start.changes { store.apply(change) }
            guard commit() else {
                if let reservation { core.withdraw(reservation, now) }
                return false
            }
            if reservation == nil { core.reserve(start) }
            try call([(start, message)])
            try perform(core.began(start))
            if !answersInCall { scheduler.callReturned(start.flight.token, now) }
            transport?(start, message)
            return true
        }
    }

    /// Begins a batch with this message. Returns the number of its messages.
    private func beginBatch(_ conversation: Name, _ sequence: Int64, _ hand: Hand) throws -> Int {
        var batch: [(start: Core.Start, message: SimulatedMessage)] = []
        var reservations: [Core.Reservation] = []
        var next = Step.start(conversation: conversation, sequence: sequence, hand: hand)
        while case .start(let conversation, let sequence, let hand) = next {
            let message = store[sequence]
            if let message, !scheduler.fitsBatch(bytes: message.body.count) || message.wasInterrupted { break }
            switch core.admit(message?.row, sequence, conversation, hand, now) {
            case .none(let effects): try perform(effects)
            case .start(let start):
                guard let message else { throw Violation("an attempt of the missing message \(sequence) started") }
                if !storeIsBroken { try observer?.starts(message, conversation, hand) }
                reservations.append(core.reserveInBatch(start))
                for change in start.changes { store.apply(change) }
                batch.append((start, message))
            }
            pass()
            next = try nextInBatch()
        }
        guard commit(), !storeIsBroken, !batch.isEmpty else {
            for reservation in reservations.reversed() { core.withdraw(reservation, now) }
            core.dropBatch()
            return 0
        }
        core.closeBatch(now.mono)
        batch = BatchRule.grouped(batch.map { ($0.start.flight.conversation, $0.start.flight.sequence) }).map { batch[$0] }
        try call(batch)
        for (start, _) in batch {
            try perform(core.began(start))
            if !answersInCall { scheduler.callReturned(start.flight.token, now) }
        }
        batchTransport?(batch)
        return batch.count
    }

    /// The call of the transport begins.
    private func call(_ messages: [(start: Core.Start, message: SimulatedMessage)]) throws {
        pass()
        for (start, _) in messages { core.called(start, at: now.mono) }
        try observer?.calls(messages.map(\.message))
    }

    /// Lets the time pass that a read or the hand-over to a thread takes.
    private func pass() {
        let time = workTime()
        now.mono += time
        now.wall += time
    }

    /// Performs reads and expiries up to the start of another message of the batch; a wait if there is none.
    private func nextInBatch() throws -> Step {
        while let step = scheduler.nextInBatch(now, queued: Int64(store.queued.count)) {
            if case .start = step { return step }
            try perform(step)
        }
        return .wait(until: nil)
    }

    private func timeOut(_ token: UInt64) throws {
        guard let flight = scheduler.flights[token] else { throw Violation("the unknown attempt \(token) timed out") }
        guard flight.deadline <= now.mono, !flight.isEnded else { throw Violation("attempt \(token) timed out too early") }
        try observer?.timesOut(flight)
        late.insert(token)
        try perform(core.timedOut(token, now, random: random()))
    }

    private func failed(in conversation: Name?) -> Int64 {
        guard let conversation, store.totals.failed > 0 else { return store.totals.failed }
        return Int64(store.all.count { $0.conversation == conversation && $0.progress.status == .failed })
    }

    private func finish(_ stop: Report.Stop) throws {
        guard commit() || !isDown else { return }
        var report = scheduler.session?.report ?? Report()
        report.stop = stop
        report.remaining = Int64(scheduler.session?.conversation.map { store.count(of: $0) } ?? store.queued.count)
        report.remainingFailed = failed(in: scheduler.session?.conversation)
        try observer?.finishes(report)
        if scheduler.finished(stop, through: store.lastSequence, now) { observer?.beginsNextDrain() }
    }
}

/// A violated rule of the engine.
struct Violation: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
