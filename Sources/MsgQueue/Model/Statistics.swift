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

    package init() {}

    /// Returns the latency that this share of the messages (0 to 1) did not exceed, as the upper bound of its bucket; nil: none was sent.
    package func latency(share: Double) -> Int64? {
        let total = latencies.reduce(0, +)
        guard total > 0 else { return nil }
        var sum: Int64 = 0
        for (index, count) in latencies.enumerated() {
            sum += count
            if Double(sum) >= share * Double(total) { return index < Self.bounds.count ? Self.bounds[index] : latencyMax }
        }
        return latencyMax
    }

    /// Returns the statistics in the Prometheus text format 0.0.4.
    package func prometheus(_ counts: Counts) -> String {
        var text = ""
        func metric(_ name: String, _ type: String, _ help: String, _ samples: [(labels: String, value: String)]) {
            text += "# HELP msgqueue_\(name) \(help)\n# TYPE msgqueue_\(name) \(type)\n"
            for (labels, value) in samples { text += "msgqueue_\(name)\(labels) \(value)\n" }
        }
        metric(
            "messages", "gauge", "Messages in the store, by status.",
            [
                ("queued", counts.queued), ("sending", counts.sending), ("sent", counts.sent), ("delivered", counts.delivered),
                ("read", counts.read), ("failed", counts.failed), ("received", counts.received),
            ].map { ("{status=\"\($0.0)\"}", "\($0.1)") })
        metric("unsent_bytes", "gauge", "Bytes of unsent bodies.", [("", "\(counts.unsentBytes)")])
        metric("file_bytes", "gauge", "Size of the database file.", [("", "\(fileBytes)")])
        metric("free_bytes", "gauge", "Unused part of the database file.", [("", "\(freeBytes)")])
        for (name, help, value) in [
            ("enqueued_total", "Messages enqueued.", enqueued), ("attempts_total", "Attempts made.", attempts),
            ("sent_total", "Messages sent.", sent), ("sent_bytes_total", "Bytes of the bodies sent.", sentBytes),
            ("retries_total", "Attempts that failed and will be made again.", retried),
            ("failed_total", "Messages that became failed.", failed), ("discarded_total", "Messages discarded.", discarded),
            ("replaced_total", "Queued messages replaced by newer ones of the same key.", replaced),
        ] {
            metric(name, "counter", help, [("", "\(value)")])
        }
        metric(
            "failures_total", "counter", "Failed attempts, by kind.",
            FailureKind.allCases.filter { $0 != .none }.map { kind in
                ("{kind=\"\(kind.word)\"}", "\(failuresByKind[Int(kind.rawValue)])")
            })
        var sum: Int64 = 0
        var samples: [(labels: String, value: String)] = []
        for (index, count) in latencies.enumerated() {
            sum += count
            let bound = index < Self.bounds.count ? "\(Double(Self.bounds[index]) / 1000)" : "+Inf"
            samples.append(("_bucket{le=\"\(bound)\"}", "\(sum)"))
        }
        samples.append(("_sum", "\(Double(latencySum) / 1000)"))
        samples.append(("_count", "\(sum)"))
        metric("latency_seconds", "histogram", "From enqueue to sent.", samples)
        return text
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
        }
    }
}
