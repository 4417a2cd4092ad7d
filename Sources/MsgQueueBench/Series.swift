import Glibc
import MsgQueue

/// The measurements that are more than one figure: throughput by threads, the cost of an enqueue by depth, 16 attempts in flight, and
/// latencies.
struct Series {
    static let threadCounts = [1, 2, 4, 8, 16]
    /// The numbers of queued messages at which the cost of an enqueue is measured.
    static let depths = [0, 1_000, 10_000, 100_000, 1_000_000]

    let seconds: Double
    let rounds: Int
    let directory: String
    let deepest: Int

    private let body = [UInt8](repeating: 0x6d, count: Work.bodySize)

    init(seconds: Double, rounds: Int, directory: String, deepest: Int) {
        (self.seconds, self.rounds, self.directory, self.deepest) = (seconds, rounds, directory, deepest)
    }

    /// All series, as one JSON object.
    func json() throws -> String {
        let parts = [
            "\"threads\":[\(try byThreads())]", "\"depth\":[\(try byDepth())]", "\"in_flight\":[\(try inFlight())]",
            "\"latency\":[\(try latencies())]",
        ]
        return "{\(parts.joined(separator: ","))}"
    }

    private func inFolder<Value>(_ body: (String) throws -> Value) throws -> Value {
        let folder = try Folder(in: directory)
        defer { folder.remove() }
        return try body(folder.path)
    }

    private static func number(_ value: Double) -> String { "\((value * 100).rounded() / 100)" }

    // MARK: Throughput by threads

    private func byThreads() throws -> String {
        let contenders: [(String, any (Contender & SendableMetatype).Type)] = [
            ("queue", QueueContender.self), ("SQLite", SQLiteContender.self), ("SQLite, group commit", GroupContender.self),
        ]
        var rates = contenders.map { _ in Self.threadCounts.map { _ in [Double]() } }
        for _ in 0..<rounds {
            for (place, threads) in Self.threadCounts.enumerated() {
                for (index, (_, type)) in contenders.enumerated() {
                    let measurement = Measurement(work: .threads, seconds: seconds, threads: threads)
                    guard let sample = try inFolder({ try measurement.run(type, directory: $0) }) else { continue }
                    rates[index][place].append(sample.perSecond)
                }
            }
        }
        return contenders.enumerated().flatMap { index, contender in
            Self.threadCounts.enumerated().map { place, threads in
                "{\"contender\":\"\(contender.0)\",\"threads\":\(threads),\"per_second\":\(Self.number(Figures.median(rates[index][place])))}"
            }
        }.joined(separator: ",")
    }

    // MARK: Cost by depth

    /// Both stores are filled step by step; at each depth the samples of the two alternate.
    private func byDepth() throws -> String {
        try inFolder { folder in
            let stores: [(name: String, store: any Contender)] = [
                ("queue", try QueueContender(directory: folder)), ("SQLite", try SQLiteContender(directory: folder)),
            ]
            var rows: [String] = []
            var filled = 0
            for depth in Self.depths where depth <= deepest {
                while filled < depth {
                    let count = min(depth - filled, Work.batchSize)
                    for (_, store) in stores { try store.put(Array(repeating: body, count: count)) }
                    filled += count
                }
                var costs = stores.map { _ in [Double]() }
                for _ in 0..<rounds {
                    for (index, (_, store)) in stores.enumerated() { costs[index].append(try cost(store)) }
                }
                for (index, (name, _)) in stores.enumerated() {
                    rows.append(
                        "{\"contender\":\"\(name)\",\"depth\":\(depth),\"microseconds\":\(Self.number(Figures.median(costs[index])))}")
                }
            }
            for (_, store) in stores { try store.close() }
            return rows.joined(separator: ",")
        }
    }

    /// Returns the mean time of an enqueue in microseconds.
    private func cost(_ store: any Contender) throws -> Double {
        let began = Clock.seconds()
        var count = 0
        repeat {
            try store.put(body)
            count += 1
        } while Clock.seconds() < began + seconds
        return (Clock.seconds() - began) / Double(count) * 1e6
    }

