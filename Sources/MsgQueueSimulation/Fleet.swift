import MsgQueue

/// Many clients of one receiver that reconnect at the same moment after an outage. Shows the effect of their retry policy on the receiver
/// and on their messages.
///
/// Each client is a `Simulation` with messages that were enqueued while offline, each in its own conversation. All clients reconnect at
/// once. The receiver serves one request after another at its capacity; a limited number may wait, and further requests are refused at once
/// with HTTP 503 (without `Retry-After`). Refusing costs the receiver nothing; a real receiver does worse under such a load.
public struct Fleet: Sendable {
    /// 1 to 1,000,000. Each needs about 400 kB and some milliseconds.
    public var clients: Int
    /// Messages of each client, 1 to 1,000.
    public var messages: Int
    /// The options of each client's queue. In mode manual nothing would be sent.
    public var options: MessageQueue.Options
    /// The receiver that all clients share.
    public var receiver: Receiver

    /// Creates a fleet. The parameters are the properties of the same names.
    public init(clients: Int, messages: Int = 1, options: MessageQueue.Options = .init(), receiver: Receiver) {
        self.clients = clients
        self.messages = messages
        self.options = options
        self.receiver = receiver
    }

    /// The receiver of all clients.
    public struct Receiver: Sendable {
        /// Requests served per second, 1 to 1,000,000.
        public var capacity: Int
        /// Requests that may wait, 0 to 1,000,000.
        public var backlog: Int
        /// The round-trip time, 0 or more, in whole milliseconds.
        public var latency: Duration

        /// Creates a receiver. The parameters are the properties of the same names.
        public init(capacity: Int, backlog: Int, latency: Duration = .milliseconds(50)) {
            self.capacity = capacity
            self.backlog = backlog
            self.latency = latency
        }
    }

    /// The result. Times count from the moment of the reconnection.
    public struct Report: Sendable, Equatable {
        /// The largest number of requests in one second.
        public internal(set) var peak = 0
        /// The number of all requests.
        public internal(set) var attempts = 0
        /// The number of refused requests.
        public internal(set) var wasted = 0
        /// The number of messages that the receiver took.
        public internal(set) var sent = 0
        /// The number of messages with status `failed`: their retries are used up.
        public internal(set) var failed = 0
        /// The time of the last success.
        public internal(set) var lastSent: Duration = .zero
        /// The time at which every message had been sent or had failed; nil: not before the end of the run.
        public internal(set) var drained: Duration?
    }

    /// Simulates the reconnection and what follows, for at most `limit`. The same seed gives the same report.
    ///
    /// Throws `.invalid` when a number or an option is out of its range, and what `Simulation.run` throws.
    public func recover(seed: UInt64 = 0, within limit: Duration = .seconds(86_400)) throws -> Report {
        try check(clients, in: 1...1_000_000, "clients")
        try check(messages, in: 1...1_000, "messages")
        try check(receiver.capacity, in: 1...1_000_000, "capacity")
        try check(receiver.backlog, in: 0...1_000_000, "backlog")
        let counter = Counter(receiver)
        let queues = try (0..<clients).map { number in
            let queue = try Simulation(seed: seed &+ UInt64(number), options: options) { _, time in counter.serve(time) }
            queue.setConnectivity(.offline)
            for message in 0..<messages { try queue.enqueue("", conversation: "\(message)") }
            queue.setConnectivity(.online)
            return queue
        }
        var turns = Heap<Turn>()
        for number in queues.indices { turns.insert(Turn(time: .zero, client: number)) }
        var last = Duration.zero
        while let turn = turns.first, turn.time <= limit {
            turns.removeFirst()
            let queue = queues[turn.client]
            try queue.run(until: turn.time)
            last = max(last, turn.time)
            if let next = queue.nextEvent { turns.insert(Turn(time: next, client: turn.client)) }
        }
        var report = counter.report
        for queue in queues { report.failed += queue.report.counts.failed }
        if report.sent + report.failed == clients * messages { report.drained = last }
        return report
    }

    private func check(_ value: Int, in range: ClosedRange<Int>, _ name: String) throws(MessageQueue.Error) {
        guard range.contains(value) else {
            throw QueueError(.invalid, "\(name) must be \(range.lowerBound) to \(range.upperBound), got \(value)")
        }
    }

    /// A client and the time of its next event.
    private struct Turn: Comparable {
        let time: Duration
        let client: Int
        static func < (left: Turn, right: Turn) -> Bool { (left.time, left.client) < (right.time, right.client) }
    }

    /// The state of the receiver. Requests arrive in order of time.
    private final class Counter {
        let receiver: Receiver
        private(set) var report = Report()
        /// When the last accepted request will have been served, in microseconds.
        private var busyUntil: Int64 = 0
        private var second: Int64 = -1
        private var inSecond = 0

        init(_ receiver: Receiver) { self.receiver = receiver }

        func serve(_ time: VirtualTime) -> Simulation.Reply {
            let now = time.wholeMilliseconds * 1_000
            count(now / 1_000_000)
            let cost = 1_000_000 / Int64(receiver.capacity)
            guard busyUntil - now <= cost * Int64(receiver.backlog) else {
                report.wasted += 1
                return .answer(.http(503), after: receiver.latency)
            }
            busyUntil = max(busyUntil, now) + cost
            report.sent += 1
            let latency = receiver.latency + .milliseconds((busyUntil - now + 999) / 1_000)
            report.lastSent = max(report.lastSent, time + latency)
            return .answer(.sent, after: latency)
        }

        private func count(_ second: Int64) {
            if second != self.second { (self.second, inSecond) = (second, 0) }
            inSecond += 1
            report.attempts += 1
            report.peak = max(report.peak, inSecond)
        }
    }
}
