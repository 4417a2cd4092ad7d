/// How many messages there are, by status.
///
/// The numbers come from a file, where damage can make them anything: arithmetic here wraps instead of ending the process.
package struct Counts: Sendable, Equatable {
    package var queued: Int64 = 0
    package var sending: Int64 = 0
    package var sent: Int64 = 0
    package var delivered: Int64 = 0
    package var read: Int64 = 0
    package var failed: Int64 = 0
    /// Recorded messages of others, and those of them that were not read yet.
    package var received: Int64 = 0
    package var unread: Int64 = 0
    /// Of the bodies of queued, sending and failed messages.
    package var unsentBytes: Int64 = 0

    package init() {}

    /// Queued, sending and failed.
    package var unsent: Int64 { queued &+ sending &+ failed }

    /// What is kept as history.
    package var history: Int64 { sent &+ delivered &+ read &+ received }

    /// What of it a limit applies to: received messages that are not read yet stay.
    package var prunable: Int64 { history &- unread }

    /// Adds `amount` messages of `bytes` bytes together to what is counted under `status`. Those of others count apart.
    package mutating func add(_ status: MessageStatus, isReceived: Bool = false, amount: Int64, bytes: Int64) {
        guard !isReceived else {
            received &+= amount
            if status != .read { unread &+= amount }
            return
        }
        switch status {
        case .queued: queued &+= amount
        case .sending: sending &+= amount
        case .sent: sent &+= amount
        case .delivered: delivered &+= amount
        case .read: read &+= amount
        case .failed: failed &+= amount
        }
        if status.isUnsent { unsentBytes &+= bytes }
    }

    private mutating func merge(_ other: Counts, sign: Int64) {
        queued &+= sign &* other.queued
        sending &+= sign &* other.sending
        sent &+= sign &* other.sent
        delivered &+= sign &* other.delivered
        read &+= sign &* other.read
        failed &+= sign &* other.failed
        received &+= sign &* other.received
        unread &+= sign &* other.unread
        unsentBytes &+= sign &* other.unsentBytes
    }

    package static func += (left: inout Counts, right: Counts) { left.merge(right, sign: 1) }

    package static func + (left: Counts, right: Counts) -> Counts {
        var sum = left
        sum += right
        return sum
    }

    /// Whether these can be counts of anything.
    package var isPlausible: Bool {
        [queued, sending, sent, delivered, read, failed, received, unread, unsentBytes].allSatisfy { (0...(1 << 53)).contains($0) }
    }

    package var negated: Counts {
        var result = Counts()
        result.merge(self, sign: -1)
        return result
    }
}
