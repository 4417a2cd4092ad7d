/// Which way a message's status may go.
///
///     queued ──► sending ──► sent ──► delivered ──► read
///       │ ▲        │ ▲ │                 (receipts: forward only)
///       │ └────────┘ │ └──► failed ──► sending, queued    (a person's retry)
///       └────────────┴────► failed    (expired, refused, retries used up)
///
///     queued, failed ──► sent    (a late success of the last attempt)
package enum StatusRule {
    /// How far a status has come; a receipt never moves a message to a lower rank.
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
        // Back to its place: a retryable failure with steps left, or an attempt that never left.
        case (.sending, .queued), (.sending, .failed), (.sending, .sent): true
        // A person's retry: at once, or as soon as there is a connection.
        case (.failed, .sending), (.failed, .queued): true
        // A late success of the latest attempt, after its time-out.
        case (.queued, .sent), (.failed, .sent): true
        case (.sent, .delivered), (.sent, .read), (.delivered, .read): true
        default: false
        }
    }

    /// What a receipt does to a message: the new status, nil for nothing, or an error.
    package static func receipt(_ receipt: MessageStatus, on status: MessageStatus) throws(QueueError) -> MessageStatus? {
        guard receipt == .delivered || receipt == .read else {
            throw QueueError(.invalid, "a receipt is delivered or read, not \(receipt)")
        }
        guard rank(status) >= rank(.sent) else {
            throw QueueError(.conflict, "the message is \(status): it was not sent yet")
        }
        return rank(receipt) > rank(status) ? receipt : nil
    }

    /// The same for all that is known of the message: the time of the receipt is kept with it, not before `earliest`, when it was sent or
    /// recorded. What was written once stays.
    package static func receipt(
        _ receipt: MessageStatus, on status: MessageStatus, of before: Progress, earliest: Int64, now: Int64
    ) throws(QueueError) -> Progress? {
        guard let new = try Self.receipt(receipt, on: status) else { return nil }
        var progress = before
        progress.status = new
        // 0 is no time, whatever a clock says.
        let time = max(now, earliest, before.deliveredAt, 1)
        if new == .delivered { progress.deliveredAt = time } else { progress.readAt = time }
        return progress
    }

    /// Throws unless a person may do this to a message of that status.
    package static func check(_ action: PersonalAction, on status: MessageStatus) throws(QueueError) {
        if status == .sending { throw QueueError(.busy, "the message is being sent") }
        switch action {
        case .retry where status != .failed:
            throw QueueError(.conflict, "the message is \(status), not failed")
        case .sendNow where status != .queued:
            throw QueueError(.conflict, "the message is \(status), not queued")
        case .edit where status != .queued && status != .failed:
            throw QueueError(.conflict, "the message is \(status) already")
        default: break
        }
    }
}

/// What a person can do to one message.
package enum PersonalAction: Sendable { case retry, sendNow, edit, delete }