    // MARK: Attempts in flight

    /// W4b: a drain of 16 conversations, 16 attempts in flight; W4: one.
    private func inFlight() throws -> String {
        try [1, 16].map { attempts in
            var rates: [Double] = []
            for _ in 0..<rounds {
                rates.append(
                    try inFolder { folder in
                        let host = try EngineHost(directory: folder, mode: .manual, maxInFlight: attempts)
                        let count = max(Int(seconds * 10_000), attempts)
                        try host.fill(count, conversations: attempts)
                        try host.engine.setTransport(Registration({ _ in Outcome(verdict: .sent) }))
                        let began = Clock.seconds()
                        let report = try host.engine.drainAndWait(batch: 0, timeout: nil)
                        let elapsed = Clock.seconds() - began
                        guard report.sent == count else { throw Failure("the drain sent \(report.sent) of \(count) messages") }
                        try host.close()
                        return Double(count) / elapsed
                    })
            }
            let (work, rate) = (attempts == 1 ? "W4" : "W4b", Self.number(Figures.median(rates)))
            return "{\"work\":\"\(work)\",\"in_flight\":\(attempts),\"per_second\":\(rate)}"
        }.joined(separator: ",")
    }

    // MARK: Latencies

    private func latencies() throws -> String {
        var rows: [(work: String, contender: String, samples: [Double])] = [
            ("F8", "queue", []), ("W8", "queue", []), ("W8", "SQLite", []), ("W8 spaced", "queue", []), ("W8 spaced", "SQLite", []),
        ]
        for _ in 0..<rounds {
            rows[0].samples += try inFolder { try enqueueWhileDraining($0) }
            rows[1].samples += try inFolder { try enqueueToTransport($0, pause: 0) }
            rows[2].samples += try inFolder { try enqueueToConsumer($0, pause: 0) }
            rows[3].samples += try inFolder { try enqueueToTransport($0, pause: Self.pause) }
            rows[4].samples += try inFolder { try enqueueToConsumer($0, pause: Self.pause) }
        }
        return rows.map { work, contender, samples in
            let sorted = samples.sorted()
            func at(_ share: Double) -> String {
                sorted.isEmpty ? "0" : Self.number(sorted[min(Int(Double(sorted.count) * share), sorted.count - 1)])
            }
            return """
                {"work":"\(work)","contender":"\(contender)","samples":\(sorted.count),\
                "p50_microseconds":\(at(0.5)),"p99_microseconds":\(at(0.99)),"max_microseconds":\(at(1))}
                """
        }.joined(separator: ",")
    }

    /// F8: the time of an enqueue, about one each millisecond, while 64 attempts are in flight whose transport does nothing.
    private func enqueueWhileDraining(_ folder: String) throws -> [Double] {
        let host = try EngineHost(directory: folder, mode: .manual, maxInFlight: 64)
        try host.fill(max(Int(seconds * 30_000), 64), conversations: 64)
        try host.engine.setTransport(Registration({ _ in Outcome(verdict: .sent) }))
        let lock = Lock()
        nonisolated(unsafe) var isDraining = true
        try host.engine.drain(batch: 0, timeout: nil) { _ in lock.whileHeld { isDraining = false } }
        var samples: [Double] = []
        let end = Clock.seconds() + seconds
        repeat {
            let began = Clock.seconds()
            try host.enqueue(body, "live")
            samples.append((Clock.seconds() - began) * 1e6)
            usleep(1_000)
        } while lock.whileHeld({ isDraining }) && Clock.seconds() < end
        try host.close()
        return samples
    }

    /// Between two messages of W8 spaced, in microseconds.
    private static let pause: UInt32 = 2_000

