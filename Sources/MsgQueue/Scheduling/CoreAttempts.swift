/// The beginning and the end of attempts.
extension Core {
    /// An attempt that may begin once `changes` are committed. It is large and passed on often, so it is a class.
    package final class Start {
        package let flight: Flight
        /// The message as stored after `changes`, without its body.
        package let row: Row
        /// The message's status before the attempt.
        package let from: MessageStatus
        package let changes: [StoreChange]

        init(flight: Flight, row: Row, from: MessageStatus, changes: [StoreChange]) {
            (self.flight, self.row, self.from, self.changes) = (flight, row, from, changes)
        }
    }

    package enum Admission {
        case start(Start)
        /// The message must not be sent any more.
        case none([Effect])
    }

    /// Decides whether the message that the scheduler chose can be sent now. `row` is the stored row; nil: it was deleted.
    package mutating func admit(_ row: Row?, _ sequence: Int64, _ conversation: Name, _ hand: Hand, _ now: Moment) -> Admission {
        guard let row, row.progress.status == .queued || (row.progress.status == .failed && hand == .retry) else {
            scheduler.removed(sequence, conversation, now)
            return .none([])
        }
        if row.head.hasExpired(now), hand != .retry { return .none(expired(row, sequence, conversation, now)) }
        let timeout = hand.isOutOfTurn ? options.onDemandTimeout : options.attemptTimeout
        let flight = Flight(
            token: nextToken, conversation: conversation, sequence: sequence, number: row.progress.attempts &+ 1, hand: hand,
            startedAt: now, deadline: now.mono + timeout)
        var kept = row
        kept.body = []
        var changes: [StoreChange] = []
        if row.progress.status == .failed {
            kept.progress.status = .queued
            kept.progress.retriesUsed = 0
            kept.progress.isDamaged = false
            changes.append(.requeue(row, kept.progress))
        }
        return .start(Start(flight: flight, row: kept, from: row.progress.status, changes: changes))
    }

    /// Whether `withdraw` can undo `reserve`, so that other attempts may begin in the same commit.
    package func canWithdraw(_ start: Start) -> Bool { scheduler.canWithdraw(start.flight) }

    /// What `withdraw` needs.
    package struct Reservation {
        package let start: Start
        let turns: TurnRule
    }

    /// Puts the message in flight. `called` follows.
    @discardableResult
    package mutating func reserve(_ start: Start) -> Reservation {
        let reservation = Reservation(start: start, turns: scheduler.chooser.turns)
        nextToken += 1
        rowsInFlight[start.flight.token] = start.row
        if case .requeue(let row, _)? = start.changes.first { retriedFrom[start.flight.token] = row.progress }
        scheduler.started(start.flight, start.flight.startedAt)
        return reservation
    }

    /// Undoes `reserve`: the store rejected the beginning of the attempt. Several are withdrawn in the opposite order.
    package mutating func withdraw(_ reservation: Reservation, _ now: Moment) {
        let start = reservation.start
        rowsInFlight[start.flight.token] = nil
        retriedFrom[start.flight.token] = nil
        scheduler.withdraw(start.flight, start.row.head, now)
        scheduler.chooser.turns = reservation.turns
    }

    // MARK: Batches

    /// Begins to choose the messages of a batch. Returns false if its first one is alone in its call: the transport takes single messages,
    /// the attempt was requested by hand and has a timeout of its own, or the last one was interrupted.
    package mutating func openBatch(_ hand: Hand, wasInterrupted: Bool) -> Bool {
        let flights = scheduler.gate.flights
        guard let limits = flights.limits, let room = flights.room, !hand.isOutOfTurn, !wasInterrupted else { return false }
        scheduler.gate.gathering = Gathering(batch: nextToken, limits: limits, room: room)
        return true
    }

    /// Notes that the call of the transport begins for this attempt. Just before the call, so that the rate counts from it.
    package mutating func called(_ start: Start, at now: Int64) { scheduler.gate.flights.called(start.flight.token, at: now) }

    /// Puts a message of the batch that is being chosen in flight.
    package mutating func reserveInBatch(_ start: Start) -> Reservation {
        defer { scheduler.gate.gathering?.add(start.flight.conversation, bytes: Int(clamping: start.row.bodySize)) }
        return reserve(start)
    }

    /// Whether a body of this size still fits into the batch.
    package func fitsBatch(bytes: Int) -> Bool { scheduler.gate.gathering?.accepts(bytes: bytes) ?? false }

