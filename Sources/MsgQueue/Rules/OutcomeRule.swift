/// What started an attempt.
package enum Hand: Sendable, Equatable {
    /// The engine: a direct attempt, a drain, or a timer.
    case none
    /// `sendNow`: an ordinary attempt, out of turn.
    case sendNow
    /// `retry`: the message is sent or fails again, without further retries.
    case retry
    /// `retryAll`: an ordinary attempt, allowed in every mode.
    case retryAll

    /// The attempt starts out of turn and has the on-demand timeout.
    package var isOutOfTurn: Bool { self == .sendNow || self == .retry }
}

/// The state of a message after its attempts so far.
package struct Progress: Sendable, Equatable {
    /// Never `sending`: the engine reports that status while an attempt is in flight.
    package var status: MessageStatus = .queued
    /// Attempts that were transmitted.
    package var attempts: UInt32 = 0
    package var retriesUsed: Int = 0
    /// The end of a retry's delay (`due`) as wall time, 0: none; and the whole delay.
    package var dueAt: Int64 = 0
    package var dueDelay: Int64 = 0
    /// The boot in which the delay began, and its end as time since that boot.
    package var dueBoot: Int64 = 0
    package var dueUptime: Int64 = 0
    /// The message failed because of the network: the delay also ends when the network returns.
    package var waitsForNetwork = false
    package var lastAttemptAt: Int64 = 0
    package var sentAt: Int64 = 0
    package var sentDuration: Int64 = 0
    package var sentCode: Int32 = 0
    /// The message was cleared while it was being sent: it is deleted when the attempt ends without success.
    package var doomed = false
    /// An attempt may have reached the receiver.
    package var perhapsArrived = false
    /// The stored progress did not match its checksum, and the message failed for that reason.
    package var isDamaged = false
    /// The message was retried by hand after it had expired: its expiry no longer applies.
    package var ignoresExpiry = false
    /// The message was retried by hand and queued for that: it is not discarded when it fails again.
    package var isRetriedByHand = false
    /// The number of the `retryAll` that put the message back, until an attempt has ended; 0: none.
    package var round: UInt32 = 0
    /// The times of the receipts, as wall time; 0: none.
    package var deliveredAt: Int64 = 0
    package var readAt: Int64 = 0

    /// The end of the delay by the wall clock as it is set now; 0: none.
    package func nextAttempt(_ now: Moment, boot: Int64) -> Int64 {
        dueBoot != 0 && dueBoot == boot ? BootTimes.wall(dueAt, dueUptime, now) : dueAt
    }

    package var due: Due {
        get { Due(at: dueAt, delay: dueDelay, boot: dueBoot, uptime: dueUptime) }
        set { (dueAt, dueDelay, dueBoot, dueUptime) = (newValue.at, newValue.delay, newValue.boot, newValue.uptime) }
    }

    mutating func endDelay() {
        due = Due()
        waitsForNetwork = false
    }
}

/// The effect of an attempt's outcome on its message.
package struct Resolution: Equatable, Sendable {
    package enum Fate: Equatable, Sendable {
        case sent
        /// Queued again, in its place.
        case queued
        case failed
        /// Deleted, with an event.
        case discarded
        /// Deleted, because the message was cleared during the attempt.
        case deleted
    }

    package var fate: Fate
    package var progress: Progress
    /// The attempt as it is stored; nil: it was a success, which the message itself records, or was not transmitted.
    package var attempt: Attempt?
    package var isOffline = false
    /// The receiver refused the credentials: the queue pauses, and no retry is used up.
    package var pausesQueue = false

    package var failure: Failure? { attempt.map { Failure($0, attempts: progress.attempts) } }

    /// Whether it is a success of the first attempt, without a receipt, that changes no more than the status, the number of attempts and what
    /// is known of this one.
    package func isPlainSuccess(of before: Progress) -> Bool {
        guard fate == .sent, attempt == nil, before.status == .queued, before.attempts == 0, progress.status == .sent else { return false }
        var sent = before
        (sent.status, sent.attempts, sent.lastAttemptAt) = (progress.status, progress.attempts, progress.lastAttemptAt)
        (sent.sentAt, sent.sentDuration, sent.sentCode) = (progress.sentAt, progress.sentDuration, progress.sentCode)
        return sent == progress
    }
}

extension Failure {
    /// Creates the failure that a stored attempt describes.
    package init(_ attempt: Attempt, attempts: UInt32) {
        self.init(
            kind: attempt.kind, code: attempt.code, text: attempt.text,
            at: attempt.startedAt &+ (attempt.duration ?? 0), retryable: attempt.result != .rejected, attempts: attempts)
    }
}

extension Failure {
    /// Returns the failure that `failure` does not show while an attempt is in flight, or after one that ended as offline; nil: there was
    /// none. `attempts`: those of a message that was not sent, oldest first; read only if they are needed.
    package static func before<E: Error>(
        _ failure: Failure?, isSending: Bool, attempts: () throws(E) -> [Attempt]
    ) throws(E) -> Failure? {
        guard isSending || failure?.kind == .offline else { return nil }
        let last = try attempts().last { $0.kind != .offline }
        return last.map { Failure($0, attempts: $0.number) }
    }
}