    /// W8: from the call of enqueue to the call of the transport, of a queue that is online and has nothing else to send.
    private func enqueueToTransport(_ folder: String, pause: UInt32) throws -> [Double] {
        let host = try EngineHost(directory: folder, mode: .auto, maxInFlight: 1)
        let handover = Handover()
        try host.engine.setTransport(
            Registration({ _ in
                handover.arrived()
                return Outcome(verdict: .sent)
            }))
        let samples = try handover.measure(seconds, pause: pause) { try host.enqueue(body, "bench") }
        try host.close()
        return samples
    }

    /// The same of a bare table whose consumer waits for the producer's signal and reads the row.
    private func enqueueToConsumer(_ folder: String, pause: UInt32) throws -> [Double] {
        let store = try SQLiteContender(directory: folder)
        let (handover, inserted) = (Handover(), Semaphore())
        nonisolated(unsafe) let shared = store
        nonisolated(unsafe) var isEnded = false
        nonisolated(unsafe) var samples: [Double] = []
        let body = body
        let lock = Lock()
        nonisolated(unsafe) var role = 0
        try Threads.run(2) {
            let isProducer = lock.whileHeld {
                role += 1
                return role == 1
            }
            guard isProducer else {
                var sequence: Int64 = 0
                while true {
                    inserted.wait()
                    if lock.whileHeld({ isEnded }) { return }
                    sequence += 1
                    try shared.read(sequence)
                    handover.arrived()
                }
            }
            defer {
                lock.whileHeld { isEnded = true }
                inserted.post()
            }
            samples = try handover.measure(seconds, pause: pause) {
                try shared.put(body)
                inserted.post()
            }
        }
        try store.close()
        return samples
    }
}

/// The monotonic clock.
enum Clock {
    static func seconds(_ clock: clockid_t = CLOCK_MONOTONIC) -> Double {
        var time = timespec()
        clock_gettime(clock, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}

/// Measures the time from a call to its arrival on another thread.
private final class Handover: @unchecked Sendable {
    private let semaphore = Semaphore()
    private var arrivedAt = 0.0

    func arrived() {
        arrivedAt = Clock.seconds()
        semaphore.post()
    }

    /// Repeats the call, and waits after each for its arrival, then `pause` microseconds. Returns microseconds.
    func measure(_ seconds: Double, pause: UInt32, _ call: () throws -> Void) throws -> [Double] {
        var samples: [Double] = []
        let end = Clock.seconds() + seconds
        repeat {
            let began = Clock.seconds()
            try call()
            semaphore.wait()
            samples.append((arrivedAt - began) * 1e6)
            if pause > 0 { usleep(pause) }
        } while Clock.seconds() < end
        return samples
    }
}

/// The engine without the Swift API's tasks, as the C interface calls it.
private struct EngineHost {
    let engine: Engine

    init(directory: String, mode: Mode, maxInFlight: Int) throws {
        var options = Options()
        options.mode = mode
        options.direct = mode == .auto
        options.maxInFlight = maxInFlight
        engine = try Engine.open(path: "\(directory)/queue.db", options: options)
    }

    func enqueue(_ body: [UInt8], _ conversation: String) throws { try put(body, [conversation]) }

    /// Enqueues messages, in turn in each of the conversations.
    func fill(_ count: Int, conversations: Int) throws {
        let body = [UInt8](repeating: 0x6d, count: Work.bodySize)
        var done = 0
        while done < count {
            let names = (done..<min(done + Work.batchSize, count)).map { "c\($0 % conversations)" }
            try put(body, names)
            done += names.count
        }
    }

    /// Enqueues one message for each of the conversations.
    private func put(_ body: [UInt8], _ conversations: [String]) throws {
        try body.withUnsafeBytes { bytes in
            let drafts = conversations.map {
                BorrowedDraft(
                    id: nil, conversation: Name($0), body: bytes, metadata: [], notBefore: 0, expiresAt: 0, unmeteredOnly: false)
            }
            _ = try engine.enqueue(DraftBatch(count: drafts.count) { Array(drafts[$0]) })
        }
    }

    func close() throws { _ = try engine.close(timeout: 5_000) }
}
