/// Who asked for an attempt.
package enum Hand: Sendable, Equatable {
    /// The engine: direct, a drain, a timer.
    case none
    /// A person's `sendNow`: an ordinary attempt, out of turn.
    case sendNow
    /// A person's `retry`: sent, or failed again.
    case retry
    /// A person's `retryAll`: an ordinary attempt, for which no other leave is needed.
    case retryAll

    /// Out of turn, in the time of an attempt by hand.
    package var isOutOfTurn: Bool { self == .sendNow || self == .retry }
}

/// What the attempts have made of a message so far.
package struct Progress: Sendable, Equatable {
    /// `sending` is not kept here: that is the engine's word for an attempt under way.
    package var status: MessageStatus = .queued
    /// That left.
    package var attempts: UInt32 = 0
    package var retriesUsed: Int = 0
    /// The end of a retry's delay (`due`): wall time, or 0 for none, and the whole delay ...
    package var dueAt: Int64 = 0
    package var dueDelay: Int64 = 0
    /// ... and the same by the clock that counts from the boot: a name for that boot, and when it is due.
    package var dueBoot: Int64 = 0
    package var dueUptime: Int64 = 0
    /// It failed for want of a network: the delay also ends when the network returns.
    package var waitsForNetwork = false
    package var lastAttemptAt: Int64 = 0
    package var sentAt: Int64 = 0
    package var sentDuration: Int64 = 0
    package var sentCode: Int32 = 0
    /// Cleared while it was being sent: removed when the attempt ends unsent.
    package var doomed = false
    /// Some attempt may have reached the receiver.
    package var perhapsArrived = false
    /// What stood here did not fit its checksum: the message failed for that.
    package var isDamaged = false
    /// A person put it back after it had expired: its expiry does not count any more.
    package var ignoresExpiry = false
    /// A person retried it and it was queued for that: it is not discarded when it fails again.
    package var isRetriedByHand = false
    /// The `retryAll` that put it back, until an attempt has ended; 0: none.
    package var round: UInt32 = 0
    /// When the receipts came, in wall time; 0: none did.
    package var deliveredAt: Int64 = 0
    package var readAt: Int64 = 0

    package init() {}

    package var due: Due {
        get { Due(at: dueAt, delay: dueDelay, boot: dueBoot, uptime: dueUptime) }
        set { (dueAt, dueDelay, dueBoot, dueUptime) = (newValue.at, newValue.delay, newValue.boot, newValue.uptime) }
    }

    mutating func endDelay() {
        due = Due()
        waitsForNetwork = false
    }
}

/// What becomes of a message after an attempt.
package struct Resolution: Equatable, Sendable {
    package enum Fate: Equatable, Sendable {
        case sent
        /// Back to its place.
        case queued
        case failed
        /// Removed, with an event.
        case discarded
        /// It was cleared in mid-attempt: removed.
        case deleted
    }

    package var fate: Fate
    package var progress: Progress
    /// The attempt's line in the ledger; nil when it sent (the message says so itself) or never left.
    package var attempt: Attempt?
    package var isOffline = false
    /// The receiver did not know who it was: the queue pauses, and nothing is used up.
    package var pausesQueue = false

    package var failure: Failure? { attempt.map { Failure($0, attempts: progress.attempts) } }
}

extension Failure {
    /// As the ledger's last line tells it.
    package init(_ attempt: Attempt, attempts: UInt32) {
        self.init(
            kind: attempt.kind, code: attempt.code, text: attempt.text,
            at: attempt.startedAt &+ (attempt.duration ?? 0), retryable: attempt.result != .rejected, attempts: attempts)
    }
}

/// What an attempt under way knows of itself.
package struct Trial: Sendable, Equatable {
    package var number: UInt32
    package var hand: Hand
    /// Wall time, milliseconds.
    package var startedAt: Int64
    /// Milliseconds that it took, by the monotonic clock.
    package var duration: Int64

    package init(number: UInt32, hand: Hand, startedAt: Int64, duration: Int64) {
        self.number = number
        self.hand = hand
        self.startedAt = startedAt
        self.duration = duration
    }
}

