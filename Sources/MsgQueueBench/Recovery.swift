import MsgQueue
import MsgQueueSimulation

/// 1,000 clients of one receiver reconnect at the same moment, with several retry policies, in virtual time.
struct Recovery {
    static let clients = 1_000
    static let receiver = Fleet.Receiver(capacity: 20, backlog: 40)

    private static let policies: [(name: String, backoff: MessageQueue.Backoff, retries: Int)] = [
        ("5 s, 30 s, 2 min (the default)", .automatic, 5),
        ("5 s, 30 s, 2 min, 10 min, 1 h", .ladder([5, 30, 120, 600, 3_600].map { .seconds($0) }), 5),
        ("5 s, doubled 8 times", .exponential(base: .seconds(5), factor: 2, cap: .seconds(3_600)), 8),
    ]

    private static let paces: [(name: String, rate: Double?, ramp: Duration?)] = [
        ("no limit", nil, nil), ("10 per second", 10, nil), ("1 per second", 1, nil), ("10 per second, ramp of 60 s", 10, .seconds(60)),
        ("1 in 10 s", 0.1, nil), ("1 in 50 s", 0.02, nil),
    ]

    /// Two tables in Markdown: by policy, and by rate.
    static func tables() throws -> String {
        try table() + "\n\nWith 5 messages each, the default delays and 20 % jitter:\n\n" + rates()
    }

    private static func rates() throws -> String {
        var lines = [
            "| rate of each client | peak, requests/s | wasted attempts | sent | failed | last sent after |",
            "|---|---:|---:|---:|---:|---:|",
        ]
        for pace in paces {
            var options = MessageQueue.Options(mode: .auto)
            (options.jitter, options.ratePerSecond, options.rampUp) = (0.2, pace.rate, pace.ramp)
            let report = try Fleet(clients: clients, messages: 5, options: options, receiver: receiver).recover()
            lines.append(row([pace.name], report))
        }
        return lines.joined(separator: "\n")
    }

    private static func row(_ names: [String], _ report: Fleet.Report) -> String {
        let last = "\((report.lastSent + .milliseconds(999)).components.seconds) s"
        let cells = names + [report.peak, report.wasted, report.sent, report.failed].map(grouped) + [last]
        return "| \(cells.joined(separator: " | ")) |"
    }

    private static func table() throws -> String {
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
                lines.append(row([policy.name, "\(Int(jitter * 100)) %"], report))
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
