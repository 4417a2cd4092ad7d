/// An attempt in flight.
package struct Flight: Sendable, Equatable {
    package let token: UInt64
    package let conversation: Name
    package let sequence: Int64
    package let number: UInt32
    package let hand: Hand
    package private(set) var startedAt: Moment
    /// Monotonic.
    package private(set) var deadline: Int64
    /// The call of the transport has begun.
    var isCalled = false
    /// The call of the transport has not returned.
    package var isRunning = true
    /// It has an outcome, or timed out; the call may still have to return.
    package var isEnded = false
    package var timedOut = false
    /// The token of the first attempt in the same call of the transport.
    package internal(set) var batch: UInt64
    /// What the attempt was counted against.
    var charge = Charge.none
    /// Its message was in `Lane.approved`.
    var wasApproved = false
    /// `Scheduler.outcomes` when it began.
    var outcomesBefore: UInt64 = 0

    enum Charge: Sendable, Equatable {
        case none
        /// The drain with this number.
        case drain(Int)
        /// `Scheduler.budget`.
        case budget
    }

    /// It timed out and the call of the transport has not returned.
    package var isHung: Bool { timedOut && isRunning }

    package init(token: UInt64, conversation: Name, sequence: Int64, number: UInt32, hand: Hand, startedAt: Moment, deadline: Int64) {
        (self.token, batch, self.conversation, self.sequence) = (token, token, conversation, sequence)
        (self.number, self.hand, self.startedAt, self.deadline) = (number, hand, startedAt, deadline)
    }

    mutating func extend(by time: Int64) {
        startedAt.mono = startedAt.mono.addingClamped(time)
        deadline = deadline.addingClamped(time)
    }

    /// The attempt with its duration until `now`.
    package func trial(_ now: Moment) -> Trial {
        var duration = max(0, now.mono - startedAt.mono)
        // The two clocks are truncated to milliseconds and may differ by one: the attempt must not end in the future.
        if startedAt.wall.addingClamped(duration) == now.wall.addingClamped(1), duration > 0 { duration -= 1 }
        return Trial(number: number, hand: hand, startedAt: startedAt.wall, duration: duration)
    }
}

/// The scheduler's next step. The engine performs it and reports the result by an input.
package enum Step: Equatable, Sendable {
    /// Start an attempt, then call `started`; if the store refuses the write, `storageFailed`.
    case start(conversation: Name, sequence: Int64, hand: Hand)
    /// The message has expired: make it failed, then call `removed`.
    case expire(conversation: Name, sequence: Int64)
    /// A message with a manual request is offline or paused: end the request without an attempt, then call `endedUnreachable`.
    case endUnreachable(conversation: Name, sequence: Int64, hand: Hand)
    /// The attempt's deadline has passed: end it as a timeout.
    case timeOut(token: UInt64)
    /// Call `scheduleMore`.
    case schedule
    /// Read queued messages after this sequence, in order, then call `scanned`.
    case scan(after: Int64, limit: Int)
    /// Find the conversations with queued messages after this one, in the order of their names' bytes, then call `surveyed`.
    case survey(after: Name?, limit: Int)
    /// Find the conversations of the queued messages with a priority, of which there are at most `limit`, then call `foundPriorities`.
    case findPriorities(limit: Int)
    /// Find the queued messages without a start time after this sequence, in order, then call `foundUnscheduled`.
    case findUnscheduled(after: Int64, limit: Int)
    /// Find the conversations of the queued messages that are scheduled for a time after the first and up to the second one (milliseconds since
    /// 1970), of which there are at most `limit`, and the next one, then call `foundScheduled`.
    case findScheduled(after: Int64, through: Int64, limit: Int)
    /// Read queued messages of the conversation after this sequence, then call `loaded`.
    case load(conversation: Name, after: Int64, limit: Int)
    /// Read queued messages after this sequence, in order, for `retryAll`; then call `sought`.
    case seek(after: Int64, limit: Int)
    /// The drain includes the failed messages: put those after this sequence back to `queued`, except of paused conversations, then call
    /// `putBack` and `drainPutBack`.
    case putBack(conversation: Name?, after: Int64)
    /// The drain has ended: report it, then call `finished`.
    case finish(Report.Stop)
    /// Read what the count of a prompt needs, in steps, then call `promptPrepared`.
    case prepareCount
    /// Count what a yes to a prompt would send, then call `promptCounted`.
    case countPrompt
    case withdrawPrompt
    /// Nothing to do before this monotonic time or the next input, whichever is first; nil: no time.
    case wait(until: Int64?)

    var isStart: Bool { if case .start = self { true } else { false } }
}