package enum OutcomeRule {
    /// What an attempt's judgement makes of its message. `boot` names the system's boot, `returnedAt` is when the network last returned
    /// (monotonic), and `random` is in 0..<1.
    package static func resolve(
        _ judgement: Judgement, _ trial: Trial, of before: Progress, policy: RetryPolicy, discardExhausted: Bool,
        discardRefused: Bool = false, pauseOnUnauthorized: Bool = false, now: Moment, boot: Int64, returnedAt: Int64 = Int64.min,
        random: Double
    ) -> Resolution {
        var progress = before
        progress.lastAttemptAt = trial.startedAt
        if judgement.arrival == .perhaps { progress.perhapsArrived = true }
        func line(_ result: Attempt.Outcome, _ kind: FailureKind, _ code: Int32, _ text: String) -> Attempt {
            Attempt(
                number: trial.number, startedAt: trial.startedAt, duration: trial.duration, result: result, kind: kind, code: code,
                text: text, arrival: judgement.arrival)
        }
        func end(_ fate: Resolution.Fate, _ status: MessageStatus, _ attempt: Attempt?) -> Resolution {
            progress.status = status
            if status != .queued { progress.isRetriedByHand = false }
            let unsent = fate != .sent && before.doomed
            return Resolution(fate: unsent ? .deleted : fate, progress: progress, attempt: attempt)
        }
        progress.endDelay()
        progress.round = 0
        switch judgement {
        case .sent(let code):
            progress.attempts = trial.number
            progress.sentAt = now.wall
            progress.sentDuration = trial.duration
            progress.sentCode = code
            return end(.sent, .sent, nil)
        case .offline(let text):
            // It never left: nothing is counted. A person who asked for it is told why; the next attempt takes that line's number.
            progress.lastAttemptAt = before.lastAttemptAt
            let attempt = trial.hand.isOutOfTurn ? line(.retry, .offline, 0, text) : nil
            var resolution = trial.hand == .retry ? end(.failed, .failed, attempt) : end(.queued, .queued, attempt)
            resolution.isOffline = true
            return resolution
        case .reject(.unauthorized, let code, let text) where pauseOnUnauthorized:
            progress.attempts = trial.number
            let attempt = line(.rejected, .unauthorized, code, text)
            var resolution = trial.hand == .retry ? end(.failed, .failed, attempt) : end(.queued, .queued, attempt)
            resolution.pausesQueue = true
            return resolution
        case .reject(let kind, let code, let text):
            progress.attempts = trial.number
            let discards = discardRefused && trial.hand != .retry && !before.isRetriedByHand
            return end(discards ? .discarded : .failed, .failed, line(.rejected, kind, code, text))
        case .retry(let kind, let code, let text, let wish, _):
            progress.attempts = trial.number
            let attempt = line(.retry, kind, code, text)
            if trial.hand == .retry { return end(.failed, .failed, attempt) }
            guard let delay = policy.delay(afterRetries: before.retriesUsed, wish: wish, random: random) else {
                return end(discardExhausted && !before.isRetriedByHand ? .discarded : .failed, .failed, attempt)
            }
            progress.retriesUsed = before.retriesUsed + 1
            progress.due = Due(after: delay, now, boot: boot)
            // What the receiver asked for stays. And one return of the network ends one delay.
            progress.waitsForNetwork = (kind == .offline || kind == .network) && wish == nil && now.mono > returnedAt
            return end(.queued, .queued, attempt)
        }
    }

    /// What a crash in mid-attempt makes of its message: sent again from its place under the same id, or held for the person, and never
    /// so often that a message which kills the process can loop.
    package static func recover(
        number: UInt32, startedAt: Int64, of before: Progress, holdInterrupted: Bool, maxRetries: Int
    ) -> Resolution {
        var progress = before
        progress.attempts = number
        progress.lastAttemptAt = startedAt
        progress.perhapsArrived = true
        progress.retriesUsed = before.retriesUsed + 1
        progress.endDelay()
        progress.round = 0
        let attempt = Attempt(
            number: number, startedAt: startedAt, duration: nil, result: .unknown, kind: .unknown, code: 0,
            text: "the process ended during the attempt", arrival: .perhaps)
        if before.doomed {
            return Resolution(fate: .deleted, progress: progress, attempt: attempt)
        }
        let held = holdInterrupted || progress.retriesUsed > max(maxRetries, 1)
        progress.status = held ? .failed : .queued
        return Resolution(fate: held ? .failed : .queued, progress: progress, attempt: attempt)
    }

    /// What `retry` makes of a failed message while its conversation is paused: it is queued again, in any mode.
    package static func paused(_ before: Progress, expiresAt: Int64, now: Moment) -> Resolution {
        Resolution(fate: .queued, progress: retriedLater(before, expiresAt: expiresAt, now: now))
    }

    /// A failed message that a person retries when it cannot be sent at once.
    private static func retriedLater(_ before: Progress, expiresAt: Int64, now: Moment) -> Progress {
        var progress = putBack(before, expiresAt: expiresAt, now: now.wall)
        progress.isRetriedByHand = true
        return progress
    }

    /// What `retry` and `sendNow` make of a message while there is no connection: in mode auto a failed message is queued again, for the
    /// engine to send; otherwise it is as if the transport had said so.
    package static func unreachable(
        _ hand: Hand, of before: Progress, expiresAt: Int64, options: Options, policy: RetryPolicy, now: Moment, boot: Int64
    ) -> Resolution {
        guard options.mode != .auto || hand != .retry else {
            return Resolution(fate: .queued, progress: retriedLater(before, expiresAt: expiresAt, now: now))
        }
        let trial = Trial(number: before.attempts &+ 1, hand: hand, startedAt: now.wall, duration: 0)
        return resolve(
            .offline(text: "not connected"), trial, of: before, policy: policy, discardExhausted: options.exhausted == .discard, now: now,
            boot: boot, random: 0)
    }

    /// A failed message that is queued again in its place, with all of its retries. One that had expired is sent all the same.
    package static func putBack(_ before: Progress, expiresAt: Int64, round: UInt32 = 0, now: Int64) -> Progress {
        var progress = before
        progress.status = .queued
        progress.retriesUsed = 0
        progress.isDamaged = false
        progress.ignoresExpiry = expiresAt != 0 && expiresAt <= now
        progress.round = round
        progress.endDelay()
        return progress
    }

    /// What an expiry makes of a message that waits.
    package static func expire(_ before: Progress, expiresAt: Int64, now: Int64) -> (Progress, Attempt) {
        var progress = before
        progress.status = .failed
        progress.endDelay()
        progress.round = 0
        progress.isRetriedByHand = false
        let attempt = Attempt(
            number: before.attempts &+ 1, startedAt: now, duration: 0, result: .retry, kind: .expired, code: 0,
            text: "expired at \(expiresAt)", arrival: .no)
        return (progress, attempt)
    }

    /// What an answer makes of a message whose attempt had timed out; nil: nothing. Only a success of the latest attempt counts.
    package static func lateSuccess(
        _ outcome: Outcome, _ trial: Trial, of before: Progress, isSending: Bool, conflictIsSent: Bool = false, now: Int64
    ) -> Progress? {
        guard !isSending, before.attempts == trial.number, before.status == .queued || before.status == .failed,
            case .sent(let code) = Classification.judge(
                outcome, now: now, perhapsArrived: before.perhapsArrived, conflictIsSent: conflictIsSent)
        else { return nil }
        var progress = before
        progress.status = .sent
        progress.lastAttemptAt = trial.startedAt
        progress.sentAt = now
        progress.sentDuration = trial.duration
        progress.sentCode = code
        progress.endDelay()
        return progress
    }
}
