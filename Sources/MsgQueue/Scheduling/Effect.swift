/// An effect that the core returns. Effects are performed in order.
package enum Effect {
    /// Write it in the open transaction; its notices follow the commit.
    case record(Fact)
    /// Perform it at once; it belongs to no change of the store.
    case notice(Notice)
}

/// Something that happened and must be stored: the outcome of an attempt, an expiry. Unlike a caller's request it cannot be refused: if the
/// store rejects the write, the fact is kept and written later.
package struct Fact {
    package let sequence: Int64
    /// nil: unknown, because the row could not be read.
    package let conversation: Name?
    /// This is the outcome of an attempt. The message counts as `sending` until it is written.
    package let isOutcome: Bool
    package let changes: [StoreChange]
    /// Performed after the commit.
    package let notices: [Notice]

    /// The message fails because it has expired.
    var isExpiry: Bool { changes.contains { if case .expire = $0 { true } else { false } } }

    package init(_ sequence: Int64, _ conversation: Name?, isOutcome: Bool = false, _ changes: [StoreChange], notices: [Notice] = []) {
        (self.sequence, self.conversation, self.isOutcome) = (sequence, conversation, isOutcome)
        (self.changes, self.notices) = (changes, notices)
    }
}

/// One change of the store. Cases with whole rows are indirect, because every case has the size of the largest one.
package enum StoreChange {
    /// A failed message that is retried by hand becomes queued, in the transaction in which its attempt begins.
    indirect case requeue(Row, Progress)
    indirect case endAttempt(Row, Resolution)
    /// An attempt whose call was not made: as if it had not begun.
    case revokeAttempt(sequence: Int64)
    /// An attempt without an outcome, from a process that ended during it.
    case recover(sequence: Int64, number: UInt32, startedAt: Int64)
    /// A receiver's request that the whole queue wait.
    case hold(Due)
    /// Applied only if the message is still queued: the write may happen later than the expiry.
    indirect case expire(sequence: Int64, Progress, Attempt)
    /// The end of a manual request without an attempt. Applied only if the message has not changed.
    indirect case endUnreachable(Row, Resolution)
    case markDamaged(sequence: Int64)
}

/// What to do after a commit, or at once if nothing has to be committed.
package enum Notice {
    case event(Event)
    case countsChanged
    /// The conversation's failed messages changed: one was added or left.
    case failuresChanged(Name)
    /// A message of the conversation has a result: reported as progress of a drain.
    case progress(Name)
    /// A message became part of the history (`sent`).
    case historyGrew
    /// A queued message expires at this wall time.
    case expires(at: Int64)
    case damaged(sequence: Int64, QueueError, Moment)
    /// The end of a manual request without an attempt was committed.
    indirect case endedUnreachable(Row, Resolution, Moment)
    /// A line of the log, whose text is made only if lines of this level are.
    case log(LogLevel, () -> String)
}