/// An attempt in flight, as far as its outcome depends on it.
package struct Trial: Sendable, Equatable {
    package var number: UInt32
    package var hand: Hand
    /// Wall time, milliseconds.
    package var startedAt: Int64
    /// The duration in milliseconds, by the monotonic clock.
    package var duration: Int64
}

package enum OutcomeRule {
    /// Returns the effect of a classified outcome on its message. `boot` identifies the system's boot, `returnedAt` is when the network
    /// last returned (monotonic), and `random` is in 0..<1. It is evaluated for a retry only, because it costs a system call.
    package static func resolve(
        _ judgement: Judgement, _ trial: Trial, of before: Progress, policy: RetryPolicy, discardExhausted: Bool,
        discardRefused: Bool = false, pauseOnUnauthorized: Bool = false, now: Moment, boot: Int64, returnedAt: Int64 = Int64.min,
        receipt: MessageStatus? = nil, random: @autoclosure () -> Double
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
            var resolution = end(.sent, .sent, nil)
            resolution.progress = StatusRule.sent(resolution.progress, receipt: receipt)
            return resolution
        case .offline(let text):
            // Not transmitted, so the attempt is not counted. A manual attempt is stored to show why it failed; the next attempt gets the
            // same number.
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
        case .retry(let kind, let code, let text, let requested, _):
            progress.attempts = trial.number
            let attempt = line(.retry, kind, code, text)
            if trial.hand == .retry { return end(.failed, .failed, attempt) }
            guard let delay = policy.delay(afterRetries: before.retriesUsed, requested: requested, random: random()) else {
                return end(discardExhausted && !before.isRetriedByHand ? .discarded : .failed, .failed, attempt)
            }
            progress.retriesUsed = before.retriesUsed + 1
            progress.due = Due(after: delay, now, boot: boot)
            // A delay that the receiver requested is kept. A return of the network during the attempt does not end the delay.
            progress.waitsForNetwork = (kind == .offline || kind == .network) && requested == nil && now.mono > returnedAt
            return end(.queued, .queued, attempt)
        }
    }

    /// Returns the effect of a crash during an attempt: the message is queued again in its place, or fails with `holdInterrupted`. It uses
    /// up a retry, so that a message which crashes the process is not sent again without end.
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

    /// Returns the effect of `retry` while the conversation is paused: the message is queued again, in every mode.
    package static func paused(_ before: Progress, expiresAt: Int64, now: Moment) -> Resolution {
        Resolution(fate: .queued, progress: retriedLater(before, expiresAt: expiresAt, now: now))
    }

    /// Returns the progress of a failed message that is retried by hand but cannot be sent at once.
    private static func retriedLater(_ before: Progress, expiresAt: Int64, now: Moment) -> Progress {
        var progress = putBack(before, expiresAt: expiresAt, now: now.wall)
        progress.isRetriedByHand = true
        return progress
    }

    /// Returns the effect of `retry` and `sendNow` while offline. In mode auto a failed message is queued again and sent later; otherwise
    /// the effect is that of the outcome `offline`. `reason`: why there is no connection; "": unknown.
    package static func unreachable(
        _ hand: Hand, of before: Progress, expiresAt: Int64, options: Options, policy: RetryPolicy, reason: String = "", now: Moment,
        boot: Int64
    ) -> Resolution {
        guard options.mode != .auto || hand != .retry else {
            return Resolution(fate: .queued, progress: retriedLater(before, expiresAt: expiresAt, now: now))
        }
        let trial = Trial(number: before.attempts &+ 1, hand: hand, startedAt: now.wall, duration: 0)
        return resolve(
            .offline(text: reason.isEmpty ? "not connected" : "not connected: \(reason)"), trial, of: before, policy: policy,
            discardExhausted: options.exhausted == .discard, now: now, boot: boot, random: 0)
    }

    /// Returns the progress of a failed message that is queued again in its place, with all of its retries. The expiry of an expired
    /// message no longer applies.
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

    /// Returns the effect of the expiry on a queued message.
    package static func expire(_ before: Progress, expiresAt: Int64, now: Int64) -> (Progress, Attempt) {
        var progress = before
        progress.status = .failed
        progress.endDelay()
        progress.round = 0
        progress.isRetriedByHand = false
        let attempt = Attempt(
            number: before.attempts &+ 1, startedAt: now, duration: 0, result: .retry, kind: .expired, code: 0,
            text: "expired at \(Words.instant(expiresAt))", arrival: .no)
        return (progress, attempt)
    }

    /// Returns a message's progress after a late outcome; nil: the outcome has no effect. Only a success of the latest attempt counts.
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
        return StatusRule.sent(progress, receipt: outcome.receipt)
    }
}
