/// Statistics since the queue was opened.
package struct Statistics: Sendable, Equatable {
    /// The upper bounds of the latency buckets, in milliseconds.
    package static let bounds: [Int64] = [10, 50, 100, 500, 1_000, 5_000, 30_000, 120_000, 600_000, 3_600_000]

    package internal(set) var openedAt: Int64 = 0
    package internal(set) var enqueued: Int64 = 0
    package internal(set) var attempts: Int64 = 0
    package internal(set) var sent: Int64 = 0
    /// Attempts that failed and left the message queued.
    package internal(set) var retried: Int64 = 0
    /// Messages that became `failed`.
    package internal(set) var failed: Int64 = 0
    package internal(set) var discarded: Int64 = 0
    /// Attempts by their outcome: a retryable failure, also of a last attempt; a final failure; offline.
    package internal(set) var retryable: Int64 = 0
    package internal(set) var rejected: Int64 = 0
    package internal(set) var offline: Int64 = 0
    /// When the first message that is queued or being sent was enqueued (or replaced an earlier one); 0: there is none.
    package internal(set) var oldestQueuedAt: Int64 = 0
    /// Queued messages that were replaced by newer ones of the same key.
    package internal(set) var replaced: Int64 = 0
    package internal(set) var sentBytes: Int64 = 0
    /// Failed attempts, indexed by the number of their kind.
    package internal(set) var failuresByKind = [Int64](repeating: 0, count: FailureKind.allCases.count)
    /// Messages sent and messages enqueued in the last minute.
    package internal(set) var sentPerMinute: Int64 = 0
    package internal(set) var enqueuedPerMinute: Int64 = 0
    /// The latencies from enqueue to sent: a count for each bucket of `bounds`, and one for longer ones.
    package internal(set) var latencies = [Int64](repeating: 0, count: bounds.count + 1)
    package internal(set) var latencySum: Int64 = 0
    package internal(set) var latencyMax: Int64 = 0
    /// The size of the database, and how much of it is free.
    package internal(set) var fileBytes: Int64 = 0
    package internal(set) var freeBytes: Int64 = 0

    /// Returns the latency that this share of the messages (0 to 1) did not exceed, as the upper bound of its bucket; nil: none was sent.
    /// `latencies` may come from outside.
    package static func latency(share: Double, _ latencies: [Int64], longest: Int64) -> Int64? {
        let total = latencies.reduce(Int64(0)) { $0.addingClamped($1) }
        guard total > 0 else { return nil }
        var sum: Int64 = 0
        for (index, count) in latencies.enumerated() {
            sum = sum.addingClamped(count)
            if Double(sum) >= share * Double(total) { return index < bounds.count ? bounds[index] : longest }
        }
        return longest
    }
}

extension FailureKind {
    /// The name in labels and logs.
    var word: String {
        switch self {
        case .none: "none"
        case .offline: "offline"
        case .timeout: "timeout"
        case .network: "network"
        case .server: "server"
        case .rateLimit: "rate_limit"
        case .unauthorized: "unauthorized"
        case .rejected: "rejected"
        case .notFound: "not_found"
        case .expired: "expired"
        case .unknown: "unknown"
        case .dropped: "dropped"
        case .local: "local"
        }
    }
}
