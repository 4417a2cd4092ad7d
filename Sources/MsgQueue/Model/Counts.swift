/// Numbers of messages by status.
///
/// In a damaged store they can have any value, so that the arithmetic wraps instead of trapping.
package struct Counts: Sendable, Equatable {
    package var queued: Int64 = 0
    package var sending: Int64 = 0
    package var sent: Int64 = 0
    package var delivered: Int64 = 0
    package var read: Int64 = 0
    package var failed: Int64 = 0
    /// Recorded messages, and the unread ones among them.
    package var received: Int64 = 0
    package var unread: Int64 = 0
    /// The size of the bodies of queued, sending and failed messages.
    package var unsentBytes: Int64 = 0

    package init() {}

    /// Queued, sending and failed.
    package var unsent: Int64 { queued &+ sending &+ failed }

    /// The counts with `sending` of the queued messages counted as being sent.
    func separating(sending count: Int64) -> Counts {
        var counts = self
        counts.sending += count
        counts.queued -= count
        return counts
    }

    /// The messages of the history.
    package var history: Int64 { sent &+ delivered &+ read &+ received }

    /// The messages of the history that a limit applies to: all but unread received ones.
    package var prunable: Int64 { history &- unread }

    /// Adds `amount` messages with `bytes` bytes in total to the count of `status`, or to that of received messages.
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

    /// Whether every number is possible. Without an array, because all conversations are checked when a store is opened after a crash.
    package var isPlausible: Bool {
        func isPossible(_ number: Int64) -> Bool { (0...(1 << 53)).contains(number) }
        return isPossible(queued) && isPossible(sending) && isPossible(sent) && isPossible(delivered) && isPossible(read)
            && isPossible(failed) && isPossible(received) && isPossible(unread) && isPossible(unsentBytes)
    }

    package var negated: Counts {
        var result = Counts()
        result.merge(self, sign: -1)
        return result
    }
}
