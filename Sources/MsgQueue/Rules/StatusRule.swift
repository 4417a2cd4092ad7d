/// The allowed changes of a message's status.
///
///     queued ──► sending ──► sent ──► delivered ──► read
///       │ ▲        │ ▲ │                 (receipts: forward only)
///       │ └────────┘ │ └──► failed ──► sending, queued    (a manual retry)
///       └────────────┴────► failed    (expired, refused, retries used up)
///
///     queued, failed ──► sent    (a late success of the last attempt)
package enum StatusRule {
    /// Returns the rank of a status; a receipt never changes a status to a lower rank.
    package static func rank(_ status: MessageStatus) -> Int {
        switch status {
        case .queued: 0
        case .sending, .failed: 1
        case .sent: 2
        case .delivered: 3
        case .read: 4
        }
    }

    /// Whether the engine may move a message from one status to the other.
    package static func allows(_ from: MessageStatus, _ to: MessageStatus) -> Bool {
        switch (from, to) {
        case (.queued, .sending), (.queued, .failed): true
        // A retryable failure with retries left, or an attempt that was not transmitted.
        case (.sending, .queued), (.sending, .failed), (.sending, .sent): true
        // A manual retry, at once or when the connection returns.
        case (.failed, .sending), (.failed, .queued): true
        // A late success of the latest attempt, after its timeout.
        case (.queued, .sent), (.failed, .sent): true
        case (.sent, .delivered), (.sent, .read), (.delivered, .read): true
        default: false
        }
    }

    /// Whether one commit may move a message from one status to the other: it may write a success together with its receipt.
    package static func allowsInOneCommit(_ from: MessageStatus, _ to: MessageStatus) -> Bool {
        allows(from, to) || allows(from, .sent) && allows(.sent, to)
    }

    /// Whether the receiver may report this status.
    package static func isReceipt(_ status: MessageStatus) -> Bool { status == .delivered || status == .read }

    static func check(receipt: MessageStatus) throws(QueueError) {
        guard isReceipt(receipt) else { throw QueueError(.invalid, "a receipt must be delivered or read, got \(receipt)") }
    }

    /// Returns a message's new status after a receipt; nil: the receipt changes nothing.
    package static func receipt(_ receipt: MessageStatus, on status: MessageStatus) throws(QueueError) -> MessageStatus? {
        try check(receipt: receipt)
        guard rank(status) >= rank(.sent) else {
            throw QueueError(.conflict, "the message has not been sent; its status is \(status)")
        }
        return rank(receipt) > rank(status) ? receipt : nil
    }

    /// Returns a message's progress after a receipt, with the time of the receipt; nil: the receipt changes nothing. The time is not before
    /// `earliest`, when the message was sent or recorded. A stored time is not changed.
    package static func receipt(
        _ receipt: MessageStatus, on status: MessageStatus, of before: Progress, earliest: Int64, now: Int64
    ) throws(QueueError) -> Progress? {
        guard let new = try Self.receipt(receipt, on: status) else { return nil }
        return marked(before, as: new, at: max(now, earliest))
    }

    private static func marked(_ before: Progress, as status: MessageStatus, at time: Int64) -> Progress {
        var progress = before
        progress.status = status
        // The stored value 0 means that there is no time.
        let time = max(time, before.deliveredAt, 1)
        if status == .delivered { progress.deliveredAt = time } else { progress.readAt = time }
        return progress
    }

    /// Returns the progress of a message that was sent just now, with the receipt that came with the outcome, if there is one.
    static func sent(_ progress: Progress, receipt: MessageStatus?) -> Progress {
        guard let receipt, progress.status == .sent, isReceipt(receipt) else { return progress }
        return marked(progress, as: receipt, at: progress.sentAt)
    }

    /// Returns the state with which a recorded message begins: one that was received is delivered; one's own, which another device sent, is
    /// sent.
    static func recorded(isOwn: Bool, now: Int64) -> Progress {
        var progress = Progress()
        progress.status = isOwn ? .sent : .delivered
        if isOwn { progress.sentAt = max(now, 1) }
        return progress
    }

    /// Whether one's own message in this state was recorded: it was sent, but by no attempt of this queue.
    static func isRecorded(own status: MessageStatus, attempts: UInt32) -> Bool { rank(status) >= rank(.sent) && attempts == 0 }

    /// Throws unless the action is allowed for a message of that status.
    package static func check(_ action: UserAction, on status: MessageStatus) throws(QueueError) {
        if status == .sending { throw QueueError(.busy, "the message is being sent") }
        switch action {
        case .retry where status != .failed:
            throw QueueError(.conflict, "only a failed message can be retried; the status is \(status)")
        case .sendNow where status != .queued:
            throw QueueError(.conflict, "only a queued message can be sent now; the status is \(status)")
        case .edit where status != .queued && status != .failed:
            throw QueueError(.conflict, "only a queued or failed message can be edited; the status is \(status)")
        default: break
        }
    }
}

/// A user's action on one message.
package enum UserAction: Sendable { case retry, sendNow, edit, delete }