    /// Ends the choice of a batch, whose beginning was committed at `now` (monotonic).
    package mutating func closeBatch(_ now: Int64) { scheduler.closeBatch(now) }

    /// Interrupts the choice of a batch after the beginning of a part of it was committed. Returns what `continueBatch` needs.
    package mutating func interruptBatch() -> Gathering? {
        defer { scheduler.gate.gathering = nil }
        var batch = scheduler.gate.gathering
        batch?.hasParts = true
        return batch
    }

    package mutating func continueBatch(_ batch: Gathering) { scheduler.gate.gathering = batch }

    /// Ends the choice of a batch whose attempts were withdrawn, because the store rejected their beginning.
    package mutating func dropBatch() { scheduler.gate.gathering = nil }

    /// Ends an attempt that the transport did not make (verdict `skipped`): as if it had not begun. The message waits a second if no other
    /// attempt has ended meanwhile.
    package mutating func skipped(_ flight: Flight, _ now: Moment) -> [Effect] {
        guard let row = rowsInFlight[flight.token], let begun = scheduler.gate.flights[flight.token] else { return [] }
        // A message that was cleared is deleted when its attempt ends, and a retry by hand ends with its attempt.
        guard !row.progress.doomed, retriedFrom[flight.token] == nil else { return endedUntried(flight, row, now) }
        let delay = BatchRule.skipDelay(hasProgress: begun.outcomesBefore != scheduler.gate.flights.outcomes)
        scheduler.withdraw(flight, row.head, heldUntil: delay == 0 ? nil : now.mono + delay, isCalled: true, now)
        return takenBack(flight, row, now)
    }

    /// Ends an attempt whose beginning was committed and whose call was not made: as if it had not begun.
    package mutating func revoked(_ start: Start, _ now: Moment) -> [Effect] {
        let flight = start.flight
        guard let row = rowsInFlight[flight.token] else { return [] }
        guard !row.progress.doomed else {
            // It was cleared meanwhile, and is deleted when its attempt ends.
            scheduler.callReturned(flight.token, now)
            return endedUntried(flight, row, now)
        }
        scheduler.withdraw(flight, row.head, now)
        return takenBack(flight, row, now)
    }

    /// Ends an attempt that was not made, of a message that is not queued again: one that was cleared is deleted; one that was retried by
    /// hand is failed again, as it was.
    private mutating func endedUntried(_ flight: Flight, _ row: Row, _ now: Moment) -> [Effect] {
        rowsInFlight[flight.token] = nil
        let before = retriedFrom.removeValue(forKey: flight.token)
        let resolution = Resolution(fate: row.progress.doomed ? .deleted : .failed, progress: before ?? row.progress, attempt: nil)
        statistics.withdrawn()
        if resolution.fate == .failed { scheduler.failed(flight.sequence, row.conversation, now) }
        scheduler.ended(flight.token, back: nil, sent: false, offline: false, timedOut: false, now)
        count(resolution.fate, row.conversation)
        let failure = Failure(
            kind: .unknown, code: 0, text: "the transport skipped the message", at: now.wall, retryable: true,
            attempts: row.progress.attempts)
        let notices = notices(resolution, failure, of: row, row.progress.attempts, now.wall)
        return [.record(Fact(flight.sequence, row.conversation, isOutcome: true, [.endAttempt(row, resolution)], notices: notices))]
    }

    private mutating func takenBack(_ flight: Flight, _ row: Row, _ now: Moment) -> [Effect] {
        rowsInFlight[flight.token] = nil
        statistics.withdrawn()
        let notices: [Notice] = [
            .countsChanged, .log(.debug) { EventText.notMade(flight.number, of: row.id) },
            .event(row.changed(from: .sending, to: .queued, attempt: row.progress.attempts, at: now.wall)),
        ]
        return [.record(Fact(flight.sequence, flight.conversation, [.revokeAttempt(sequence: flight.sequence)], notices: notices))]
    }

    /// Returns the effects of an attempt that is reserved and whose beginning was committed.
    package mutating func began(_ start: Start) -> [Effect] {
        let flight = start.flight
        statistics.started()
        let change = start.row.changed(from: start.from, to: .sending, attempt: flight.number, at: flight.startedAt.wall)
        return [.notice(.failuresChanged(flight.conversation)), .notice(.event(change)), .notice(.countsChanged)]
    }

