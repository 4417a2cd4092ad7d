extension MessageQueue {
    /// Statistics since the queue was opened.
    public struct Statistics: Sendable, Hashable {
        /// The upper bounds of the latency buckets, ascending.
        public static let latencyBounds: [Duration] = MsgQueue.Statistics.bounds.map { .milliseconds($0) }

        /// When the queue was opened.
        public let openedAt: Timestamp
        /// Messages that were enqueued.
        public let enqueued: Int
        /// Attempts that began.
        public let attempts: Int
        /// Messages that were sent.
        public let sent: Int
        /// Attempts that failed and left the message queued.
        public let retried: Int
        /// Messages that became `failed`.
        public let failed: Int
        /// Messages that were deleted after their failure.
        public let discarded: Int
        /// Queued messages that were replaced by newer ones of the same ``Draft/replaceKey``.
        public let replaced: Int
        /// Bytes of the bodies sent.
        public let sentBytes: Int
        /// Failed attempts, and messages that expired or were dropped, by kind; kinds without failures are omitted.
        public let failures: [FailureKind: Int]
        /// Messages sent in the last minute.
        public let sentPerMinute: Int
        /// Messages enqueued in the last minute.
        public let enqueuedPerMinute: Int
        /// The latencies from enqueue to sent: a count for each bucket of `latencyBounds`, and one for longer ones.
        public let latencies: [Int]
        /// The sum of the times from enqueue to sent.
        public let latencySum: Duration
        /// The longest time from enqueue to sent.
        public let latencyMax: Duration
        /// The size of the database file, without the log and reserved space.
        public let fileBytes: Int
        /// The unused part of the file. New messages use it, and a queue that is idle for some seconds gives most of it back to the file
        /// system.
        public let freeBytes: Int
        /// Attempts that ended with a retryable failure, also when no retry was left.
        public let retryable: Int
        /// Attempts that ended with a final failure.
        public let rejected: Int
        /// Attempts that ended as offline.
        public let offline: Int
        /// When the first message that is queued or being sent was enqueued (or replaced an earlier one); nil: there is none.
        public let oldestQueuedAt: Timestamp?

        /// Returns the latency that this share (0 to 1) of the messages did not exceed, as the upper bound of its bucket; nil: none was
        /// sent.
        public func latency(share: Double) -> Duration? {
            MsgQueue.Statistics.latency(share: share, latencies.map { Int64($0) }, longest: latencyMax.milliseconds).map {
                .milliseconds($0)
            }
        }
    }
}

extension MessageQueue {
    /// What happened in one minute.
    public struct Minute: Sendable, Hashable, Encodable {
        /// Its beginning, by the present wall clock.
        public let startedAt: Timestamp
        /// Messages that were enqueued.
        public let enqueued: Int
        /// Messages that were sent.
        public let sent: Int
        /// Attempts that failed, without those that ended as offline.
        public let failedAttempts: Int
        /// Messages that became `failed`.
        public let failed: Int
    }
}

extension MessageQueue.Minute {
    package init(_ minute: MsgQueue.Minute) {
        self.init(
            startedAt: .init(minute.startedAt), enqueued: Int(minute.enqueued), sent: Int(minute.sent),
            failedAttempts: Int(minute.failedAttempts), failed: Int(minute.failed))
    }
}

extension MessageQueue.Statistics {
    package init(_ statistics: MsgQueue.Statistics) {
        let failures = MessageQueue.FailureKind.allCases.compactMap { kind -> (MessageQueue.FailureKind, Int)? in
            let index = Int(kind.rawValue)
            guard statistics.failuresByKind.indices.contains(index), statistics.failuresByKind[index] > 0 else { return nil }
            return (kind, Int(statistics.failuresByKind[index]))
        }
        self.init(
            openedAt: .init(statistics.openedAt), enqueued: Int(statistics.enqueued), attempts: Int(statistics.attempts),
            sent: Int(statistics.sent), retried: Int(statistics.retried), failed: Int(statistics.failed),
            discarded: Int(statistics.discarded), replaced: Int(statistics.replaced), sentBytes: Int(statistics.sentBytes),
            failures: Dictionary(failures, uniquingKeysWith: +), sentPerMinute: Int(statistics.sentPerMinute),
            enqueuedPerMinute: Int(statistics.enqueuedPerMinute), latencies: statistics.latencies.map { Int($0) },
            latencySum: .milliseconds(statistics.latencySum), latencyMax: .milliseconds(statistics.latencyMax),
            fileBytes: Int(statistics.fileBytes), freeBytes: Int(statistics.freeBytes),
            retryable: Int(statistics.retryable), rejected: Int(statistics.rejected), offline: Int(statistics.offline),
            oldestQueuedAt: .init(orNil: statistics.oldestQueuedAt))
    }
}
