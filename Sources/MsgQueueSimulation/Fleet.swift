import MsgQueue

/// Many queues of one receiver that come back at the same moment after an outage: what their retry policy does to the receiver, and to them.
///
/// Each client is a `Simulation` with the messages that it wrote while offline, each in a conversation of its own. All of them get their
/// connection back at once. The receiver serves one request after the other at its capacity; some may wait, and one more is refused at once
/// with HTTP 503 (without `Retry-After`). Refusing costs the receiver nothing: a real one fares worse under a load that it refuses.
public struct Fleet: Sendable {
    /// 1 to 1,000,000.
    public var clients: Int
    /// Messages that each client has written, 1 to 1,000.
    public var messages: Int
    /// Of each client's queue. In mode manual nothing would be sent.
    public var options: MessageQueue.Options
    public var receiver: Receiver

    public init(clients: Int, messages: Int = 1, options: MessageQueue.Options = .init(), receiver: Receiver) {
        self.clients = clients
        self.messages = messages
        self.options = options
        self.receiver = receiver
    }

    /// What all clients send to.
    public struct Receiver: Sendable {
        /// Requests per second that it serves, 1 to 1,000,000.
        public var capacity: Int
        /// Requests that may wait for it, 0 to 1,000,000.
        public var backlog: Int
        /// The way there and back, 0 or more, in whole milliseconds.
        public var latency: Duration

        public init(capacity: Int, backlog: Int, latency: Duration = .milliseconds(50)) {
            self.capacity = capacity
            self.backlog = backlog
            self.latency = latency
        }
    }

    /// What came of it. Times are counted from the moment at which the connection came back.
    public struct Report: Sendable, Equatable {
        /// Requests in the second that had most of them.
        public internal(set) var peak = 0
        /// All requests.
        public internal(set) var attempts = 0
        /// Requests that were refused.
        public internal(set) var wasted = 0
        /// Messages that arrived.
        public internal(set) var sent = 0
        /// Messages that are `failed`: their retries are used up.
        public internal(set) var failed = 0
        /// When the last message that arrived was answered.
        public internal(set) var lastSent: Duration = .zero
        /// When nothing was left to send: every message had arrived, or failed. nil: not before the end of the run.
        public internal(set) var drained: Duration?
    }

    /// Plays the return and what follows, for this long at most. The same seed gives the same report.
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
        for queue in queues { report.failed += Int(clamping: queue.engine.store.totals.failed) }
        if report.sent + report.failed == clients * messages { report.drained = last }
        return report
    }

    private func check(_ value: Int, in range: ClosedRange<Int>, _ name: String) throws(MessageQueue.Error) {
        guard range.contains(value) else {
            throw QueueError(.invalid, "\(name) must be \(range.lowerBound) to \(range.upperBound), got \(value)")
        }
    }

    /// A client, and when something happens to it next.
    private struct Turn: Comparable {
        let time: Duration
        let client: Int
        static func < (left: Turn, right: Turn) -> Bool { (left.time, left.client) < (right.time, right.client) }
    }

    /// The receiver at work. Requests come to it in the order of time.
    private final class Counter {
        let receiver: Receiver
        private(set) var report = Report()
        /// When the last request that was taken will have been served, in microseconds.
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
