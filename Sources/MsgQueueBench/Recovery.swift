import MsgQueue
import MsgQueueSimulation

/// 10,000 clients of one receiver reconnect at the same moment, with several retry policies, in virtual time.
struct Recovery {
    static let clients = 10_000
    static let receiver = Fleet.Receiver(capacity: 200, backlog: 400)

    private static let policies: [(name: String, backoff: MessageQueue.Backoff, retries: Int)] = [
        ("5 s, 30 s, 2 min (the default)", .automatic, 5),
        ("5 s, 30 s, 2 min, 10 min, 1 h", .ladder([5, 30, 120, 600, 3_600].map { .seconds($0) }), 5),
        ("5 s, doubled 8 times", .exponential(base: .seconds(5), factor: 2, cap: .seconds(3_600)), 8),
    ]

    /// A table in Markdown.
    static func table() throws -> String {
        var lines = [
            "| delays | jitter | peak, requests/s | wasted attempts | sent | failed | last sent after |",
            "|---|---:|---:|---:|---:|---:|---:|",
        ]
        for policy in policies {
            for jitter in [0, 0.2, 0.5] {
                var options = MessageQueue.Options(mode: .auto, backoff: policy.backoff)
                options.maxRetries = policy.retries
                options.jitter = jitter
                let report = try Fleet(clients: clients, options: options, receiver: receiver).recover()
                let share = "\(Int(jitter * 100)) %"
                let last = "\((report.lastSent + .milliseconds(999)).components.seconds) s"
                let cells = [policy.name, share] + [report.peak, report.wasted, report.sent, report.failed].map(grouped) + [last]
                lines.append("| \(cells.joined(separator: " | ")) |")
            }
        }
        return lines.joined(separator: "\n")
    }

    /// Formats a number with commas between groups of three digits.
    private static func grouped(_ number: Int) -> String {
        guard number >= 1_000 else { return "\(number)" }
        let rest = "\(number % 1_000)"
        return "\(grouped(number / 1_000)),\(String(repeating: "0", count: 3 - rest.count))\(rest)"
    }
}
