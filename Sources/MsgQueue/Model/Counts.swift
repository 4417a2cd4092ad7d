/// How many messages there are, by status.
public struct Counts: Sendable, Equatable {
    public var queued: Int64 = 0
    public var sending: Int64 = 0
    public var sent: Int64 = 0
    public var delivered: Int64 = 0
    public var read: Int64 = 0
    public var failed: Int64 = 0
    /// Of the bodies of queued, sending and failed messages.
    public var unsentBytes: Int64 = 0

    public init() {}

    /// Queued, sending and failed.
    public var unsent: Int64 { queued + sending + failed }

    /// Adds `amount` messages of `bytes` bytes together to what is counted under `status`.
    package mutating func add(_ status: MessageStatus, amount: Int64, bytes: Int64) {
        switch status {
        case .queued: queued += amount
        case .sending: sending += amount
        case .sent: sent += amount
        case .delivered: delivered += amount
        case .read: read += amount
        case .failed: failed += amount
        }
        if status.isUnsent { unsentBytes += bytes }
    }

    package static func + (left: Counts, right: Counts) -> Counts {
        var sum = left
        sum.queued += right.queued
        sum.sending += right.sending
        sum.sent += right.sent
        sum.delivered += right.delivered
        sum.read += right.read
        sum.failed += right.failed
        sum.unsentBytes += right.unsentBytes
        return sum
    }
}
