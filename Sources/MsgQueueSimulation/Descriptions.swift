// The descriptions of the values are short texts for developers, for logs and tests.

extension Simulation.CrashPoint: CustomStringConvertible {
    /// When the process ends.
    public var description: String {
        switch self {
        case .write(let number, let isOnDisk): "crash \(isOnDisk ? "after" : "before") write \(number)"
        case .time(let time): "crash at \(time)"
        }
    }
}

extension Simulation.Reply: CustomStringConvertible {
    /// The outcome, and when it comes.
    public var description: String { "\(outcome.map { "\($0)" } ?? "no answer") after \(latency)" }
}

extension Simulation.Attempt: CustomStringConvertible {
    /// The message, the number, and how the attempt ended.
    public var description: String { "message \(id), attempt \(number) at \(startedAt): \(outcome.map { "\($0)" } ?? "no answer")" }
}

extension Simulation.Report: CustomStringConvertible {
    /// The time, the counts, and what the queue promises not to do.
    public var description: String {
        "\(time): \(counts); \(attempts.count) attempts, \(crashes) crashes, \(sentTwice.count) sent twice, \(lost.count) lost"
    }
}

extension Fleet: CustomStringConvertible {
    /// The number of clients and messages, and the receiver.
    public var description: String { "\(clients) clients with \(messages) messages each to \(receiver)" }
}

extension Fleet.Receiver: CustomStringConvertible {
    /// What the receiver can serve.
    public var description: String { "a receiver of \(capacity) requests per second, \(backlog) waiting, with \(latency)" }
}

extension Fleet.Report: CustomStringConvertible {
    /// The numbers of requests and messages.
    public var description: String {
        "\(attempts) requests, \(wasted) refused, \(peak) in a second at most; \(sent) sent, \(failed) failed"
    }
}

extension SeededGenerator: CustomStringConvertible {
    /// The name of the type.
    public var description: String { "SeededGenerator" }
}