    /// Ends an attempt with an outcome. The scheduler changes at once; the returned fact is written with the next commit, and its notices
    /// follow that commit. `random` is in 0..<1; only a retry needs it.
    package mutating func ended(
        _ flight: Flight, _ outcome: Outcome, timedOut: Bool = false, _ now: Moment, random: @autoclosure () -> Double
    ) -> [Effect] {
        // A message in flight cannot be edited, so this copy is current, and ending an attempt needs no read that could fail.
        guard let row = rowsInFlight.removeValue(forKey: flight.token) else { return [] }
        retriedFrom[flight.token] = nil
        if timedOut { late.add(flight, contentHash: row.contentHash) }
        let judgement = Classification.judge(
            outcome, now: opening.wall(now), perhapsArrived: row.progress.perhapsArrived, conflictIsSent: options.conflictIsSent)
        let resolution = OutcomeRule.resolve(
            judgement, flight.trial(now), of: row.progress, policy: policy, discardExhausted: options.exhausted == .discard,
            discardRefused: options.refused == .discard, pauseOnUnauthorized: options.pauseOnUnauthorized, now: now, boot: opening.boot,
            returnedAt: scheduler.gate.returnedAt, receipt: outcome.receipt, random: random())
        var effects: [Effect] = []
        var back: Head?
        if resolution.fate == .queued {
            back = row.head
            back?.due = resolution.progress.due
            back?.waitsForNetwork = resolution.progress.waitsForNetwork
            if row.expiresAt != 0, !resolution.progress.ignoresExpiry { effects.append(.notice(.expires(at: row.expiresAt))) }
        }
        if resolution.fate == .failed { scheduler.failed(flight.sequence, row.conversation, now) }
        scheduler.gate.flights.pace?.ended(judgement, startedAt: flight.startedAt.mono, at: now.mono)
        scheduler.ended(
            flight.token, back: back, sent: resolution.fate == .sent, offline: resolution.isOffline, timedOut: timedOut, now)
        let reason = scheduler.gate.offlineReason
        scheduler.gate.attemptOfflineReason = outcome.verdict == .offline ? OfflineReason.text(outcome.text) : ""
        if let line = reasonChanged(from: reason) { effects.append(.notice(.log(line.level) { line.text })) }
        if resolution.pausesQueue, mayPause(flight), scheduler.pause(nil) {
            effects.append(.notice(.event(.paused(conversation: nil, isPaused: true, kind: .unauthorized))))
        }
        var changes: [StoreChange] = [.endAttempt(row, resolution)]
        if let hold = hold(outcome, now) { changes.append(.hold(hold)) }
        statistics.ended(resolution, createdAt: row.createdAt, bytes: row.bodySize, now)
        count(resolution.fate, row.conversation)
        let notices = notices(resolution, resolution.failure, of: row, flight.number, now.wall)
        effects.append(.record(Fact(flight.sequence, row.conversation, isOutcome: true, changes, notices: notices)))
        return effects
    }

    /// Returns the line of the log for a change of the reason for being offline; nil: it is the same.
    package func reasonChanged(from before: String) -> (level: LogLevel, text: String)? {
        let now = scheduler.gate.offlineReason
        guard !OfflineReason.isSame(now, before) else { return nil }
        guard now.isEmpty else { return (.warning, "not connected: \(now)") }
        return scheduler.gate.network.isOnline ? (.info, "connected again") : nil
    }

    /// Ends an attempt whose deadline has passed as a timeout.
    package mutating func timedOut(_ token: UInt64, _ now: Moment, random: Double) -> [Effect] {
        guard let flight = scheduler.gate.flights[token] else { return [] }
        let outcome = Outcome.retry(.timeout, text: "no answer within \(TimeText.exact(flight.deadline - flight.startedAt.mono))")
        var effects = ended(flight, outcome, timedOut: true, now, random: random)
        // Once for a batch: its first attempt times out first.
        if flight.batch == token, scheduler.gate.flights.hung == Flights.hungCeiling {
            let text =
                "\(Flights.hungCeiling) calls of the transport have not returned after their timeout; each further one "
                + "occupies a slot for attempts"
            effects.append(.notice(.log(.warning) { text }))
        }
        return effects
    }

