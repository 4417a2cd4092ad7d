/// The statistics and counts of one queue under its name.
package struct Metrics: Sendable {
    /// The value of the label `queue`.
    package let name: String
    package let statistics: Statistics
    package let counts: Counts
    /// Milliseconds since 1970.
    package let now: Int64

    /// In seconds.
    private var oldestAge: Int64 {
        statistics.oldestQueuedAt == 0 ? 0 : max(now.subtractingClamped(statistics.oldestQueuedAt), 0) / 1_000
    }

    /// Returns the metrics of these queues in the Prometheus text format 0.0.4.
    ///
    /// Each metric occurs once, with the samples of all queues together, as the format requires.
    package static func prometheus(_ queues: [Metrics]) -> String {
        let samples = queues.map { $0.samples }
        var text = ""
        for (index, metric) in (samples.first ?? []).enumerated() {
            text += "# HELP msgqueue_\(metric.name) \(metric.help)\n# TYPE msgqueue_\(metric.name) \(metric.type)\n"
            for (queue, metrics) in zip(queues, samples) where index < metrics.count {
                let label = "queue=\"\(escaped(queue.name))\""
                for value in metrics[index].values {
                    let labels = value.label.isEmpty ? label : "\(label),\(value.label)"
                    text += "msgqueue_\(metric.name)\(value.suffix){\(labels)} \(value.value)\n"
                }
            }
        }
        return text
    }

    /// Returns the value of a label as the format writes it.
    private static func escaped(_ value: String) -> String {
        var text = ""
        for character in value.unicodeScalars {
            switch character {
            case "\\": text += "\\\\"
            case "\"": text += "\\\""
            case "\n": text += "\\n"
            default: text.unicodeScalars.append(character)
            }
        }
        return text
    }

    private struct Metric {
        var name: String
        var type: String
        var help: String
        var values: [(suffix: String, label: String, value: String)]
    }

    /// The metrics of this queue; those of every queue have the same order.
    private var samples: [Metric] {
        let statuses = [
            ("queued", counts.queued), ("sending", counts.sending), ("sent", counts.sent), ("delivered", counts.delivered),
            ("read", counts.read), ("failed", counts.failed), ("received", counts.received),
        ]
        let outcomes = [
            ("sent", statistics.sent), ("retry", statistics.retryable), ("rejected", statistics.rejected),
            ("offline", statistics.offline),
        ]
        let failures = FailureKind.allCases.filter { $0 != .none }.map { kind in
            ("kind=\"\(kind.word)\"", statistics.failuresByKind[Int(kind.rawValue)])
        }
        return [
            Metric(
                name: "messages", type: "gauge", help: "Messages in the store, by status.",
                values: statuses.map { ("", "status=\"\($0.0)\"", "\($0.1)") }),
            gauge("unsent_bytes", "Bytes of unsent bodies.", counts.unsentBytes),
            gauge("file_bytes", "Size of the database file.", statistics.fileBytes),
            gauge("free_bytes", "Unused part of the database file.", statistics.freeBytes),
            counter("enqueued_total", "Messages enqueued.", statistics.enqueued),
            counter("attempts_total", "Attempts made.", statistics.attempts),
            counter("sent_total", "Messages sent.", statistics.sent),
            counter("sent_bytes_total", "Bytes of the bodies sent.", statistics.sentBytes),
            counter("retries_total", "Attempts that failed and will be made again.", statistics.retried),
            counter("failed_total", "Messages that became failed.", statistics.failed),
            counter("discarded_total", "Messages discarded.", statistics.discarded),
            counter("replaced_total", "Queued messages replaced by newer ones of the same key.", statistics.replaced),
            Metric(
                name: "attempt_outcomes_total", type: "counter", help: "Ended attempts, by outcome.",
                values: outcomes.map { ("", "outcome=\"\($0.0)\"", "\($0.1)") }),
            gauge("oldest_queued_seconds", "Age of the first message that is queued or being sent; 0 without one.", oldestAge),
            Metric(
                name: "failures_total", type: "counter", help: "Failed attempts, by kind.",
                values: failures.map { ("", $0.0, "\($0.1)") }),
            latencies,
        ]
    }

    private func gauge(_ name: String, _ help: String, _ value: Int64) -> Metric {
        Metric(name: name, type: "gauge", help: help, values: [("", "", "\(value)")])
    }

    private func counter(_ name: String, _ help: String, _ value: Int64) -> Metric {
        Metric(name: name, type: "counter", help: help, values: [("", "", "\(value)")])
    }

    private var latencies: Metric {
        var sum: Int64 = 0
        var values: [(suffix: String, label: String, value: String)] = []
        for (index, count) in statistics.latencies.enumerated() {
            sum += count
            let bound = index < Statistics.bounds.count ? "\(Double(Statistics.bounds[index]) / 1000)" : "+Inf"
            values.append(("_bucket", "le=\"\(bound)\"", "\(sum)"))
        }
        values.append(("_sum", "", "\(Double(statistics.latencySum) / 1000)"))
        values.append(("_count", "", "\(sum)"))
        return Metric(name: "latency_seconds", type: "histogram", help: "From enqueue to sent.", values: values)
    }
}
