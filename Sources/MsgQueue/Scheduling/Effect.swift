/// What the core wants done, in this order.
package enum Effect {
    /// Write it in the transaction under way; its notices follow the commit.
    case record(Fact)
    /// Nothing on disk stands behind it.
    case notice(Notice)
}

/// Something that happened and must be written: an attempt's outcome, an expiry. Unlike a caller's wish it cannot be refused; what the
/// store does not take is kept and written later.
package struct Fact {
    package let sequence: Int64
    /// nil: not known.
    package let conversation: Name?
    /// The message counts as being sent until this is written.
    package let isOutcome: Bool
    package let changes: [Change]
    /// What follows when it is on disk.
    package let notices: [Notice]
}

/// One change of the store.
package enum Change {
    /// A person retries a failed message: it is queued again, in the same transaction in which its attempt begins.
    case requeue(Row, Progress)
    case beginAttempt(sequence: Int64, number: UInt32, at: Int64)
    case endAttempt(Row, Resolution)
    /// An attempt that the last owner did not end.
    case recover(sequence: Int64, number: UInt32, startedAt: Int64)
    /// A receiver asked the whole queue to wait.
    case hold(Due)
    /// Only while the message is still queued: it may be written later than it happened.
    case expire(sequence: Int64, Progress, Attempt)
    /// What a person asked for while there was no connection; only while the message is as it was.
    case endUnreachable(Row, Resolution)
    case markDamaged(sequence: Int64)
}

/// What follows a change that is on disk, or needs none.
package enum Notice {
    case event(Event)
    case countsChanged
    /// A message of the conversation failed for good, or does no more.
    case failuresChanged(Name)
    /// A message of the conversation was dealt with: for whoever follows a drain.
    case progress(Name)
    /// A message joined the history.
    case historyGrew
    /// A queued message expires then (wall time).
    case expires(at: Int64)
    case damaged(sequence: Int64, QueueError, Moment)
    /// What a person asked for while there was no connection is on disk.
    case endedUnreachable(Row, Resolution, Moment)
    case log(LogLevel, String)
}
