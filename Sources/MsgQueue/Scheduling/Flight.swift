/// An attempt under way.
package struct Flight: Sendable, Equatable {
    package let token: UInt64
    package let conversation: Name
    package let sequence: Int64
    package let number: UInt32
    package let hand: Hand
    package private(set) var startedAt: Moment
    /// Monotonic.
    package private(set) var deadline: Int64
    /// The transport's call has not returned yet.
    package var isRunning = true
    /// Answered, or timed out: only the call's return is waited for.
    package var isEnded = false
    package var timedOut = false

    /// Its time ran out, and the call has not come back.
    package var isHung: Bool { timedOut && isRunning }

    package init(
        token: UInt64, conversation: Name, sequence: Int64, number: UInt32, hand: Hand, startedAt: Moment, deadline: Int64
    ) {
        self.token = token
        self.conversation = conversation
        self.sequence = sequence
        self.number = number
        self.hand = hand
        self.startedAt = startedAt
        self.deadline = deadline
    }

    mutating func prolong(_ time: Int64) {
        startedAt.mono = startedAt.mono.addingClamped(time)
        deadline = deadline.addingClamped(time)
    }

    /// How long it took until `now`.
    package func trial(_ now: Moment) -> Trial {
        var duration = max(0, now.mono - startedAt.mono)
        // Two clocks that are cut to milliseconds may differ by one: it has not ended in the future.
        if startedAt.wall.addingClamped(duration) == now.wall.addingClamped(1), duration > 0 { duration -= 1 }
        return Trial(number: number, hand: hand, startedAt: startedAt.wall, duration: duration)
    }
}

/// What the scheduler wants done next. It decides; the engine does it and tells what came of it.
package enum Step: Equatable, Sendable {
    /// Start an attempt: then `started`, or `refused` when the store would not.
    case start(conversation: Name, sequence: Int64, hand: Hand)
    /// The message's time ran out: make it failed, then `removed`.
    case expire(conversation: Name, sequence: Int64)
    /// A person asked for it, and there is no connection, or it is paused: the request ends at once, then `endedUnreachable`.
    case endUnreachable(conversation: Name, sequence: Int64, hand: Hand)
    /// The attempt's time ran out: it ends as a time-out.
    case timeOut(token: UInt64)
    /// Read queued messages behind this sequence, in order: then `scanned`.
    case scan(after: Int64, limit: Int)
    /// Read queued messages of the conversation behind this sequence: then `loaded`.
    case load(conversation: Name, after: Int64, limit: Int)
    /// Read queued messages behind this sequence, in order, for a retry of many: then `sought`.
    case seek(after: Int64, limit: Int)
    /// The drain is over: then `finished`.
    case finish(Report.Stop)
    case raisePrompt
    case withdrawPrompt
    /// Nothing to do before this monotonic time (nil: before the next input).
    case wait(until: Int64?)
}