    /// Applies a receiver's request that the whole queue wait. Returns the delay to store; nil if the queue already waits as long.
    private mutating func hold(_ outcome: Outcome, _ now: Moment) -> Due? {
        guard let delay = Classification.queueDelay(outcome, now: opening.wall(now)) else { return nil }
        let hold = Due(after: delay, now, boot: opening.boot)
        return scheduler.hold(until: hold.uptime, now) ? hold : nil
    }

    private mutating func count(_ fate: Resolution.Fate, _ conversation: Name) {
        scheduler.gate.drains.count(conversation) { report in
            switch fate {
            case .sent: report.sent += 1
            case .failed: report.failed += 1
            case .discarded: report.discarded += 1
            case .queued, .deleted: break
            }
        }
    }

    private func notices(_ resolution: Resolution, _ failure: Failure?, of row: Row, _ number: UInt32, _ at: Int64) -> [Notice] {
        let conversation = row.conversation
        var notices: [Notice] = []
        notices.reserveCapacity(5)
        notices.append(.countsChanged)
        notices.append(.failuresChanged(conversation))
        notices.append(.progress(conversation))
        func change(_ to: MessageStatus) -> Notice { .event(row.changed(from: .sending, to: to, attempt: number, failure, at: at)) }
        switch resolution.fate {
        case .sent:
            notices.append(.historyGrew)
            notices.append(change(.sent))
            notices += receipt(resolution.progress, of: row, at)
        case .queued:
            if failure == nil {
                let reason = scheduler.gate.attemptOfflineReason
                notices.append(.log(.debug) { EventText.offline(number, of: row.id, reason) })
            }
            notices.append(change(.queued))
        case .failed: notices.append(change(.failed))
        case .deleted:
            notices.append(.log(.debug) { EventText.cleared(number, of: row.id, failure) })
            notices.append(.event(.deleted(id: row.id, conversation: conversation.text)))
        case .discarded:
            guard let failure else { break }
            notices.append(.log(.warning) { LogText.discarded(row.id, failure) })
            notices.append(.event(.discarded(id: row.id, conversation: conversation.text, failure: failure)))
        }
        return notices
    }

    /// The event of the receipt in the outcome, which follows the success.
    private func receipt(_ progress: Progress, of row: Row, _ at: Int64) -> [Notice] {
        progress.status == .sent ? [] : [.event(row.changed(from: .sent, to: progress.status, at: at))]
    }

    // MARK: Late outcomes

    /// The attempt with this token, if it has no outcome yet.
    package func openFlight(_ token: UInt64) -> Flight? { scheduler.gate.flights[token].flatMap { $0.isEnded ? nil : $0 } }

    package func hasIssued(_ token: UInt64) -> Bool { token >= firstToken && token < nextToken }

    package func lateFlight(_ token: UInt64) -> Flight? { late[token]?.flight }

    /// Notes that a message has other times, and otherwise the same content.
    package mutating func corrected(_ sequence: Int64, contentHash: Int64) { late.corrected(sequence, contentHash: contentHash) }

    /// Returns the message's progress after a late outcome; nil: the outcome has no effect. `row` is the stored row. Only a success of the
    /// latest attempt counts, and only if the body was not edited since.
    package func lateSuccess(_ token: UInt64, _ outcome: Outcome, _ row: Row?, _ now: Moment) -> Progress? {
        guard let (flight, contentHash) = late[token], let row, row.contentHash == contentHash else { return nil }
        return OutcomeRule.lateSuccess(
            outcome, flight.trial(now), of: row.progress, isSending: scheduler.flight(of: flight.sequence, in: row.conversation) != nil,
            conflictIsSent: options.conflictIsSent, now: now.wall)
    }

    /// Marks a message as sent, after its late success was committed. `row` is the row before that commit, `progress` what was committed.
    package mutating func lateSuccessSaved(_ token: UInt64, _ row: Row, _ progress: Progress, _ now: Moment) -> [Effect] {
        guard let (flight, _) = late[token] else { return [] }
        late.remove(token)
        statistics.sent(createdAt: row.createdAt, bytes: row.bodySize, now)
        scheduler.removed(flight.sequence, row.conversation, now)
        let change = row.changed(from: row.progress.status, to: .sent, attempt: flight.number, at: now.wall)
        let notices: [Notice] = [.failuresChanged(row.conversation), .countsChanged, .historyGrew, .event(change)]
        return (notices + receipt(progress, of: row, now.wall)).map { .notice($0) }
    }
}
